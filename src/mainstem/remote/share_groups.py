"""Share groups of a server: what they are set to, how far they have got, and forgetting them.

The settings go through librdkafka. How far a group has got, and that it shall be forgotten, it has
no calls for, so these are sent by a connection of their own, to the broker that coordinates the
group [KIP-932, KIP-1226].
"""

import threading
from collections.abc import Iterable, Mapping
from contextlib import suppress

import msgspec
from confluent_kafka import KafkaError
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource

from mainstem.core.errors import (
    GroupIsLive,
    InvalidSetting,
    MainstemError,
    UnknownSubscription,
    Unreachable,
    Unsupported,
)
from mainstem.remote.admin import Admin
from mainstem.remote.cluster import host_and_port
from mainstem.remote.connection import (
    INT8,
    INT32,
    NO_TAGS,
    Answer,
    Connection,
    compact_array,
    compact_string,
    string,
)
from mainstem.remote.errors import explained

START = "share.auto.offset.reset"
LOCK = "share.record.lock.duration.ms"
DELIVERIES = "share.delivery.count.limit"
ISOLATION = "share.isolation.level"
ACQUIRE = "mainstem.share.acquire.mode"
"""Only our server knows this one: whether the number of records asked for is a strict limit."""

_FIND_COORDINATOR, _FIND_VERSION, _OF_GROUP = 10, 1, 0
_DESCRIBE_OFFSETS, _WITH_LAG = 90, 1
_DELETE_OFFSETS, _FIRST = 92, 0
_NOT_KNOWN = {KafkaError.GROUP_ID_NOT_FOUND, KafkaError.UNKNOWN_TOPIC_OR_PART}


class Standing(msgspec.Struct, frozen=True):
    """How far a share group has got in a partition."""

    start: int
    """Everything below is settled; -1 if nobody has settled anything yet."""
    lag: int
    """Events that are not settled, those that are out included; -1 if that is not known."""


class ShareGroups:
    """What can be asked about share groups and changed; safe to use from several threads."""

    def __init__(self, administration: Admin) -> None:
        self._administration = administration
        self._cluster = administration.cluster
        self._wait = {"request_timeout": self._cluster.timeout_s}
        self._lock = threading.Lock()
        self._connections: dict[str, Connection] = {}
        """To the coordinators of groups."""

    # Settings

    def settings(self, group: str) -> dict[str, str]:
        """Return what every setting is for a group, whether there is such a group or not."""
        resource = ConfigResource(ConfigResource.Type.GROUP, group)
        (future,) = self._administration.client.describe_configs([resource], **self._wait).values()
        entries = self._cluster.result(future, group=group)
        return {name: entry.value for name, entry in entries.items() if entry.value is not None}

    def set(self, group: str, wanted: Mapping[str, str], now: Mapping[str, str]) -> None:
        """Change the settings of a group, those that are not so now."""
        changes = {name: value for name, value in wanted.items() if now.get(name) != value}
        if not changes:
            return
        entries = [
            ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
            for name, value in changes.items()
        ]
        resource = ConfigResource(ConfigResource.Type.GROUP, group, incremental_configs=entries)
        client = self._administration.client
        (future,) = client.incremental_alter_configs([resource], **self._wait).values()
        try:
            self._cluster.result(future, group=group)
        except InvalidSetting as error:
            said = ", ".join(f"{name}={value}" for name, value in changes.items())
            raise InvalidSetting(
                f"a queue over the network is a share group, and {self._cluster.address} does not "
                f"allow {said} for {group!r:.300}: {error}"
            ) from None

    # How far it has got

    def standings(
        self, group: str, topic: str, partitions: Iterable[int]
    ) -> dict[int, Standing] | None:
        """Return how far a group has got in partitions; None if the server cannot be asked."""
        if not self._cluster.is_plain:
            return None
        numbers = compact_array(INT32.pack(each) for each in partitions)
        asked = compact_string(topic) + numbers + NO_TAGS
        body = compact_array([compact_string(group) + compact_array([asked]) + NO_TAGS]) + NO_TAGS
        try:
            answer = self._ask(group, _DESCRIBE_OFFSETS, _WITH_LAG, body)
            return _read_standings(answer)
        except MainstemError:
            # Whoever reads meets the same trouble, and says it better.
            return None

    def forget(self, group: str, topic: str) -> None:
        """Forget how far a group without members has got in a topic."""
        if not self._cluster.is_plain:
            raise Unsupported(
                "forgetting a queue needs a connection without encryption and login; Kafka's own "
                "kafka-share-groups.sh --delete-offsets does it over others"
            )
        topics = compact_array([compact_string(topic) + NO_TAGS])
        body = compact_string(group) + topics + NO_TAGS
        answer = self._ask(group, _DELETE_OFFSETS, _FIRST, body)
        answer.int32()
        codes = [(answer.int16(), answer.compact_string())]
        codes += answer.compact_array(lambda: _deleted(answer))
        for code, text in codes:
            if code == KafkaError.NON_EMPTY_GROUP:
                raise GroupIsLive(group, "it has members", "forgotten")
            if code in _NOT_KNOWN:
                raise UnknownSubscription(topic, group)
            if code:
                error = KafkaError(code, text or None)
                raise explained(error, self._cluster.address, topic=topic, group=group)

    def close(self) -> None:
        """Let go of all connections."""
        with self._lock:
            for connection in self._connections.values():
                connection.close()
            self._connections.clear()

    def _ask(self, group: str, api: int, version: int, body: bytes) -> Answer:
        """Ask the coordinator of a group, once more if it is another by now, or came back."""
        with self._lock:
            for last in (False, True):
                try:
                    connection = self._connections.get(group) or self._coordinator(group)
                    self._connections[group] = connection
                    return connection.ask(api, version, body, flexible=True)
                except Unreachable:
                    if group in self._connections:
                        self._connections.pop(group).close()
                    if last:
                        raise
        raise AssertionError("unreachable")

    def _coordinator(self, group: str) -> Connection:
        connection = self._any()
        try:
            body = string(group) + INT8.pack(_OF_GROUP)
            answer = connection.ask(_FIND_COORDINATOR, _FIND_VERSION, body)
        finally:
            connection.close()
        answer.int32()
        code, text = answer.int16(), answer.string()
        if code:
            raise Unreachable(self._cluster.address, text or KafkaError(code).str())
        answer.int32()
        return Connection(answer.string(), answer.int32(), self._cluster.timeout_s)

    def _any(self) -> Connection:
        """Connect to the first of the addresses where somebody answers."""
        *others, last = self._cluster.address.split(",")
        for place in others:
            with suppress(Unreachable):
                return Connection(*host_and_port(place), self._cluster.timeout_s)
        return Connection(*host_and_port(last), self._cluster.timeout_s)


def _read_standings(answer: Answer) -> dict[int, Standing] | None:
    answer.int32()
    found: dict[int, Standing] = {}
    for topics, code in answer.compact_array(lambda: _group(answer)):
        if code:
            return None
        for partitions in topics:
            for number, standing, error in partitions:
                if error:
                    return None
                found[number] = standing
    return found


def _group(answer: Answer) -> tuple[list[list[tuple[int, Standing, int]]], int]:
    answer.compact_string()
    topics = answer.compact_array(lambda: _topic(answer))
    code = answer.int16()
    answer.compact_string()
    answer.tags()
    return topics, code


def _topic(answer: Answer) -> list[tuple[int, Standing, int]]:
    answer.compact_string()
    answer.uuid()
    partitions = answer.compact_array(lambda: _partition(answer))
    answer.tags()
    return partitions


def _partition(answer: Answer) -> tuple[int, Standing, int]:
    number, start = answer.int32(), answer.int64()
    answer.int32()
    standing, code = Standing(start, answer.int64()), answer.int16()
    answer.compact_string()
    answer.tags()
    return number, standing, code


def _deleted(answer: Answer) -> tuple[int, str]:
    answer.compact_string()
    answer.uuid()
    found = answer.int16(), answer.compact_string()
    answer.tags()
    return found
