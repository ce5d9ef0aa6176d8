"""Writes bad events to the pipeline's dead-letter topic, each once, with the reason.

``audit.py`` decides which events are written, after each batch; ``bisection.py`` finds those on
which a table's function fails.

How this works: one transaction writes the dead letters of a batch and commits the batch's end
offsets on the source topic for a group of its own. These offsets say up to where dead letters are
written, so if the audit of a batch is repeated after a crash, it writes none. A dead letter has the
key and the value of its event; headers have the reason, and where the event was read.
"""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from itertools import chain

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from pyspark.sql import DataFrame, Row

from mainstem.core.errors import TopicExists, UnknownGroup
from mainstem.core.topic_settings import TopicSettings
from mainstem.remote.admin import Admin
from mainstem.remote.cluster import Cluster
from mainstem.remote.consumer_groups import ConsumerGroups

PREFIX = "mainstem-"


class DeadLetterWriter:
    """Writes the dead letters of one table, and a group's offsets that say up to where."""

    def __init__(self, address: str, topic: str, table: str, group: str) -> None:
        self._cluster = Cluster(address, timeout_s=30, settings={})
        self._topic = topic
        self._table = table
        self._group = group

    def write(self, rows: DataFrame, source: str, ends: Mapping[str, int]) -> int:
        """Write the bad events before the offsets ``ends`` (by partition); return their number.

        ``source`` is the topic they were read from; ``rows`` has their columns, and the reason as
        ``__bad``.
        """
        found = rows.toLocalIterator()
        first = next(found, None)
        if first is None:
            return 0
        administration = Admin(self._cluster)
        if self._is_written(ConsumerGroups(administration), source, ends):
            return rows.count()
        with suppress(TopicExists):
            settings = TopicSettings(partitions=1)
            administration.create(self._topic, {"partitions": 1}, settings)
        producer = Producer(self._cluster.config(transactional_id=self._group, linger_ms=5))
        # It reads nothing; the transaction needs its group metadata.
        consumer = Consumer(self._cluster.config(group_id=self._group))
        try:
            producer.init_transactions(self._cluster.timeout_s)
            producer.begin_transaction()
            count = self._produce(producer, chain([first], found))
            cursors = [TopicPartition(source, int(number), end) for number, end in ends.items()]
            metadata = consumer.consumer_group_metadata()
            producer.send_offsets_to_transaction(cursors, metadata, self._cluster.timeout_s)
            producer.commit_transaction(self._cluster.timeout_s)
        except KafkaException as error:
            raise self._cluster.refusal(error, topic=self._topic, group=self._group) from None
        finally:
            consumer.close()
        return count

    def _is_written(self, cursors: ConsumerGroups, source: str, ends: Mapping[str, int]) -> bool:
        try:
            known = cursors.state(self._group).cursors
        except UnknownGroup:
            return False
        return all(known.get((source, int(number)), -1) >= end for number, end in ends.items())

    def _produce(self, producer: Producer, rows: Iterable[Row]) -> int:
        count = 0
        for row in rows:
            while True:
                try:
                    producer.produce(
                        self._topic, row["value"], row["key"], headers=self._headers(row)
                    )
                    break
                except BufferError:
                    producer.poll(0.1)
            count += 1
        return count

    def _headers(self, row: Row) -> list[tuple[str, bytes | str | None]]:
        ours = {
            "reason": row["__bad"],
            "table": self._table,
            "topic": row["topic"],
            "partition": row["partition"],
            "offset": row["offset"],
            "timestamp-ms": round(row["timestamp"].timestamp() * 1000),
        }
        return [
            *((each["key"], _bytes(each["value"])) for each in row["headers"] or ()),
            *((f"{PREFIX}{name}", str(value)) for name, value in ours.items()),
        ]


def _bytes(value: bytearray | None) -> bytes | None:
    return None if value is None else bytes(value)
