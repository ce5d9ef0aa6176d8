"""Events of a topic as Kafka clients, Spark and Python see them, in the order of their values."""

from typing import NamedTuple

from confluent_kafka import Consumer, TopicPartition
from pyspark.sql import SparkSession
from tests.pipelines.format.topics import PATIENCE_S

import mainstem


class Seen(NamedTuple):
    """An event as one of the clients sees it."""

    position: tuple[int, ...]
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, str | bytes | None], ...]


def in_order(events: list[Seen]) -> list[Seen]:
    return sorted(events, key=lambda each: int(each.value or b""))


def seen_by_kafka(address: str, topic: str, count: int, partitions: int = 1) -> list[Seen]:
    consumer = Consumer({"bootstrap.servers": address, "group.id": "of no account"})
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(partitions)])
    found: list[Seen] = []
    while len(found) < count:
        message = consumer.poll(PATIENCE_S)
        assert message is not None
        headers = tuple(dict(message.headers() or ()).items())
        position = message.partition() or 0, message.offset() or 0
        found.append(Seen(position, message.key(), message.value(), headers))
    consumer.close()
    return in_order(found)


def seen_by_spark(spark: SparkSession, address: str, topic: str) -> list[Seen]:
    table = spark.read.format("mainstem").option("address", address).load(topic)
    return in_order(
        [
            Seen(
                (row.partition, row.offset),
                None if row.key is None else bytes(row.key),
                bytes(row.value),
                tuple((header.key, bytes(header.value)) for header in row.headers or ()),
            )
            for row in table.collect()
        ]
    )


def seen_by_python(stem: mainstem.Stem, topic: str, count: int) -> list[Seen]:
    subscription = stem.subscribe(topic, start="earliest")
    found: list[Seen] = []
    while len(found) < count:
        event = subscription.poll(PATIENCE_S)
        assert event is not None
        found.append(Seen(tuple(event.position), event.key, event.value, event.headers))
    subscription.close()
    return in_order(found)
