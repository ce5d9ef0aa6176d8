"""The common part of what ``mainstem.aio.open`` and ``mainstem.aio.connect`` return."""

from abc import abstractmethod
from functools import partial
from typing import Generic, TypeVar, Unpack

from mainstem.client.aio.administration import ThreadedGroups, ThreadedQueues, ThreadedTopics
from mainstem.client.aio.stem import AsyncQueue, AsyncSubscription
from mainstem.client.aio.writer import ThreadedWriter
from mainstem.client.contexts import AsyncClosing
from mainstem.client.due_times import DueEvent, DueTime, make_due_event
from mainstem.client.queue_options import QueueArguments, QueueOptions
from mainstem.client.stem import Stem
from mainstem.client.subscription import SubscribeArguments, SubscriptionOptions
from mainstem.client.values import AsyncValues, EventParts, Value, make_event
from mainstem.core.event import Event, Position

B = TypeVar("B", bound=Stem)
S = TypeVar("S", bound=AsyncSubscription)
Q = TypeVar("Q", bound=AsyncQueue)


class CommonAsyncStem(AsyncClosing, Generic[B, S, Q]):
    """Base class of ``AsyncStem`` implementations: runs slow calls of a ``Stem`` in threads."""

    def __init__(self, stem: B) -> None:
        self._stem = stem
        self.topics = ThreadedTopics(stem.topics)
        """Operations on topics: create, list, show, alter, delete, trim."""
        self.groups = ThreadedGroups(stem.groups)
        """Operations on consumer groups: list, show, seek, delete."""
        self.queues = ThreadedQueues(stem.queues)
        """Operations on queues: list, show, peek, purge, move, delete."""

    @property
    def blocking(self) -> B:
        """The ``Stem`` with blocking calls of the same log, for use from other threads."""
        return self._stem

    async def publish(
        self, topic: str, value: Value, *, partition: int | None = None, **event: Unpack[EventParts]
    ) -> Position:
        """Append one event; return its position once it has the durability of its topic."""
        return await self._publish(topic, make_event(value, **event), partition)

    async def publish_many(
        self, topic: str, events: AsyncValues, *, partition: int | None = None
    ) -> int:
        """Append many events in large batches; return their number once all are durable."""
        return await self._publish_many(topic, events, partition)

    async def schedule(
        self, topic: str, value: Value, *, partition: int | None = None, **event: Unpack[DueEvent]
    ) -> None:
        """Publish one event later; the rules are those of ``Stem.schedule``."""
        await self._schedule(topic, *make_due_event(value, **event), partition)

    def subscribe(self, *topics: str, **options: Unpack[SubscribeArguments]) -> S:
        """Read topics as an async iterator of events; the rules are those of ``Stem.subscribe``.

        A subscription to a server connects when its first event is requested, and only then raises
        errors of the server.
        """
        return self._subscription(SubscriptionOptions.of(topics, **options))

    def queue(self, topic: str, *, name: str, **options: Unpack[QueueArguments]) -> Q:
        """Share the events of a topic one by one; the rules are those of ``Stem.queue``.

        A queue on a server connects when its first delivery is requested, or at ``async with``.
        """
        return self._queue(QueueOptions(topic, name, **options))

    def writer(self, topic: str, *, name: str, partition: int | None = None) -> ThreadedWriter:
        """Open a fenced writer; the rules are those of ``Stem.writer``."""
        return ThreadedWriter(partial(self._stem.writer, topic, name=name, partition=partition))

    async def close(self) -> None:
        """Finish running operations, and release the directory or connection."""
        await self._leave(None)

    @abstractmethod
    async def _publish(self, topic: str, event: Event, partition: int | None) -> Position: ...

    @abstractmethod
    async def _schedule(
        self, topic: str, event: Event, due: DueTime, partition: int | None
    ) -> None: ...

    @abstractmethod
    async def _publish_many(
        self, topic: str, events: AsyncValues, partition: int | None
    ) -> int: ...

    @abstractmethod
    def _subscription(self, options: SubscriptionOptions) -> S: ...

    @abstractmethod
    def _queue(self, options: QueueOptions) -> Q: ...
