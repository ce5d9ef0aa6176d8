"""What tests ask of a server that is killed now and then, over the network."""

from collections.abc import Callable, Iterable
from random import Random
from typing import Any, Protocol

from confluent_kafka import Consumer, TopicPartition
from tests.connectors.mirror import Mirror
from tests.connectors.postgres.equality import assert_equal
from tests.faults.killable_server import PATIENCE_S, Mortal
from tests.processes import wait_until

from mainstem.cli.admin_port import ServerAdmin
from mainstem.core.errors import MainstemError
from mainstem.core.event import Event
from mainstem.node.connector_operations import SHOW, ConnectorInfo


class Killable(Protocol):
    """A server that can be killed, and started again."""

    def kill(self) -> None:
        """Kill -9."""

    def start(self) -> None:
        """Start again."""


def may_die(rng: Random, chance: float, server: Killable) -> None:
    """Kill a server with a probability, and start it again."""
    if rng.random() < chance:
        server.kill()
        server.start()


def events_of(address: str, topic: str) -> list[Event]:
    """Return every event of a topic as a Kafka client reads it, one partition after the other."""
    settings = {"bootstrap.servers": address, "group.id": "reader", "enable.auto.commit": False}
    consumer = Consumer(settings)
    try:
        known = consumer.list_topics(topic, PATIENCE_S).topics[topic].partitions
        return [each for number in sorted(known) for each in _partition(consumer, topic, number)]
    finally:
        consumer.close()


def _partition(consumer: Consumer, topic: str, number: int) -> list[Event]:
    at = TopicPartition(topic, number, 0)
    consumer.assign([at])
    _, tail = consumer.get_watermark_offsets(at, PATIENCE_S)
    found: list[Event] = []
    while tail and (not found or found[-1].offset < tail - 1):
        message = consumer.poll(PATIENCE_S)
        assert message is not None
        assert message.error() is None
        offset = message.offset()
        assert offset is not None
        found.append(Event(message.value(), message.key(), (), 0, topic, number, offset))
    return found


def has_reached(server: Mortal, target: tuple[int, ...]) -> bool:
    """Tell whether the connector ``shop`` has stored a position and has nothing left to read."""
    try:
        state = ServerAdmin(server.address).read(SHOW, {"name": "shop"}, ConnectorInfo)
    except MainstemError:
        return False
    return tuple(state.position) >= target and not state.pending


def assert_topics_equal_tables(
    server: Mortal,
    end: tuple[int, ...],
    schema: str,
    tables: Iterable[str],
    rows: Callable[[str], dict[bytes, dict[str, Any]]],
) -> None:
    """Wait until the connector ``shop`` has come to a position; compare topics with rows then."""
    wait_until(lambda: has_reached(server, end), lambda: f"not caught up: {server.said}")
    for table in tables:
        mirror = Mirror().apply_all(events_of(server.address, f"shop.{schema}.{table}"))
        assert_equal(mirror, rows(table))
