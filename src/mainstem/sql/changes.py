"""Follows a query: evaluates it again when events arrive, and yields how its result changed.

How this works: a consumer waits at the end of the snapshot, so the server answers its fetch when an
event is committed. Then the query is evaluated over a snapshot that ends later, and the two results
are compared as bags of rows (sets with duplicates). If each row of a query depends on one event
only, it is evaluated over the new events only.
"""

from collections import Counter
from collections.abc import Generator

import msgspec
import pyarrow as pa
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from mainstem.remote.cluster import Cluster
from mainstem.remote.errors import core_error
from mainstem.sql.query import Query
from mainstem.sql.snapshot import Snapshot

Row = tuple[object, ...]
_TURN_S = 0.5
_AT_ONCE = 10_000
_encoder = msgspec.msgpack.Encoder(enc_hook=repr)


class Changes(msgspec.Struct, frozen=True):
    """How an evaluation changed the result: rows ``removed`` from it, and rows ``added``."""

    snapshot: Snapshot
    schema: pa.Schema
    removed: list[Row]
    added: list[Row]


def follow(cluster: Cluster, query: Query) -> Generator[Changes]:
    """Yield the first result, as added rows, and then every change of the result, for ever."""
    snapshot = query.snapshot()
    with Arrivals(cluster, snapshot) as arrivals:
        schema, rows = _rows(query, snapshot, None)
        result = {} if query.appends else _bag(rows)
        yield Changes(snapshot, schema, [], rows)
        while True:
            arrivals.wait()
            before, snapshot = snapshot, query.snapshot()
            arrivals.add(snapshot)
            if query.appends:
                part = snapshot.after(before)
                schema, rows = _rows(query, part, snapshot) if part.events else (schema, [])
                changes = Changes(snapshot, schema, [], rows)
            else:
                schema, rows = _rows(query, snapshot, None)
                bag = _bag(rows)
                changes = Changes(snapshot, schema, _less(result, bag), _less(bag, result))
                result = bag
            yield changes


class Arrivals:
    """Waits for events after the end of a snapshot."""

    def __init__(self, cluster: Cluster, snapshot: Snapshot) -> None:
        self._cluster = cluster
        self._consumer = Consumer(
            cluster.config(
                group_id="mainstem-reader",
                enable_auto_commit=False,
                auto_offset_reset="latest",
                isolation_level="read_committed",
                fetch_wait_max_ms=5_000,
                queued_max_messages_kbytes=1_024,
            )
        )
        self._assigned: set[tuple[str, int]] = set()
        self.add(snapshot)

    def __enter__(self) -> "Arrivals":
        return self

    def __exit__(self, *_: object) -> None:
        self._consumer.close()

    def add(self, snapshot: Snapshot) -> None:
        """Wait for events in the partitions of this snapshot, too, from its end on."""
        new = {
            (name, span.partition): span.end
            for name, topic in snapshot.topics.items()
            for span in topic.spans
            if (name, span.partition) not in self._assigned
        }
        if new:
            self._assigned |= new.keys()
            self._consumer.incremental_assign(
                [TopicPartition(*place, offset) for place, offset in new.items()]
            )

    def wait(self) -> None:
        """Wait until at least one event has arrived; discard all that have been fetched."""
        while True:
            try:
                found = self._consumer.consume(1, _TURN_S)
                if found:
                    found += self._consumer.consume(_AT_ONCE, 0)
            except KafkaException as error:
                raise self._cluster.refusal(error) from None
            for message in found:
                self._check(message.error(), message.topic() or "")
            if any(message.error() is None for message in found):
                return

    def _check(self, error: KafkaError | None, topic: str) -> None:
        if error is not None and not error.retriable() and error.fatal():
            raise core_error(error, self._cluster.address, topic=topic)


def _rows(query: Query, snapshot: Snapshot, whole: Snapshot | None) -> tuple[pa.Schema, list[Row]]:
    result = query.run(snapshot, of=whole)
    rows = [
        row
        for batch in result.batches
        for row in zip(*(column.to_pylist() for column in batch.columns), strict=True)
    ]
    return result.schema, rows


_Bag = dict[bytes, tuple[Row, int]]


def _bag(rows: list[Row]) -> _Bag:
    keys = [_encoder.encode(row) for row in rows]
    counts = Counter(keys)
    return {key: (row, counts[key]) for key, row in zip(keys, rows, strict=True)}


def _less(one: _Bag, other: _Bag) -> list[Row]:
    """Return the rows that ``one`` has more often than ``other``, as often as the difference."""
    return [
        row
        for key, (row, count) in one.items()
        for _ in range(count - (other[key][1] if key in other else 0))
    ]
