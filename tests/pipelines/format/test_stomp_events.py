"""An event sent by STOMP is the same event for Kafka, Spark and Python, at the same position."""

from pathlib import Path
from typing import NamedTuple

import stomp  # type: ignore[import-untyped]
from confluent_kafka import Consumer, TopicPartition
from pyspark.sql import SparkSession
from tests.in_process_server import server
from tests.pipelines.format.topics import PATIENCE_S, Topic

import mainstem
from mainstem.node.config import Config
from mainstem.node.server import Running

CONFIG = Config().listening(stomp="127.0.0.1:0")
SENT = 20


class Seen(NamedTuple):
    """An event as one of the clients sees it."""

    position: tuple[int, ...]
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, str | bytes | None], ...]


def test_an_event_sent_by_stomp_is_the_same_event_for_all(
    spark: SparkSession, tmp_path: Path
) -> None:
    with server(tmp_path, config=CONFIG) as running:
        topic = Topic(str(running.kafka), "sent.by.stomp", partitions=2)
        send_by_stomp(running, topic.name)
        by_kafka = seen_by_kafka(topic)
        by_spark = seen_by_spark(spark, topic)
        with mainstem.connect(topic.address) as stem:
            by_python = seen_by_python(stem, topic.name)
    with mainstem.open(tmp_path) as stem:
        by_embedded_python = seen_by_python(stem, topic.name)

    assert [each.value for each in by_kafka] == [str(n).encode() for n in range(SENT)]
    assert {each.position[0] for each in by_kafka} == {0, 1}
    assert by_kafka[1].headers == (("colour", b"red"), ("odd", "a:ü\n".encode()))
    assert {each.key for each in by_kafka} == {b"even", None}
    assert by_kafka == by_spark == by_python == by_embedded_python


def send_by_stomp(running: Running, topic: str) -> None:
    """Every second event has a key, the others have none."""
    connection = stomp.StompConnection12([running.addresses["stomp"].pair])
    listener = stomp.WaitingListener("last")
    connection.set_listener("", listener)
    connection.connect("ann", "secret", wait=True)
    for number in range(SENT):
        headers = {"mainstem-key": "even"} if number % 2 == 0 else {}
        headers |= {"colour": "red", "odd": "a:ü\n"}
        receipt = "last" if number == SENT - 1 else None
        connection.send(f"/topic/{topic}", str(number), headers=headers, receipt=receipt)
    listener.wait_on_receipt()
    connection.disconnect()


def in_order(events: list[Seen]) -> list[Seen]:
    return sorted(events, key=lambda each: int(each.value or b""))


def seen_by_kafka(topic: Topic) -> list[Seen]:
    consumer = Consumer({"bootstrap.servers": topic.address, "group.id": "of no account"})
    consumer.assign([TopicPartition(topic.name, partition, 0) for partition in (0, 1)])
    found: list[Seen] = []
    while len(found) < SENT:
        message = consumer.poll(PATIENCE_S)
        assert message is not None
        headers = tuple(dict(message.headers() or ()).items())
        position = message.partition() or 0, message.offset() or 0
        found.append(Seen(position, message.key(), message.value(), headers))
    consumer.close()
    return in_order(found)


def seen_by_spark(spark: SparkSession, topic: Topic) -> list[Seen]:
    table = spark.read.format("mainstem").option("address", topic.address).load(topic.name)
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


def seen_by_python(stem: mainstem.Stem, topic: str) -> list[Seen]:
    subscription = stem.subscribe(topic, start="earliest")
    found: list[Seen] = []
    while len(found) < SENT:
        event = subscription.poll(PATIENCE_S)
        assert event is not None
        found.append(Seen(tuple(event.position), event.key, event.value, event.headers))
    subscription.close()
    return in_order(found)
