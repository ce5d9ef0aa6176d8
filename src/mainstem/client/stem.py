"""The interface that ``mainstem.open`` (in process) and ``mainstem.connect`` (network) share."""

import time
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from types import TracebackType
from typing import Any, Literal, Protocol, Self

import msgspec

from mainstem.client.queues import Order, Queue, Queues
from mainstem.core.event import Event, Position
from mainstem.core.topic_settings import TopicSettings

Value = bytes | str | None | dict[str, Any] | list[Any] | int | float | bool
"""Bytes go as they are, text as UTF-8, None as a deletion; anything else becomes JSON."""
Key = bytes | str | None
HeadersLike = Mapping[str, bytes | str | None] | Iterable[tuple[str, bytes | str | None]]
Start = Literal["earliest", "latest"] | int | datetime | Mapping[int, int]
"""Where to begin: an end of the log, an offset in every partition, a time, offsets by partition."""


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


class Topics(Protocol):
    """What can be done with topics."""

    def create(self, name: str, *, exist_ok: bool = False, **settings: object) -> TopicInfo:
        """Create a topic; settings are those of ``TopicSettings``."""

    def list(self, pattern: str = "*", *, internal: bool = False) -> tuple[TopicInfo, ...]:
        """Return the topics whose names match a pattern such as ``orders.*``."""

    def show(self, name: str) -> TopicInfo:
        """Return one topic."""

    def alter(self, name: str, **settings: object) -> TopicInfo:
        """Change settings; partitions may only grow."""

    def delete(self, name: str) -> None:
        """Delete a topic and all it holds."""

    def trim(self, name: str, before: Start, *, partition: int | None = None) -> TopicInfo:
        """Delete the events before an offset or a time; ``latest`` empties the topic."""


class Groups(Protocol):
    """What can be done with groups."""

    def list(self) -> tuple[GroupInfo, ...]:
        """Return every group that is live or has cursors."""

    def show(self, name: str) -> GroupInfo:
        """Return one group."""

    def seek(
        self,
        name: str,
        topic: str,
        to: Start,
        *,
        partition: int | None = None,
        dry_run: bool = False,
    ) -> tuple[Lag, ...]:
        """Move the cursors of a group that has no live members; return where they are then."""

    def delete(self, name: str) -> None:
        """Forget a group that has no live members."""


class Subscription(Protocol):
    """Events as they come; an iterator that can be closed, also from another thread."""

    def __iter__(self) -> Iterator[Event]:
        """Iterate."""

    def __next__(self) -> Event:
        """Return the next event; StopIteration at the end if it does not follow, or once closed."""

    def poll(self, timeout: float | None = None) -> Event | None:
        """Return the next event, or None if none came in ``timeout`` seconds."""

    def poll_many(self, limit: int = 1000, timeout: float | None = None) -> list[Event]:
        """Return the events that are there, at most ``limit``, waiting for the first."""

    def commit(self) -> None:
        """Store the group's cursors after the last event returned; durable on return."""

    @property
    def assignment(self) -> tuple[tuple[str, int], ...]:
        """The partitions (topic, number) read now."""

    @property
    def missed(self) -> int:
        """Events that were deleted before this subscription could read them."""

    def close(self) -> None:
        """Leave the group; what was returned and finished is committed if commits are automatic."""

    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...


class Stem(Protocol):
    """The log, wherever it is."""

    @property
    def topics(self) -> Topics:
        """Create, list, show, alter, delete, trim."""

    @property
    def groups(self) -> Groups:
        """List, show, seek, delete."""

    @property
    def queues(self) -> Queues:
        """List, show, peek, delete."""

    def publish(
        self,
        topic: str,
        value: Value,
        *,
        key: Key = None,
        headers: HeadersLike = (),
        timestamp_ms: int | None = None,
        partition: int | None = None,
    ) -> Position:
        """Append one event; return where it stands, once it is as durable as the topic says."""

    def publish_many(
        self, topic: str, events: Iterable[Value | Event], *, partition: int | None = None
    ) -> int:
        """Append many events in large batches; return how many, once all are durable."""

    def subscribe(
        self,
        *topics: str,
        group: str | None = None,
        start: Start = "earliest",
        follow: bool = True,
        commit: Literal["auto", "manual"] = "auto",
        partitions: Iterable[int] | None = None,
    ) -> Subscription:
        """Read topics (names or patterns such as ``orders.*``) as an iterator of events.

        With a group: members share the partitions and go on from the group's cursors; ``start``
        holds where there is no cursor yet. Without: everything, from ``start``, nothing stored.
        """

    def queue(
        self,
        topic: str,
        *,
        name: str,
        start: Start = "earliest",
        max_deliveries: int | None = None,
        lock_s: float | None = None,
        order: Order | None = None,
        follow: bool = True,
    ) -> Queue:
        """Share the events of a topic one by one with the other consumers of a queue.

        The first one makes the queue, and ``start`` holds for it. An event that is not settled in
        ``lock_s`` seconds (30) goes to another consumer; after ``max_deliveries`` failures (5;
        0: never) it becomes a dead letter in ``<topic>.dead``. With order ``key`` an event waits
        until all earlier ones of its key are settled. What is given changes the queue for all.
        """

    def close(self) -> None:
        """Finish what is under way and let go of the directory or connection."""

    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...
