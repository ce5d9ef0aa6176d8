"""What tests ask of a server that is killed now and then, over the network."""

from confluent_kafka import Consumer, TopicPartition
from tests.faults.killable_server import PATIENCE_S, Mortal

from mainstem.cli.admin_port import ServerAdmin
from mainstem.core.errors import MainstemError
from mainstem.core.event import Event
from mainstem.node.connector_operations import SHOW, ConnectorInfo


def events_of(address: str, topic: str) -> list[Event]:
    """Return every event of a topic with one partition, as a Kafka client reads it."""
    settings = {"bootstrap.servers": address, "group.id": "reader", "enable.auto.commit": False}
    consumer = Consumer(settings)
    try:
        at = TopicPartition(topic, 0, 0)
        consumer.assign([at])
        _, tail = consumer.get_watermark_offsets(at, PATIENCE_S)
        found: list[Event] = []
        while not found or found[-1].offset < tail - 1:
            message = consumer.poll(PATIENCE_S)
            assert message is not None
            assert message.error() is None
            offset = message.offset()
            assert offset is not None
            found.append(Event(message.value(), message.key(), (), 0, topic, 0, offset))
        return found
    finally:
        consumer.close()


def has_reached(server: Mortal, target: tuple[int, ...]) -> bool:
    """Tell whether the connector ``shop`` has stored a position and has nothing left to read."""
    try:
        state = ServerAdmin(server.address).read(SHOW, {"name": "shop"}, ConnectorInfo)
    except MainstemError:
        return False
    return tuple(state.position) >= target and not state.pending
