"""Share groups: configs, positions (start offset, lag), and deleting the offsets.

Configs go through librdkafka. It has no calls for a group's offsets, so these requests use a
plain connection to the group's coordinator [KIP-932, KIP-1226].
"""

import threading
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import TypeVar

import msgspec
from confluent_kafka import KafkaError
from confluent_kafka.admin import ConfigResource, ResourceType

from mainstem.core.errors import (
    GroupIsLive,
    InvalidSetting,
    MainstemError,
    UnknownQueue,
    Unreachable,
    Unsupported,
)
from mainstem.kafka_protocol.api import Api
from mainstem.kafka_protocol.fields import Wire
from mainstem.kafka_protocol.messages.membership import (
    FIND_COORDINATOR,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from mainstem.kafka_protocol.messages.share_groups import (
    DELETE_SHARE_GROUP_OFFSETS,
    DESCRIBE_SHARE_GROUP_OFFSETS,
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
    DeleteShareOffsetsTopic,
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsResponse,
    ShareOffsetsGroup,
    ShareOffsetsTopic,
)
from mainstem.remote.admin import Admin
from mainstem.remote.cluster import host_and_port
from mainstem.remote.connection import Connection
from mainstem.remote.errors import core_error

R = TypeVar("R", bound=Wire)

START = "share.auto.offset.reset"
LOCK = "share.record.lock.duration.ms"
DELIVERIES = "share.delivery.count.limit"
ISOLATION = "share.isolation.level"
ACQUIRE = "mainstem.share.acquire.mode"
"""A config that only mainstem servers have: whether max.poll.records is a strict limit."""
LIMITS = {
    "ttl_ms": "mainstem.share.ttl.ms",
    "max_length": "mainstem.share.max.length",
    "max_bytes": "mainstem.share.max.bytes",
}
"""Configs that only mainstem servers have: limits of waiting events, by the broker's names."""

_FIND_VERSION, _OF_GROUP = 1, 0
_WITH_LAG = 1
_NOT_KNOWN = {KafkaError.GROUP_ID_NOT_FOUND, KafkaError.UNKNOWN_TOPIC_OR_PART}


class Standing(msgspec.Struct, frozen=True):
    """The position of a share group in one partition."""

    start: int
    """The first offset that is not settled; -1 if the group has not started in this partition."""
    lag: int
    """Number of unsettled events, including acquired ones; -1 if unknown."""


class ShareGroups:
    """Administration of share groups; thread-safe."""

    def __init__(self, administration: Admin) -> None:
        self._administration = administration
        self._cluster = administration.cluster
        self._wait = {"request_timeout": self._cluster.timeout_s}
        self._lock = threading.Lock()
        self._connections: dict[str, Connection] = {}
        """The connection to each group's coordinator."""

    # Configs

    def settings(self, group: str) -> dict[str, str]:
        """Return all configs of a group; a group that does not exist has the defaults."""
        resource = ConfigResource(ConfigResource.Type.GROUP, group)
        (future,) = self._administration.client.describe_configs([resource], **self._wait).values()
        entries = self._cluster.result(future, group=group)
        return {name: entry.value for name, entry in entries.items() if entry.value is not None}

    def set(self, group: str, wanted: Mapping[str, str], now: Mapping[str, str]) -> None:
        """Set the configs ``wanted`` of a group.

        ``now``: the present configs; those with the wanted value are not set.
        """
        changes = {name: value for name, value in wanted.items() if now.get(name) != value}
        if not changes:
            return
        future = self._administration.set_configs(ResourceType.GROUP, group, changes)
        try:
            self._cluster.result(future, group=group)
        except InvalidSetting as error:
            said = ", ".join(f"{name}={value}" for name, value in changes.items())
            raise InvalidSetting(
                f"a queue over the network is a share group, and {self._cluster.address} does not "
                f"allow {said} for {group!r:.300}: {error}"
            ) from None

    # Offsets

    def standings(
        self, group: str, topic: str, partitions: Iterable[int]
    ) -> dict[int, Standing] | None:
        """Return a group's position by partition; None if the server lacks that request."""
        if not self._cluster.is_plain:
            return None
        topics = (ShareOffsetsTopic(topic, tuple(partitions)),)
        request = DescribeShareGroupOffsetsRequest((ShareOffsetsGroup(group, topics),))
        try:
            response = self._ask(
                group,
                DESCRIBE_SHARE_GROUP_OFFSETS,
                _WITH_LAG,
                request,
                DescribeShareGroupOffsetsResponse,
            )
            return _read_standings(response)
        except MainstemError:
            # Reading meets the same error, and reports it better.
            return None

    def forget(self, group: str, topic: str) -> None:
        """Delete the offsets that a group has in a topic; the group must not have members."""
        if not self._cluster.is_plain:
            raise Unsupported(
                "forgetting a queue needs a connection without encryption and login; Kafka's own "
                "kafka-share-groups.sh --delete-offsets does it over others"
            )
        request = DeleteShareGroupOffsetsRequest(group, (DeleteShareOffsetsTopic(topic),))
        response = self._ask(
            group, DELETE_SHARE_GROUP_OFFSETS, 0, request, DeleteShareGroupOffsetsResponse
        )
        said = [(response.error_code, response.error_message)]
        said += [(each.error_code, each.error_message) for each in response.responses]
        for code, text in said:
            if code == KafkaError.NON_EMPTY_GROUP:
                raise GroupIsLive(group, "it has members", "forgotten")
            if code in _NOT_KNOWN:
                raise UnknownQueue(topic, group)
            if code:
                error = KafkaError(code, text or None)
                raise core_error(error, self._cluster.address, topic=topic, group=group)

    def close(self) -> None:
        """Close the connections to all brokers."""
        with self._lock:
            for connection in self._connections.values():
                connection.close()
            self._connections.clear()

    def _ask(self, group: str, api: Api, version: int, body: Wire, response: type[R]) -> R:
        """Send a request to a group's coordinator; return the response.

        If the connection is lost, find the coordinator again and retry.
        """
        with self._lock:
            for last in (False, True):
                try:
                    connection = self._connections.get(group) or self._coordinator(group)
                    self._connections[group] = connection
                    return connection.ask(api, version, body, response)
                except Unreachable:
                    if group in self._connections:
                        self._connections.pop(group).close()
                    if last:
                        raise
        raise AssertionError("unreachable")

    def _coordinator(self, group: str) -> Connection:
        connection = self._any()
        try:
            asked = FindCoordinatorRequest(group, _OF_GROUP)
            found = connection.ask(FIND_COORDINATOR, _FIND_VERSION, asked, FindCoordinatorResponse)
        finally:
            connection.close()
        if found.error_code:
            said = found.error_message or KafkaError(found.error_code).str()
            raise Unreachable(self._cluster.address, said)
        return Connection(found.host, found.port, self._cluster.timeout_s)

    def _any(self) -> Connection:
        """Return a connection to the first bootstrap address that responds."""
        *others, last = self._cluster.address.split(",")
        for place in others:
            with suppress(Unreachable):
                return Connection(*host_and_port(place), self._cluster.timeout_s)
        return Connection(*host_and_port(last), self._cluster.timeout_s)


def _read_standings(response: DescribeShareGroupOffsetsResponse) -> dict[int, Standing] | None:
    found: dict[int, Standing] = {}
    for group in response.groups:
        if group.error_code:
            return None
        for topic in group.topics:
            for each in topic.partitions:
                if each.error_code:
                    return None
                found[each.partition_index] = Standing(each.start_offset, each.lag)
    return found
