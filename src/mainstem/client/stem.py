"""The public API as Protocol classes; ``mainstem.open`` and ``mainstem.connect`` implement it.

The second half is the same API for an event loop (``mainstem.aio``); a test compares the two
halves, and all implementations with them, member by member.
"""

from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from datetime import datetime
from types import TracebackType
from typing import Literal, Protocol, Self, runtime_checkable

from mainstem.client.info import GroupInfo, Lag, Order, QueuedEvent, QueueInfo, TopicInfo
from mainstem.client.start_positions import Start
from mainstem.client.values import AsyncValues, HeadersLike, Key, Value, Values
from mainstem.core.event import Event, Position


class Context(Protocol):
    """Base of all objects that can be closed: the end of a ``with`` block closes them."""

    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...


class Topics(Protocol):
    """Operations on topics."""

    def create(self, name: str, *, exist_ok: bool = False, **settings: object) -> TopicInfo:
        """Create a topic; settings are those of ``TopicSettings``.

        With ``exist_ok``, an existing topic is returned unchanged; otherwise raises TopicExists.
        """

    def list(self, pattern: str = "*", *, internal: bool = False) -> tuple[TopicInfo, ...]:
        """Return the topics whose names match a pattern such as ``orders.*``."""

    def show(self, name: str) -> TopicInfo:
        """Return the settings and partitions of one topic."""

    def alter(self, name: str, **settings: object) -> TopicInfo:
        """Change settings of a topic; its number of partitions can only be increased."""

    def delete(self, name: str) -> None:
        """Delete a topic and all its events."""

    def trim(self, name: str, before: Start, *, partition: int | None = None) -> TopicInfo:
        """Delete the events before an offset or a time; ``latest`` deletes all events.

        This trims all partitions, or only ``partition``.
        """


class Groups(Protocol):
    """Operations on consumer groups."""

    def list(self) -> tuple[GroupInfo, ...]:
        """Return every group that has members or committed offsets."""

    def show(self, name: str) -> GroupInfo:
        """Return the members and the lag of one group."""

    def seek(
        self,
        name: str,
        topic: str,
        to: Start,
        *,
        partition: int | None = None,
        dry_run: bool = False,
    ) -> tuple[Lag, ...]:
        """Set the committed offsets of a group without members; return the resulting lag.

        This sets all partitions of the topic, or only ``partition``. With ``dry_run``, nothing is
        changed.
        """

    def delete(self, name: str) -> None:
        """Delete a group and its committed offsets; it must not have members."""


class Queues(Protocol):
    """Operations on queues, such as list and purge; ``Stem.queue`` consumes from a queue."""

    def list(self) -> tuple[QueueInfo, ...]:
        """Return every queue, sorted by topic and name."""

    def show(self, topic: str, name: str) -> QueueInfo:
        """Return the settings, consumers and state of one queue."""

    def peek(
        self, topic: str, name: str, limit: int = 10, *, after: Position | None = None
    ) -> tuple[QueuedEvent, ...]:
        """Return the first unsettled events, without delivering any.

        ``after``: only events after this position, to read page by page.
        """

    def purge(self, topic: str, name: str) -> int:
        """Settle all events that no consumer has, so that none gets them; return their number."""

    def move(self, topic: str, name: str, to: str, *, limit: int = 1000) -> int:
        """Move the first waiting events, at most ``limit``, to another topic in one append.

        Returns the number of moved events. They keep their order, key, headers and timestamp, but a
        time to live starts again.
        """

    def delete(self, topic: str, name: str) -> None:
        """Delete a queue; its events stay in the topic, unless AMQP created the topic for it."""


class Subscription(Context, Protocol):
    """An iterator of events; any thread may close it.

    An event is finished when the next one is requested, or when the reading thread closes the
    subscription. Auto-commit commits only the offsets of finished events.
    """

    def __iter__(self) -> Iterator[Event]:
        """Return this iterator."""

    def __next__(self) -> Event:
        """Return the next event; StopIteration once closed, or at the end without ``follow``."""

    def poll(self, timeout: float | None = None) -> Event | None:
        """Return the next event; None after ``timeout`` seconds (None: no limit) or at the end."""

    def poll_many(self, limit: int = 1000, timeout: float | None = None) -> list[Event]:
        """Return up to ``limit`` events; waits for the first, at most ``timeout`` s if given."""

    def commit(self) -> None:
        """Commit the group's offsets up to the last event returned; they are durable on return."""

    @property
    def assignment(self) -> tuple[tuple[str, int], ...]:
        """The partitions (topic, number) that are being read."""

    @property
    def missed(self) -> int:
        """Number of events that were deleted before this subscription could read them."""

    def close(self) -> None:
        """Leave the group; auto-commit commits the offsets of finished events."""


class Delivery(Protocol):
    """One event handed to one consumer; ``with delivery as event`` acks it, or nacks on an error.

    Settling raises StaleDelivery if the delivery was settled before, or if its lock has expired
    (after ``lock_s`` seconds), when the event may have gone to another consumer.

    With ``wait=False`` it is settled in the background, many times as fast; if the process crashes
    within milliseconds, the event is redelivered. The next ``poll`` or iteration raises an error of
    it, or ``close``, after which all settlements are durable.
    """

    @property
    def event(self) -> Event:
        """The delivered event."""

    @property
    def count(self) -> int:
        """The number of deliveries of this event, including this one."""

    def ack(self, *, wait: bool = True) -> None:
        """Acknowledge the event, which is never delivered again; durable on return if ``wait``."""

    def nack(self, *, delay_s: float = 0.0, reason: str = "", wait: bool = True) -> None:
        """Report a failure: the event is redelivered after the delay, or becomes a dead letter."""

    def release(self, *, wait: bool = True) -> None:
        """Put the event back into its queue.

        Only over the network does this count towards ``max_deliveries``.
        """

    def reject(self, reason: str = "", *, wait: bool = True) -> None:
        """Move the event to the dead letters at once, without a redelivery."""

    def renew(self) -> None:
        """Extend the lock to ``lock_s`` seconds from now; raises Unsupported over the network."""

    def __enter__(self) -> Event: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...


class Queue(Context, Protocol):
    """An iterator of deliveries; any thread may close it."""

    def __iter__(self) -> Iterator[Delivery]:
        """Return this iterator."""

    def __next__(self) -> Delivery:
        """Return the next delivery; StopIteration once closed, or at the end without ``follow``."""

    def poll(self, timeout: float | None = None) -> Delivery | None:
        """Return the next delivery, or None after ``timeout`` seconds (None: no limit)."""

    def poll_many(self, limit: int = 100, timeout: float | None = None) -> Sequence[Delivery]:
        """Return up to ``limit`` deliveries; waits for one, at most ``timeout`` s if given."""

    def ack_many(self, deliveries: Iterable[Delivery]) -> None:
        """Ack deliveries of this queue object in one write; they are durable on return.

        Raises StaleDelivery if the lock of one has expired; the others are still acked. Raises
        InvalidSetting if one belongs to another consumer; then none is acked.
        """

    def close(self) -> None:
        """Close; unsettled events are redelivered.

        Only over the network does this count towards ``max_deliveries``.
        """


class Writer(Context, Protocol):
    """The only writer of its name: opening another one with that name on the topic fences it.

    Each append is a transaction, so that readers see all of it or nothing. A fenced writer raises
    WriterFenced (a ``Fenced``) at its next append, and nothing is appended.
    """

    def append(
        self,
        value: Value,
        *,
        key: Key = None,
        headers: HeadersLike = (),
        timestamp_ms: int | None = None,
    ) -> Position:
        """Append one event; return its position once it is durable; raises WriterFenced."""

    def append_many(self, events: Values) -> list[Position]:
        """Append events, all or none; return their positions once they are durable."""

    def truncate(self, before: int) -> None:
        """Delete the events before an offset; raises WriterFenced."""

    def close(self) -> None:
        """Stop appending; another writer with the same name can be opened later."""


class Stem(Context, Protocol):
    """A log, in this process (``mainstem.open``) or on a server (``mainstem.connect``)."""

    @property
    def topics(self) -> Topics:
        """Operations on topics: create, list, show, alter, delete, trim."""

    @property
    def groups(self) -> Groups:
        """Operations on consumer groups: list, show, seek, delete."""

    @property
    def queues(self) -> Queues:
        """Operations on queues: list, show, peek, purge, move, delete."""

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
        """Append one event; return its position once it has the durability of its topic."""

    def publish_many(self, topic: str, events: Values, *, partition: int | None = None) -> int:
        """Append many events in large batches; return their number once all are durable."""

    def schedule(
        self,
        topic: str,
        value: Value,
        *,
        delay_s: float | None = None,
        at: datetime | None = None,
        key: Key = None,
        headers: HeadersLike = (),
        timestamp_ms: int | None = None,
        partition: int | None = None,
    ) -> None:
        """Publish one event later: ``delay_s`` seconds from now, or ``at`` a time with a time zone.

        Returns when the event is stored: from then on it survives a power cut, and it is published
        exactly once, when it is due and a program has the log open. It does not hold up other
        events. An unknown topic is created now; if the topic is deleted meanwhile, the event is
        dropped.
        """

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

        With a group, its members share the partitions and continue at the committed offsets;
        ``start`` applies where there are none yet. Offsets of finished events are committed about
        once a second, or with ``commit="manual"`` only by ``Subscription.commit``.

        Without a group, it reads all partitions, or ``partitions``, from ``start`` on, and commits
        nothing. Without ``follow``, the iterator ends at the tails that the topics had when it
        began.
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
        ttl_s: float | None = None,
        max_length: int | None = None,
        max_bytes: int | None = None,
        follow: bool = True,
    ) -> Queue:
        """Share the events of a topic one by one with the other consumers of a queue.

        The first call creates the queue at ``start``. An event that is not settled within
        ``lock_s`` seconds (default 30) goes to another consumer. After ``max_deliveries`` failed
        deliveries (default 5; 0: no limit) it becomes a dead letter in ``<topic>.dead``. With
        order ``key``, an event waits until all earlier ones of its key are settled; with order
        ``priority``, events of higher partitions come first.

        Events that were not delivered within ``ttl_s`` seconds of their publishing become dead
        letters, and so do the oldest beyond ``max_length`` waiting events, or ``max_bytes`` of
        values (0: no limit). Settings that are given change the queue for all its consumers.
        """

    def writer(self, topic: str, *, name: str, partition: int | None = None) -> Writer:
        """Open a writer that fences earlier writers of that name: these can append no more.

        The topic must exist. A writer appends to one partition: give ``partition`` unless the topic
        has only one.
        """

    def close(self) -> None:
        """Finish running operations, and release the directory or connection."""


# The same for an event loop


@runtime_checkable
class AsyncContext(Protocol):
    """Base of all async objects that can be closed: the end of ``async with`` closes them."""

    async def __aenter__(self) -> Self: ...
    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...


@runtime_checkable
class AsyncTopics(Protocol):
    """Operations on topics, as those of ``Topics``, for an event loop."""

    async def create(self, name: str, *, exist_ok: bool = False, **settings: object) -> TopicInfo:
        """Create a topic; settings are those of ``TopicSettings``."""

    async def list(self, pattern: str = "*", *, internal: bool = False) -> tuple[TopicInfo, ...]:
        """Return the topics whose names match a pattern such as ``orders.*``."""

    async def show(self, name: str) -> TopicInfo:
        """Return the settings and partitions of one topic."""

    async def alter(self, name: str, **settings: object) -> TopicInfo:
        """Change settings of a topic; its number of partitions can only be increased."""

    async def delete(self, name: str) -> None:
        """Delete a topic and all its events."""

    async def trim(self, name: str, before: Start, *, partition: int | None = None) -> TopicInfo:
        """Delete the events before an offset or a time; ``latest`` deletes all events."""


@runtime_checkable
class AsyncGroups(Protocol):
    """Operations on groups, as those of ``Groups``, for an event loop."""

    async def list(self) -> tuple[GroupInfo, ...]:
        """Return every group that has members or committed offsets."""

    async def show(self, name: str) -> GroupInfo:
        """Return the members and the lag of one group."""

    async def seek(
        self,
        name: str,
        topic: str,
        to: Start,
        *,
        partition: int | None = None,
        dry_run: bool = False,
    ) -> tuple[Lag, ...]:
        """Set the committed offsets of a group without members; return the resulting lag."""

    async def delete(self, name: str) -> None:
        """Delete a group and its committed offsets; it must not have members."""


@runtime_checkable
class AsyncQueues(Protocol):
    """Operations on queues, as those of ``Queues``, for an event loop."""

    async def list(self) -> tuple[QueueInfo, ...]:
        """Return every queue, sorted by topic and name."""

    async def show(self, topic: str, name: str) -> QueueInfo:
        """Return the settings, consumers and state of one queue."""

    async def peek(
        self, topic: str, name: str, limit: int = 10, *, after: Position | None = None
    ) -> tuple[QueuedEvent, ...]:
        """Return the first unsettled events (after ``after``, if given) without delivering them."""

    async def purge(self, topic: str, name: str) -> int:
        """Settle all events that no consumer has, so that none gets them; return their number."""

    async def move(self, topic: str, name: str, to: str, *, limit: int = 1000) -> int:
        """Move up to ``limit`` waiting events to another topic in one append; return the number."""

    async def delete(self, topic: str, name: str) -> None:
        """Delete a queue; its events stay in the topic, unless AMQP created the topic for it."""


@runtime_checkable
class AsyncSubscription(AsyncContext, Protocol):
    """An async iterator of events, for one task at a time; see ``Subscription``."""

    def __aiter__(self) -> AsyncIterator[Event]:
        """Return this iterator."""

    async def __anext__(self) -> Event:
        """Return the next event; StopAsyncIteration at the end, or once closed."""

    async def poll(self, timeout: float | None = None) -> Event | None:
        """Return the next event; None after ``timeout`` seconds (None: no limit) or at the end."""

    async def poll_many(self, limit: int = 1000, timeout: float | None = None) -> list[Event]:
        """Return up to ``limit`` events; waits for the first, at most ``timeout`` s if given."""

    async def commit(self) -> None:
        """Commit the group's offsets up to the last event returned; they are durable on return."""

    @property
    def assignment(self) -> tuple[tuple[str, int], ...]:
        """The partitions (topic, number) that are being read."""

    @property
    def missed(self) -> int:
        """Number of events that were deleted before this subscription could read them."""

    async def close(self) -> None:
        """Leave the group; auto-commit commits the offsets of finished events."""


@runtime_checkable
class AsyncDelivery(Protocol):
    """One event handed to one consumer; ``async with`` acks it, or nacks on an error.

    The rules are those of ``Delivery``.
    """

    @property
    def event(self) -> Event:
        """The delivered event."""

    @property
    def count(self) -> int:
        """The number of deliveries of this event, including this one."""

    async def ack(self, *, wait: bool = True) -> None:
        """Acknowledge the event, which is never delivered again; durable on return if ``wait``."""

    async def nack(self, *, delay_s: float = 0.0, reason: str = "", wait: bool = True) -> None:
        """Report a failure: the event is redelivered after the delay, or becomes a dead letter."""

    async def release(self, *, wait: bool = True) -> None:
        """Put the event back into its queue.

        Only over the network does this count towards ``max_deliveries``.
        """

    async def reject(self, reason: str = "", *, wait: bool = True) -> None:
        """Move the event to the dead letters at once, without a redelivery."""

    def renew(self) -> None:
        """Extend the lock to ``lock_s`` seconds from now; called without ``await``.

        Raises Unsupported over the network.
        """

    async def __aenter__(self) -> Event: ...
    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...


@runtime_checkable
class AsyncQueue(AsyncContext, Protocol):
    """An async iterator of deliveries, for one task at a time; see ``Queue``."""

    def __aiter__(self) -> AsyncIterator[AsyncDelivery]:
        """Return this iterator."""

    async def __anext__(self) -> AsyncDelivery:
        """Return the next delivery; StopAsyncIteration once closed, or at the end."""

    async def poll(self, timeout: float | None = None) -> AsyncDelivery | None:
        """Return the next delivery, or None after ``timeout`` seconds (None: no limit)."""

    async def poll_many(
        self, limit: int = 100, timeout: float | None = None
    ) -> Sequence[AsyncDelivery]:
        """Return up to ``limit`` deliveries; waits for one, at most ``timeout`` s if given."""

    async def ack_many(self, deliveries: Iterable[AsyncDelivery]) -> None:
        """Ack deliveries of this queue object together; they are durable on return."""

    async def close(self) -> None:
        """Leave the queue; unsettled events are redelivered at once."""


@runtime_checkable
class AsyncWriter(AsyncContext, Protocol):
    """A fenced writer for an event loop; see ``Writer``.

    It fences the previous writer of its name at ``async with``, or at the first call.
    """

    async def append(
        self,
        value: Value,
        *,
        key: Key = None,
        headers: HeadersLike = (),
        timestamp_ms: int | None = None,
    ) -> Position:
        """Append one event; return its position once it is durable; raises WriterFenced."""

    async def append_many(self, events: AsyncValues) -> list[Position]:
        """Append events, all or none; return their positions once they are durable."""

    async def truncate(self, before: int) -> None:
        """Delete the events before an offset; raises WriterFenced."""

    async def close(self) -> None:
        """Stop appending; another writer with the same name can be opened later."""


@runtime_checkable
class AsyncStem(AsyncContext, Protocol):
    """A log, in this process or on a server, for an event loop; see ``Stem``."""

    @property
    def topics(self) -> AsyncTopics:
        """Operations on topics: create, list, show, alter, delete, trim."""

    @property
    def groups(self) -> AsyncGroups:
        """Operations on consumer groups: list, show, seek, delete."""

    @property
    def queues(self) -> AsyncQueues:
        """Operations on queues: list, show, peek, purge, move, delete."""

    @property
    def blocking(self) -> Stem:
        """The ``Stem`` with blocking calls of the same log, for use from other threads."""

    async def publish(
        self,
        topic: str,
        value: Value,
        *,
        key: Key = None,
        headers: HeadersLike = (),
        timestamp_ms: int | None = None,
        partition: int | None = None,
    ) -> Position:
        """Append one event; return its position once it has the durability of its topic."""

    async def publish_many(
        self, topic: str, events: AsyncValues, *, partition: int | None = None
    ) -> int:
        """Append many events in large batches; return their number once all are durable."""

    async def schedule(
        self,
        topic: str,
        value: Value,
        *,
        delay_s: float | None = None,
        at: datetime | None = None,
        key: Key = None,
        headers: HeadersLike = (),
        timestamp_ms: int | None = None,
        partition: int | None = None,
    ) -> None:
        """Publish one event later; the rules are those of ``Stem.schedule``."""

    def subscribe(
        self,
        *topics: str,
        group: str | None = None,
        start: Start = "earliest",
        follow: bool = True,
        commit: Literal["auto", "manual"] = "auto",
        partitions: Iterable[int] | None = None,
    ) -> AsyncSubscription:
        """Read topics as an async iterator of events; the rules are those of ``Stem.subscribe``."""

    def queue(
        self,
        topic: str,
        *,
        name: str,
        start: Start = "earliest",
        max_deliveries: int | None = None,
        lock_s: float | None = None,
        order: Order | None = None,
        ttl_s: float | None = None,
        max_length: int | None = None,
        max_bytes: int | None = None,
        follow: bool = True,
    ) -> AsyncQueue:
        """Share the events of a topic one by one; the rules are those of ``Stem.queue``."""

    def writer(self, topic: str, *, name: str, partition: int | None = None) -> AsyncWriter:
        """Open a fenced writer; the rules are those of ``Stem.writer``."""

    async def close(self) -> None:
        """Finish running operations, and release the directory or connection."""
