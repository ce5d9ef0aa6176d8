"""What a process that runs a connector and its server say to one another."""

import msgspec

from mainstem.connectors.settings import ConnectorSettings
from mainstem.core.topic_settings import Durability


class StoredDefinition(msgspec.Struct, frozen=True, array_like=True):
    """A definition of a connector; without value it is deleted."""

    kind: str
    key: str
    value: bytes | None


class PlainEvent(msgspec.Struct, frozen=True, array_like=True):
    """An event without its position."""

    value: bytes | None
    key: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    timestamp_ms: int


class Entry(msgspec.Struct, frozen=True, array_like=True):
    """Events for one topic."""

    topic: str
    events: list[PlainEvent]
    partition: int | None


class Append(msgspec.Struct, frozen=True, array_like=True):
    """Events and definitions that are stored together."""

    entries: list[Entry]
    changes: list[StoredDefinition]


class Status(msgspec.Struct, frozen=True):
    """What the process says of its connector."""

    phase: str = "starting"
    error: str = ""
    note: str = ""
    alarm: str = ""
    published: int = 0
    lag_bytes: int = 0
    committed_us: int = 0


class Taken(msgspec.Struct, frozen=True):
    """A lease, and what the process needs to run the connector."""

    token: str
    settings: ConnectorSettings
    paused: bool
    definitions: list[StoredDefinition]


class TargetTopic(msgspec.Struct, frozen=True):
    """What a connector needs to know of a topic."""

    partitions: int
    durability: Durability
    was_written: bool
    """Whether it has, or had, events."""
