"""A message of AMQP is the same event for Kafka, Spark and Python, whoever published it."""

from pathlib import Path

import pika  # type: ignore[import-untyped]
from pyspark.sql import SparkSession
from tests.foreign_clients.amqp.pika_client import Inbox, channel_of, waiting
from tests.in_process_server import server
from tests.pipelines.format.seen_events import seen_by_kafka, seen_by_python, seen_by_spark

import mainstem
from mainstem.core.event import NATIVE_HEADER
from mainstem.node.config import Config
from mainstem.node.server import Running

CONFIG = Config().listening(amqp="127.0.0.1:0")
SENT = 20
HEADERS = [("content-type", b"text/plain"), ("colour", "grün".encode())]
QUEUE = "published.by.amqp"


def test_a_message_published_by_amqp_is_the_same_event_for_all(
    spark: SparkSession, tmp_path: Path
) -> None:
    with server(tmp_path, config=CONFIG) as running:
        publish_by_amqp(running)
        address = str(running.kafka)
        by_kafka = seen_by_kafka(address, QUEUE, SENT, partitions=2)
        by_spark = seen_by_spark(spark, address, QUEUE)
        with mainstem.connect(address) as stem:
            by_python = seen_by_python(stem, QUEUE, SENT)
    with mainstem.open(tmp_path) as stem:
        by_embedded_python = seen_by_python(stem, QUEUE, SENT)

    assert [each.value for each in by_kafka] == [str(n).encode() for n in range(SENT)]
    # Each priority is a partition.
    assert [each.position for each in by_kafka] == [(n % 2, n // 2) for n in range(SENT)]
    assert dict(by_kafka[1].headers).keys() == {
        "content-type",
        "delivery-mode",
        "priority",
        "colour",
        NATIVE_HEADER,
    }
    assert dict(by_kafka[1].headers)["colour"] == "grün".encode()
    assert by_kafka == by_spark == by_python == by_embedded_python


def test_rows_that_spark_writes_to_a_queue_are_messages_for_amqp(
    spark: SparkSession, tmp_path: Path
) -> None:
    with server(tmp_path, config=CONFIG) as running, channel_of(running) as channel:
        channel.queue_declare(QUEUE, durable=True)
        inbox = Inbox(channel, QUEUE)
        address = str(running.kafka)
        rows = [(str(n), HEADERS) for n in range(SENT)]
        schema = "value string, headers array<struct<key: string, value: binary>>"
        frame = spark.createDataFrame(rows, schema).coalesce(1)
        frame.write.format("mainstem").option("address", address).mode("append").save(QUEUE)
        messages = inbox.take(SENT)
        by_kafka = seen_by_kafka(address, QUEUE, SENT)
        by_spark = seen_by_spark(spark, address, QUEUE)
        channel.basic_ack(0, multiple=True)
        left = waiting(channel, QUEUE)

    assert [each.body for each in messages] == [each.value for each in by_kafka]
    assert by_kafka == by_spark
    first = messages[0]
    assert (first.method.exchange, first.method.routing_key) == ("", QUEUE)
    assert first.properties.content_type == "text/plain"
    assert first.properties.headers == {"colour": "grün"}
    assert left == 0


def publish_by_amqp(running: Running) -> None:
    connection = pika.BlockingConnection(pika.ConnectionParameters(*running.addresses["amqp"].pair))
    channel = connection.channel()
    channel.confirm_delivery()
    channel.queue_declare(QUEUE, durable=True, arguments={"x-max-priority": 1})
    for number in range(SENT):
        said = pika.BasicProperties(
            content_type="text/plain",
            headers={"colour": "grün"},
            delivery_mode=2,
            priority=number % 2,
        )
        channel.basic_publish("", QUEUE, str(number).encode(), said)
    connection.close()
