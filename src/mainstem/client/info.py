"""What the API returns about topics, groups and queues."""

import time
from typing import Literal

import msgspec

from mainstem.core.event import Event
from mainstem.core.topic_settings import TopicSettings

Order = Literal["none", "key", "priority"]
"""Order of delivery: any; one event of a key at a time; or higher partitions first."""


class PartitionInfo(msgspec.Struct, frozen=True):
    """The state of one partition of a topic."""

    partition: int
    start: int
    tail: int
    end: int
    size_bytes: int | None
    """Size in bytes; None if unknown, as over the network."""
    epoch: int


class TopicInfo(msgspec.Struct, frozen=True):
    """A topic, its settings, and its partitions."""

    name: str
    id: str
    settings: TopicSettings
    partitions: tuple[PartitionInfo, ...]
    counters: dict[str, int] = {}
    """Numbers of events dropped and publishers held back since the process started, by kind."""

    @property
    def events(self) -> int:
        """Number of offsets from start to tail in all partitions (fewer events, if compacted)."""
        return sum(part.tail - part.start for part in self.partitions)

    @property
    def size_bytes(self) -> int | None:
        """Size in bytes of all partitions; None if unknown."""
        sizes = [part.size_bytes for part in self.partitions if part.size_bytes is not None]
        return sum(sizes) if len(sizes) == len(self.partitions) else None


class Lag(msgspec.Struct, frozen=True):
    """The lag of a group in one partition."""

    group: str
    topic: str
    partition: int
    cursor: int | None
    """The committed offset: the next one the group will read; None if it has not committed here."""
    tail: int
    lag: int
    missed: int = 0
    """Number of events that retention or drop=oldest deleted before the group read them."""
    member: str | None = None
    """The member that reads the partition now, if any."""
    unread_since_ms: int | None = None
    """The timestamp of the first unread event; None if all events are read, or if unknown."""

    def behind_s(self, now_ms: int | None = None) -> float | None:
        """Return the age in s of the first unread event; 0 if all are read, None if unknown.

        ``now_ms`` is the present time, by default the clock's.
        """
        if not self.lag:
            return 0.0
        if self.unread_since_ms is None:
            return None
        now_ms = time.time_ns() // 1_000_000 if now_ms is None else now_ms
        return max(0, now_ms - self.unread_since_ms) / 1000


class GroupInfo(msgspec.Struct, frozen=True):
    """A consumer group: its members, and its lag in each partition."""

    name: str
    state: Literal["empty", "live"]
    members: dict[str, tuple[tuple[str, int], ...]]
    """The partitions (topic, number) that each member reads, by member id."""
    lags: tuple[Lag, ...]

    @property
    def lag(self) -> int:
        """Number of events not read yet, over all partitions."""
        return sum(each.lag for each in self.lags)

    def behind_s(self, now_ms: int | None = None) -> float:
        """Return the age in seconds of the oldest unread event; 0 if all events are read."""
        return max((each.behind_s(now_ms) or 0.0 for each in self.lags), default=0.0)


class QueuePartition(msgspec.Struct, frozen=True):
    """The state of a queue in one partition of its topic."""

    partition: int
    start: int
    """The first offset that is not settled."""
    next: int
    """The first offset that was never delivered."""
    tail: int
    out: int
    waiting: int
    """Number of events to be redelivered, or waiting for an earlier one of their key."""
    missed: int
    """Number of events that were deleted before they were settled."""


class QueueInfo(msgspec.Struct, frozen=True):
    """A queue: its settings, consumers and state."""

    topic: str
    name: str
    lock_s: float
    max_deliveries: int
    """Failed deliveries after which an event becomes a dead letter; 0: no limit."""
    order: Order
    consumers: dict[str, int]
    """The number of unsettled deliveries of each consumer, by its name."""
    partitions: tuple[QueuePartition, ...]
    ttl_s: float = 0.0
    """Seconds that events wait before they become dead letters; 0: no limit."""
    max_length: int = 0
    """Number of events that may wait; the oldest beyond it become dead letters; 0: no limit."""
    max_bytes: int = 0
    """Bytes of values that may wait; the oldest beyond them become dead letters; 0: no limit."""

    @property
    def ready(self) -> int:
        """Number of unsettled events that no consumer has (fewer, if the topic is compacted)."""
        return sum(max(0, each.tail - each.next) + each.waiting for each in self.partitions)

    @property
    def out(self) -> int:
        """Number of events that are delivered to consumers and not settled."""
        return sum(each.out for each in self.partitions)

    @property
    def missed(self) -> int:
        """Number of events that were deleted before they were settled."""
        return sum(each.missed for each in self.partitions)


class QueuedEvent(msgspec.Struct, frozen=True):
    """An unsettled event of a queue, as ``peek`` returns it."""

    event: Event
    deliveries: int
    """How often the event has been delivered so far."""
    consumer: str | None
    """The consumer that the event is delivered to now; None if there is none."""
