"""What the API tells about topics, groups and queues."""

import time
from typing import Literal

import msgspec

from mainstem.core.event import Event
from mainstem.core.topic_settings import TopicSettings

Order = Literal["none", "key", "priority"]
"""Whether a queue delivers the events of one key one after the other."""


class PartitionInfo(msgspec.Struct, frozen=True):
    """One partition of a topic as it stands."""

    partition: int
    start: int
    tail: int
    end: int
    size_bytes: int | None
    """None if it is not known: the network does not tell."""
    epoch: int


class TopicInfo(msgspec.Struct, frozen=True):
    """A topic, its settings, and what it holds."""

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
        """Bytes of all partitions; None if that is not known."""
        sizes = [part.size_bytes for part in self.partitions if part.size_bytes is not None]
        return sum(sizes) if len(sizes) == len(self.partitions) else None


class Lag(msgspec.Struct, frozen=True):
    """How far a group is behind in one partition."""

    group: str
    topic: str
    partition: int
    cursor: int | None
    """The next offset the group will read; None if it has not committed here."""
    tail: int
    lag: int
    missed: int = 0
    """Events that retention or drop=oldest removed before the group had read them."""
    member: str | None = None
    """Who owns the partition now."""
    unread_since_ms: int | None = None
    """The timestamp of the first event not yet read; None if all is read, or it is not known."""

    def behind_s(self, now_ms: int | None = None) -> float | None:
        """Return the seconds since then; 0 if all is read, None if it is not known."""
        if not self.lag:
            return 0.0
        if self.unread_since_ms is None:
            return None
        now_ms = time.time_ns() // 1_000_000 if now_ms is None else now_ms
        return max(0, now_ms - self.unread_since_ms) / 1000


class GroupInfo(msgspec.Struct, frozen=True):
    """A group: its live members and how far it has got."""

    name: str
    state: Literal["empty", "live"]
    members: dict[str, tuple[tuple[str, int], ...]]
    """Member id to the partitions (topic, number) it owns."""
    lags: tuple[Lag, ...]

    @property
    def lag(self) -> int:
        """Events not yet read, over all partitions."""
        return sum(each.lag for each in self.lags)

    def behind_s(self, now_ms: int | None = None) -> float:
        """Return the seconds since the oldest event not yet read happened; 0 if all is read."""
        return max((each.behind_s(now_ms) or 0.0 for each in self.lags), default=0.0)


class QueuePartition(msgspec.Struct, frozen=True):
    """How a queue stands in one partition of its topic."""

    partition: int
    start: int
    """Everything below is settled."""
    next: int
    """Nothing from here on has been delivered."""
    tail: int
    out: int
    waiting: int
    """Events to be delivered again, or waiting for an earlier one of their key."""
    missed: int
    """Events that were deleted before they were settled."""


class QueueInfo(msgspec.Struct, frozen=True):
    """A queue: its settings, who works on it, and how it stands."""

    topic: str
    name: str
    lock_s: float
    max_deliveries: int
    """0: for ever."""
    order: Order
    consumers: dict[str, int]
    """How many events are out with each consumer that has any."""
    partitions: tuple[QueuePartition, ...]

    @property
    def ready(self) -> int:
        """Events that are not settled and not out (fewer, if the topic is compacted)."""
        return sum(max(0, each.tail - each.next) + each.waiting for each in self.partitions)

    @property
    def out(self) -> int:
        """Events that are out with consumers."""
        return sum(each.out for each in self.partitions)

    @property
    def missed(self) -> int:
        """Events that were deleted before they were settled."""
        return sum(each.missed for each in self.partitions)


class QueuedEvent(msgspec.Struct, frozen=True):
    """An event that is not settled, as ``peek`` shows it."""

    event: Event
    deliveries: int
    """How often it was delivered."""
    consumer: str | None
    """Who has it now."""
