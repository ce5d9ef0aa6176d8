"""The async twin of ``mainstem.open``.

Appending is quick and done at once on the event loop; what is awaited is durability, room in a
topic that is full, and the tail. None of these takes a thread. Closing and administering topics and
groups may touch many files, and run in one.
"""

import asyncio
from collections.abc import AsyncIterable, Iterable, Iterator
from functools import partial
from types import TracebackType
from typing import Literal, Self

from mainstem.broker.door import HeldPublish
from mainstem.client.aio.administration import ThreadedGroups, ThreadedQueues, ThreadedTopics
from mainstem.client.aio.embedded_queue import AsyncEmbeddedQueue
from mainstem.client.aio.embedded_subscription import AsyncEmbeddedSubscription
from mainstem.client.aio.wakeup import until_durable
from mainstem.client.aio.writer import ThreadedWriter
from mainstem.client.embedded.publishing import Wait
from mainstem.client.embedded.stem import EmbeddedStem
from mainstem.client.info import Order
from mainstem.client.starts import Start
from mainstem.client.values import HeadersLike, Key, Value, event_of, make_event
from mainstem.core.event import Event, Position


class AsyncEmbeddedStem:
    """A stem for one event loop."""

    def __init__(self, stem: EmbeddedStem) -> None:
        self._stem = stem
        self.topics = ThreadedTopics(stem.topics)
        """Create, list, show, alter, delete, trim."""
        self.groups = ThreadedGroups(stem.groups)
        """List, show, seek, delete."""
        self.queues = ThreadedQueues(stem.queues)
        """List, show, peek, delete."""

    @property
    def blocking(self) -> EmbeddedStem:
        """The same stem, for use from other threads."""
        return self._stem

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
        """Append one event; return where it stands, once it is as durable as the topic says."""
        event = make_event(value, key, headers, timestamp_ms)
        answer = self._stem.try_publish(topic, event, partition)
        while isinstance(answer, HeldPublish):
            await self._wait(Wait(answer.room, answer.until_ms))
            answer = self._stem.try_publish(topic, event, partition, answer)
        await until_durable(answer.durable)
        return answer.position

    async def publish_many(
        self,
        topic: str,
        events: Iterable[Value | Event] | AsyncIterable[Value | Event],
        *,
        partition: int | None = None,
    ) -> int:
        """Append many events in large batches; return how many, once all are durable."""
        bulk = self._stem.bulk(topic, partition)
        if isinstance(events, AsyncIterable):
            async for value in events:
                if bulk.put(event_of(value)):
                    await self._wait_all(bulk.drain())
        else:
            for value in events:
                if bulk.put(event_of(value)):
                    await self._wait_all(bulk.drain())
        await self._wait_all(bulk.finish())
        return bulk.count

    def subscribe(
        self,
        *topics: str,
        group: str | None = None,
        start: Start = "earliest",
        follow: bool = True,
        commit: Literal["auto", "manual"] = "auto",
        partitions: Iterable[int] | None = None,
    ) -> AsyncEmbeddedSubscription:
        """Read topics as an async iterator of events; the rules are those of ``Stem.subscribe``."""
        options = self._stem.subscription_options(topics, group, start, follow, commit, partitions)
        made = AsyncEmbeddedSubscription(
            self._stem.node.broker, options, self._stem.node.now_ms, self._stem.reaper
        )
        self._stem.register(made)
        return made

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
    ) -> AsyncEmbeddedQueue:
        """Share the events of a topic one by one; the rules are those of ``Stem.queue``."""
        consumer = self._stem.join_queue(topic, name, start, max_deliveries, lock_s, order)
        return AsyncEmbeddedQueue(consumer, follow=follow)

    def writer(self, topic: str, *, name: str, partition: int | None = None) -> ThreadedWriter:
        """Become the only writer of that name; the rules are those of ``Stem.writer``."""
        make = partial(self._stem.writer, topic, name=name, partition=partition)
        return ThreadedWriter(make)

    async def close(self) -> None:
        """Finish what is under way and let go of the directory."""
        await asyncio.to_thread(self._stem.close)

    async def __aenter__(self) -> Self:
        """Return itself."""
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close; an error means that events given out last were not finished."""
        await asyncio.to_thread(self._stem.__exit__, kind, error, trace)

    async def _wait_all(self, waits: Iterator[Wait]) -> None:
        for wait in waits:
            await self._wait(wait)
        # Others have their turn, also where nothing had to be waited for.
        await asyncio.sleep(0)

    async def _wait(self, wait: Wait) -> None:
        timeout_s = None
        if wait.until_ms is not None:
            timeout_s = max(0, wait.until_ms - self._stem.node.now_ms()) / 1000
        await until_durable(wait.durable, timeout_s)
