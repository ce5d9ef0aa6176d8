"""Connections to the brokers that lead partitions."""

from contextlib import suppress

from confluent_kafka import KafkaError

from mainstem.core.errors import Unreachable
from mainstem.kafka_protocol.messages.metadata import (
    METADATA,
    MetadataRequest,
    MetadataResponse,
    MetadataTopicName,
)
from mainstem.remote.admin import Place
from mainstem.remote.cluster import Cluster, host_and_port
from mainstem.remote.connection import Connection
from mainstem.remote.errors import core_error

MOVED = frozenset(
    {
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.REPLICA_NOT_AVAILABLE,
        KafkaError.BROKER_NOT_AVAILABLE,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.KAFKA_STORAGE_ERROR,
    }
)
"""Error codes that mean that the leader has changed: fetch the metadata again."""
_VERSION = 4


class Leaders:
    """Connections to partition leaders, opened on first use."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._leader: dict[Place, tuple[str, int]] = {}
        self._connections: dict[tuple[str, int], Connection] = {}

    def connection(self, place: Place) -> Connection:
        """Return a connection to the broker that leads a partition."""
        if place not in self._leader:
            self._look(place[0])
        if place not in self._leader:
            raise Unreachable(
                self._cluster.address, f"nobody leads partition {place[1]} of topic {place[0]!r}"
            )
        at = self._leader[place]
        if at not in self._connections:
            self._connections[at] = Connection(*at, self._cluster.timeout_s)
        return self._connections[at]

    def forget(self, place: Place) -> None:
        """Forget which broker leads a partition, and close the connection to that broker."""
        at = self._leader.pop(place, None)
        if at is not None and at in self._connections:
            self._connections.pop(at).close()

    def close(self) -> None:
        """Close the connections to all brokers."""
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def _look(self, topic: str) -> None:
        connection = self._any()
        try:
            asked = MetadataRequest(
                (MetadataTopicName(name=topic),), allow_auto_topic_creation=False
            )
            self._read(connection.ask(METADATA, _VERSION, asked, MetadataResponse))
        finally:
            connection.close()

    def _any(self) -> Connection:
        """Return a connection to the first bootstrap address that responds."""
        first, *others = self._cluster.address.split(",")
        for place in others:
            with suppress(Unreachable):
                return Connection(*host_and_port(place), self._cluster.timeout_s)
        return Connection(*host_and_port(first), self._cluster.timeout_s)

    def _read(self, response: MetadataResponse) -> None:
        brokers = {broker.node_id: (broker.host, broker.port) for broker in response.brokers}
        for topic in response.topics:
            name, code = topic.name or "", topic.error_code
            if code and code not in MOVED:
                raise core_error(KafkaError(code), self._cluster.address, topic=name)
            for each in topic.partitions:
                if each.leader_id in brokers:
                    self._leader[name, each.partition_index] = brokers[each.leader_id]
