"""The public async API as Protocol classes, which ``mainstem.aio`` implements.

It is that of ``mainstem.client.stem`` for an event loop; a test compares the two, and all
implementations with them, member by member.
"""

from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Protocol, Self, Unpack, runtime_checkable

from mainstem.client.due_times import DueEvent
from mainstem.client.info import GroupInfo, Lag, QueuedEvent, QueueInfo, TopicInfo
from mainstem.client.queue_options import QueueArguments
from mainstem.client.start_positions import Start
from mainstem.client.stem import Stem
from mainstem.client.subscription import SubscribeArguments
from mainstem.client.values import AsyncValues, EventParts, Value
from mainstem.core.event import Event, Position


@runtime_checkable
class AsyncContext(Protocol):
    """Base of all async objects that can be closed: the end of ``async with`` closes them."""

    async def __aenter__(self) -> Self: ...
    async def __aexit__(
        self, kind: object, error: BaseException | None, trace: object, /
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
        self, kind: object, error: BaseException | None, trace: object, /
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

    async def append(self, value: Value, **event: Unpack[EventParts]) -> Position:
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
        self, topic: str, value: Value, *, partition: int | None = None, **event: Unpack[EventParts]
    ) -> Position:
        """Append one event; return its position once it has the durability of its topic."""

    async def publish_many(
        self, topic: str, events: AsyncValues, *, partition: int | None = None
    ) -> int:
        """Append many events in large batches; return their number once all are durable."""

    async def schedule(
        self, topic: str, value: Value, *, partition: int | None = None, **event: Unpack[DueEvent]
    ) -> None:
        """Publish one event later; the rules are those of ``Stem.schedule``."""

    def subscribe(self, *topics: str, **options: Unpack[SubscribeArguments]) -> AsyncSubscription:
        """Read topics as an async iterator of events; the rules are those of ``Stem.subscribe``."""

    def queue(self, topic: str, *, name: str, **options: Unpack[QueueArguments]) -> AsyncQueue:
        """Share the events of a topic one by one; the rules are those of ``Stem.queue``."""

    def writer(self, topic: str, *, name: str, partition: int | None = None) -> AsyncWriter:
        """Open a fenced writer; the rules are those of ``Stem.writer``."""

    async def close(self) -> None:
        """Finish running operations, and release the directory or connection."""
