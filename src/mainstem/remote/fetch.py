"""Fetch: a partition's record batches as stored, straight from the partition leader.

How this works: librdkafka would make an object of every event, which costs more than all the rest
of reading. Here batches stay bytes. While one answer is worked on, the next is asked for already.
Isolation is read_committed: the answer ends before the first open transaction, and names the
aborted ones, which the reader of the batches has to leave out.
"""

import time
from collections.abc import Iterator
from struct import Struct

import msgspec
from confluent_kafka import KafkaError

from mainstem.core.batch import read_header
from mainstem.core.errors import OffsetOutOfRange, Unreachable
from mainstem.remote.admin import Place
from mainstem.remote.cluster import Cluster
from mainstem.remote.connection import INT32, Answer, Connection, array, string
from mainstem.remote.errors import explained
from mainstem.remote.leaders import MOVED, Leaders

_FETCH, _VERSION = 1, 4
_REQUEST = Struct(">iiiib")
_PARTITION = Struct(">iqi")
_AT_ONCE_BYTES = 4 << 20
_SAMPLE_BYTES = 64 << 10
_WAIT_MS = 500
_READ_COMMITTED = 1
_NO_REPLICA = -1
_AGAIN_S = 0.1
_LENGTH_AT, _LENGTH_BEFORE = 8, 12


class Aborted(msgspec.Struct, frozen=True):
    """A transaction that was aborted: what its producer wrote from an offset on does not count."""

    producer_id: int
    first_offset: int


class Fetched(msgspec.Struct, frozen=True):
    """An answer: whole batches, and where to go on after them."""

    batches: list[memoryview]
    aborted: list[Aborted]
    position: int


class _Answered(msgspec.Struct, frozen=True):
    records: memoryview
    aborted: list[Aborted]
    stable: int
    """Where the first open transaction begins, or else the end."""


_NOTHING = _Answered(memoryview(b""), [], -1)


def fetch(cluster: Cluster, place: Place, start: int, end: int) -> Iterator[Fetched]:
    """Fetch batches until the position is at or past the end; the first may begin before start.

    ``end`` must be in the committed part of the partition. Raises OffsetOutOfRange if the start is
    not there any more.
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
    """Return how large events are from an offset on, as stored, by a look at the first few."""
    connection = leaders.connection(place)
    _ask(connection, place, start, _SAMPLE_BYTES)
    answered = _answer(connection.receive(), cluster, place, start)
    batches = list(_whole(answered.records))
    if not batches:
        return 0.0
    first, last = read_header(batches[0]), read_header(batches[-1])
    return sum(map(len, batches)) / (last.last_offset + 1 - first.base_offset)


class _Moved(Unreachable):
    """Another broker leads the partition by now."""


def _run(
    connection: Connection, cluster: Cluster, place: Place, position: int, end: int
) -> Iterator[Fetched]:
    heard_at = time.monotonic()
    _ask(connection, place, position)
    while position < end:
        answered = _answer(connection.receive(), cluster, place, position)
        batches = list(_whole(answered.records))
        if batches:
            # Where the last batch ends, also if compaction took its last events.
            position = read_header(batches[-1]).last_offset + 1
            heard_at = time.monotonic()
        elif answered.stable >= end:
            # Compaction took everything up to the end.
            return
        elif time.monotonic() - heard_at > cluster.timeout_s:
            raise Unreachable(cluster.address, f"nothing came in {cluster.timeout_s:g} s")
        if position < end:
            _ask(connection, place, position)
        if batches:
            yield Fetched(batches, answered.aborted, position)


def _ask(
    connection: Connection, place: Place, position: int, max_bytes: int = _AT_ONCE_BYTES
) -> None:
    topic, partition = place
    head = _REQUEST.pack(_NO_REPLICA, _WAIT_MS, 1, max_bytes, _READ_COMMITTED)
    asked = array([_PARTITION.pack(partition, position, max_bytes)])
    connection.send(_FETCH, _VERSION, head + array([string(topic) + asked]))


def _answer(answer: Answer, cluster: Cluster, place: Place, position: int) -> _Answered:
    """Read the answer about the only partition that was asked for."""
    throttled_ms = answer.int32()
    if not answer.int32():
        # A broker with quotas answers so, and wants to be left alone for a while.
        time.sleep(throttled_ms / 1000)
        return _NOTHING
    answer.string()
    answer.int32()
    answer.int32()
    code = answer.int16()
    answer.int64()
    stable = answer.int64()
    aborted = answer.array(lambda: Aborted(answer.int64(), answer.int64()))
    records = answer.data()
    if code in MOVED:
        raise _Moved(cluster.address, KafkaError(code).str())
    if code == KafkaError.OFFSET_OUT_OF_RANGE:
        where = f"partition {place[1]} of topic {place[0]!r}"
        raise OffsetOutOfRange(where, position, -1, -1)
    if code:
        raise explained(KafkaError(code), cluster.address, topic=place[0], partition=place[1])
    return _Answered(records, aborted, stable)


def _whole(records: memoryview) -> Iterator[memoryview]:
    """Cut records into batches; brokers may send a piece of one at the end."""
    at = 0
    while len(records) - at >= _LENGTH_BEFORE:
        (length,) = INT32.unpack_from(records, at + _LENGTH_AT)
        size = _LENGTH_BEFORE + length
        if length <= 0 or at + size > len(records):
            return
        yield records[at : at + size]
        at += size
