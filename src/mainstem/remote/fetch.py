"""Fetches a partition's record batches as they are stored, from the partition leader.

How this works: librdkafka would create an object for every event, which costs more than all other
work of reading. Here batches stay bytes. While one response is processed, the next fetch is already
sent. Isolation is read_committed: a response ends before the first open transaction, and lists the
aborted ones, whose batches the caller must skip.
"""

import time
from collections.abc import Iterator, Sequence
from struct import Struct

import msgspec
from confluent_kafka import KafkaError

from mainstem.core.batch import read_header
from mainstem.core.errors import OffsetOutOfRange, Unreachable
from mainstem.kafka_protocol.messages.fetch import (
    FETCH,
    AbortedTransaction,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)
from mainstem.remote.admin import Place
from mainstem.remote.cluster import Cluster
from mainstem.remote.connection import Connection
from mainstem.remote.errors import core_error
from mainstem.remote.leaders import MOVED, Leaders

_VERSION = 4
_INT32 = Struct(">i")
_AT_ONCE_BYTES = 4 << 20
_SAMPLE_BYTES = 64 << 10
_WAIT_MS = 500
_READ_COMMITTED = 1
_AGAIN_S = 0.1
_LENGTH_AT, _LENGTH_BEFORE = 8, 12


class Fetched(msgspec.Struct, frozen=True):
    """Whole record batches, and the offset after them."""

    batches: list[memoryview]
    aborted: Sequence[AbortedTransaction]
    position: int


class _Answered(msgspec.Struct, frozen=True):
    records: memoryview
    aborted: Sequence[AbortedTransaction]
    stable: int
    """The last stable offset, where the first open transaction begins."""


_NOTHING = _Answered(memoryview(b""), (), -1)


def fetch(cluster: Cluster, place: Place, start: int, end: int) -> Iterator[Fetched]:
    """Fetch record batches up to ``end``; the first may begin before ``start``.

    ``end`` must be in the committed part of the partition. Raises OffsetOutOfRange if the start was
    deleted.
    """
    leaders = Leaders(cluster)
    try:
        position = start
        until = time.monotonic() + cluster.timeout_s
        while True:
            try:
                connection = leaders.connection(place)
                for found in _run(connection, cluster, place, position, end):
                    position = found.position
                    until = time.monotonic() + cluster.timeout_s
                    yield found
                return
            except (Unreachable, _Moved):
                if time.monotonic() > until:
                    raise
                leaders.forget(place)
                time.sleep(_AGAIN_S)
    finally:
        leaders.close()


def bytes_per_offset(leaders: Leaders, cluster: Cluster, place: Place, start: int) -> float:
    """Estimate the stored bytes per event from offset ``start`` on, from a small sample."""
    connection = leaders.connection(place)
    _ask(connection, place, start, _SAMPLE_BYTES)
    answered = _answer(connection.receive(FetchResponse), cluster, place, start)
    batches = list(_whole(answered.records))
    if not batches:
        return 0.0
    first, last = read_header(batches[0]), read_header(batches[-1])
    return sum(map(len, batches)) / (last.last_offset + 1 - first.base_offset)


class _Moved(Unreachable):
    """Another broker is the partition's leader now."""


def _run(
    connection: Connection, cluster: Cluster, place: Place, position: int, end: int
) -> Iterator[Fetched]:
    heard_at = time.monotonic()
    _ask(connection, place, position)
    while position < end:
        answered = _answer(connection.receive(FetchResponse), cluster, place, position)
        batches = list(_whole(answered.records))
        if batches:
            # The end of the last batch, even if compaction removed its last events.
            position = read_header(batches[-1]).last_offset + 1
            heard_at = time.monotonic()
        elif answered.stable >= end:
            # Compaction removed everything up to the end.
            return
        elif time.monotonic() - heard_at > cluster.timeout_s:
            raise Unreachable(cluster.address, f"no response within {cluster.timeout_s:g} s")
        if position < end:
            _ask(connection, place, position)
        if batches:
            yield Fetched(batches, answered.aborted, position)


def _ask(
    connection: Connection, place: Place, position: int, max_bytes: int = _AT_ONCE_BYTES
) -> None:
    topic, partition = place
    asked = FetchPartition(partition, fetch_offset=position, partition_max_bytes=max_bytes)
    request = FetchRequest(
        max_wait_ms=_WAIT_MS,
        min_bytes=1,
        max_bytes=max_bytes,
        isolation_level=_READ_COMMITTED,
        topics=(FetchTopic(topic=topic, partitions=(asked,)),),
    )
    connection.send(FETCH, _VERSION, request)


def _answer(response: FetchResponse, cluster: Cluster, place: Place, position: int) -> _Answered:
    """Return what a response has for its one partition; raises its error."""
    found = [each for topic in response.responses for each in topic.partitions]
    if not found:
        # The broker throttles this client, which must send no request for that time.
        time.sleep(response.throttle_time_ms / 1000)
        return _NOTHING
    partition = found[0]
    code = partition.error_code
    if code in MOVED:
        raise _Moved(cluster.address, KafkaError(code).str())
    if code == KafkaError.OFFSET_OUT_OF_RANGE:
        where = f"partition {place[1]} of topic {place[0]!r}"
        raise OffsetOutOfRange(where, position, -1, -1)
    if code:
        raise core_error(KafkaError(code), cluster.address, topic=place[0], partition=place[1])
    records = partition.records or b""
    assert isinstance(records, bytes | memoryview)
    return _Answered(
        memoryview(records), partition.aborted_transactions or (), partition.last_stable_offset
    )


def _whole(records: memoryview) -> Iterator[memoryview]:
    """Split records into whole batches; drops an incomplete batch at the end."""
    at = 0
    while len(records) - at >= _LENGTH_BEFORE:
        (length,) = _INT32.unpack_from(records, at + _LENGTH_AT)
        size = _LENGTH_BEFORE + length
        if length <= 0 or at + size > len(records):
            return
        yield records[at : at + size]
        at += size
