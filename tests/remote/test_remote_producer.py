"""Producing when the publisher is interrupted."""

import threading

import pytest
from confluent_kafka import KafkaError, Message
from tests.in_process_server import serving

import mainstem
from mainstem.core.event import Event
from mainstem.remote.cluster import Cluster
from mainstem.remote.producer import DeliveryReports, RemoteProducer, Settled

PATIENCE_S = 30


class Interrupted(RemoteProducer):
    """Ctrl-C comes when an event was sent, and is kept already."""

    def send(self, topic: str, event: Event, partition: int | None, settled: Settled) -> None:
        told = threading.Event()

        def tell(error: KafkaError | None, message: Message) -> None:
            settled(error, message)
            told.set()

        super().send(topic, event, partition, tell)
        assert told.wait(PATIENCE_S)
        raise KeyboardInterrupt


def test_who_is_interrupted_while_an_event_is_sent_waits_for_nothing_more() -> None:
    with serving(None) as address:
        with mainstem.connect(address) as stem:
            stem.topics.create("orders", partitions=1)
        producing = Interrupted(Cluster(address, timeout_s=30, settings={}))
        deliveries = DeliveryReports(producing, "orders", None)
        with pytest.raises(KeyboardInterrupt):
            deliveries.put(Event(b"x"))

        waiting = threading.Thread(target=deliveries.settle, daemon=True)
        waiting.start()
        waiting.join(PATIENCE_S)

        assert not waiting.is_alive()
        producing.close()
