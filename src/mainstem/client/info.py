"""Descriptions of topics, groups and queues in the API."""

import time
from typing import Literal

import msgspec

from mainstem.core.event import Event
from mainstem.core.topic_settings import TopicSettings

Order = Literal["none", "key", "priority"]
"""Whether a queue delivers the events of a key one after the other, or higher partitions first."""


class PartitionInfo(msgspec.Struct, frozen=True):
    """The state of one partition of a topic."""

    partition: int
    start: int
    tail: int
    end: int
    size_bytes: int | None
    """None if unknown, as over the network."""
    epoch: int


class TopicInfo(msgspec.Struct, frozen=True):
    """A topic, its settings, and its partitions."""

    name: str
    id: str
    settings: TopicSettings
    partitions: tuple[PartitionInfo, ...]
    counters: dict[str, int] = {}
    """Drops and holds since the process started, by kind."""

    @property
    def events(self) -> int:
        """Offsets between start and tail of all partitions (fewer events, if compacted)."""
        return sum(part.tail - part.start for part in self.partitions)

    @property
    def size_bytes(self) -> int | None:
        """Bytes of all partitions; None if unknown."""
        sizes = [part.size_bytes for part in self.partitions if part.size_bytes is not None]
        return sum(sizes) if len(sizes) == len(self.partitions) else None


class Lag(msgspec.Struct, frozen=True):
    """The lag of a group in one partition."""

    group: str
    topic: str
    partition: int
    cursor: int | None
    """The next offset the group will read; None if it has not committed here."""
    tail: int
    lag: int
    missed: int = 0
    """Events that retention or drop=oldest deleted before the group read them."""
    member: str | None = None
    """The member that owns the partition now."""
    unread_since_ms: int | None = None
    """The timestamp of the first unread event; None if all is read, or if unknown."""

    def behind_s(self, now_ms: int | None = None) -> float | None:
        """Return the age of the first unread event; 0 if all is read, None if unknown."""
        if not self.lag:
            return 0.0
        if self.unread_since_ms is None:
            return None
        now_ms = time.time_ns() // 1_000_000 if now_ms is None else now_ms
        return max(0, now_ms - self.unread_since_ms) / 1000


class GroupInfo(msgspec.Struct, frozen=True):
    """A group: its members and its lag."""

    name: str
    state: Literal["empty", "live"]
    members: dict[str, tuple[tuple[str, int], ...]]
    """The partitions (topic, number) of each member, by member id."""
    lags: tuple[Lag, ...]

    @property
    def lag(self) -> int:
        """Events not yet read, over all partitions."""
        return sum(each.lag for each in self.lags)

    def behind_s(self, now_ms: int | None = None) -> float:
        """Return the age in seconds of the oldest unread event; 0 if all is read."""
        return max((each.behind_s(now_ms) or 0.0 for each in self.lags), default=0.0)


class QueuePartition(msgspec.Struct, frozen=True):
    """The state of a queue in one partition of its topic."""

    partition: int
    start: int
    """All events below are settled."""
    next: int
    """No event from here on has been delivered."""
    tail: int
    out: int
    waiting: int
    """Events to be redelivered, or waiting for an earlier one of their key."""
    missed: int
    """Events that were deleted before they were settled."""


class QueueInfo(msgspec.Struct, frozen=True):
    """A queue: its settings, consumers and state."""

    topic: str
    name: str
    lock_s: float
    max_deliveries: int
    """0: no limit."""
    order: Order
    consumers: dict[str, int]
    """The number of unsettled deliveries of each consumer."""
    partitions: tuple[QueuePartition, ...]
    ttl_s: float = 0.0
    """How long events wait before they become dead letters; 0: without limit."""
    max_length: int = 0
    """How many events may wait before the oldest become dead letters; 0: no limit."""
    max_bytes: int = 0
    """How many bytes of values may wait before the oldest become dead letters; 0: no limit."""

    @property
    def ready(self) -> int:
        """Unsettled events that are not in flight (fewer, if the topic is compacted)."""
        return sum(max(0, each.tail - each.next) + each.waiting for each in self.partitions)

    @property
    def out(self) -> int:
        """Number of events in flight."""
        return sum(each.out for each in self.partitions)

    @property
    def missed(self) -> int:
        """Events that were deleted before they were settled."""
        return sum(each.missed for each in self.partitions)


class QueuedEvent(msgspec.Struct, frozen=True):
    """An unsettled event, as ``peek`` shows it."""

    event: Event
    deliveries: int
    """The number of its deliveries so far."""
    consumer: str | None
    """The consumer that holds it now."""
