"""The messages between a server and a process that runs one of its connectors."""

import msgspec

from mainstem.connectors.settings import ConnectorSettings
from mainstem.core.topic_settings import Durability


class StoredDefinition(msgspec.Struct, frozen=True, array_like=True):
    """A stored definition of a connector, such as its progress; ``value`` None deletes it."""

    kind: str
    key: str
    value: bytes | None


class PlainEvent(msgspec.Struct, frozen=True, array_like=True):
    """An event to publish, which has no position yet."""

    value: bytes | None
    key: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    timestamp_ms: int


class Entry(msgspec.Struct, frozen=True, array_like=True):
    """Events to publish to one topic."""

    topic: str
    events: list[PlainEvent]
    partition: int | None


class Append(msgspec.Struct, frozen=True, array_like=True):
    """Events and definitions that the server appends together, all or nothing."""

    entries: list[Entry]
    changes: list[StoredDefinition]


class Status(msgspec.Struct, frozen=True):
    """What the process reports of its connector."""

    phase: str = "starting"
    error: str = ""
    note: str = ""
    alarm: str = ""
    published: int = 0
    lag_bytes: int = 0
    committed_us: int = 0


class Taken(msgspec.Struct, frozen=True):
    """The server's answer to a new lease: its token, and what is needed to run the connector."""

    token: str
    settings: ConnectorSettings
    paused: bool
    definitions: list[StoredDefinition]


class TargetTopic(msgspec.Struct, frozen=True):
    """What a connector needs to know of a topic that it publishes to."""

    partitions: int
    durability: Durability
    was_written: bool
    """Whether it has, or had, events."""
