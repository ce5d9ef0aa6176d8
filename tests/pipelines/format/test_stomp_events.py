"""An event sent by STOMP is the same event for Kafka, Spark and Python, at the same position."""

from pathlib import Path

import stomp  # type: ignore[import-untyped]
from pyspark.sql import SparkSession
from tests.in_process_server import server
from tests.pipelines.format.seen_events import seen_by_kafka, seen_by_python, seen_by_spark
from tests.pipelines.format.topics import Topic

import mainstem
from mainstem.node.config import Config
from mainstem.node.server import Running

CONFIG = Config().listening(stomp="127.0.0.1:0")
SENT = 20


def test_an_event_sent_by_stomp_is_the_same_event_for_all(
    spark: SparkSession, tmp_path: Path
) -> None:
    with server(tmp_path, config=CONFIG) as running:
        topic = Topic(str(running.kafka), "sent.by.stomp", partitions=2)
        send_by_stomp(running, topic.name)
        by_kafka = seen_by_kafka(topic.address, topic.name, SENT, partitions=2)
        by_spark = seen_by_spark(spark, topic.address, topic.name)
        with mainstem.connect(topic.address) as stem:
            by_python = seen_by_python(stem, topic.name, SENT)
    with mainstem.open(tmp_path) as stem:
        by_embedded_python = seen_by_python(stem, topic.name, SENT)

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
