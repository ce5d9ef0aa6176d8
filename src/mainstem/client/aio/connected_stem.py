"""The async twin of ``mainstem.connect``.

How this works: librdkafka waits in threads, so this does too. One thread puts events on their way,
in the order of the calls, and none waits for them to arrive. Each subscription and each queue has a
thread that waits for its events, a short while at a time, so that a program can end without closing
it.
"""

import asyncio
from collections.abc import AsyncIterable, Callable, Iterable
from functools import partial
from itertools import islice
from types import TracebackType
from typing import Literal, Self, TypeVar

from mainstem.client.aio.administration import ThreadedGroups, ThreadedQueues, ThreadedTopics
from mainstem.client.aio.connected_queue import AsyncConnectedQueue
from mainstem.client.aio.connected_subscription import AsyncConnectedSubscription
from mainstem.client.aio.wakeup import Wakeup
from mainstem.client.aio.worker import Worker
from mainstem.client.aio.writer import ThreadedWriter
from mainstem.client.connected.stem import ConnectedStem
from mainstem.client.info import Order
from mainstem.client.starts import Start
from mainstem.client.values import HeadersLike, Key, Value, make_event
from mainstem.core.errors import Closed, UnknownPartition, UnknownTopic
from mainstem.core.event import Event, Position

T = TypeVar("T")

_CHUNK = 10_000
"""Events of an async iterable that are published together."""


class AsyncConnectedStem:
    """A stem on a server, for one event loop."""

    def __init__(self, stem: ConnectedStem) -> None:
        self._stem = stem
        self._sender = Worker[None]("mainstem-sender")
        self._closed = False
        self.topics = ThreadedTopics(stem.topics)
        """Create, list, show, alter, delete, trim."""
        self.groups = ThreadedGroups(stem.groups)
        """List, show, seek, delete."""
        self.queues = ThreadedQueues(stem.queues)
        """List, show, peek, delete."""

    @property
    def blocking(self) -> ConnectedStem:
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
        try:
            return await self._deliver(topic, event, partition, anew=False)
        except (UnknownTopic, UnknownPartition):
            return await self._deliver(topic, event, partition, anew=True)

    async def publish_many(
        self,
        topic: str,
        events: Iterable[Value | Event] | AsyncIterable[Value | Event],
        *,
        partition: int | None = None,
    ) -> int:
        """Append many events in large batches; return how many, once all are durable."""
        publish = partial(self._stem.publish_many, topic, partition=partition)
        if not isinstance(events, AsyncIterable):
            rest, count = iter(events), 0
            # The iterable is the caller's, and so it is asked in the caller's thread.
            while chunk := list(islice(rest, _CHUNK)):
                count += await self._in_order(partial(publish, chunk))
            return count
        gathered: list[Value | Event] = []
        count = 0
        async for value in events:
            gathered.append(value)
            if len(gathered) == _CHUNK:
                count += await self._in_order(partial(publish, gathered))
                gathered = []
        return count + await self._in_order(partial(publish, gathered))

    def subscribe(
        self,
        *topics: str,
        group: str | None = None,
        start: Start = "earliest",
        follow: bool = True,
        commit: Literal["auto", "manual"] = "auto",
        partitions: Iterable[int] | None = None,
    ) -> AsyncConnectedSubscription:
        """Read topics as an async iterator of events; the rules are those of ``Stem.subscribe``.

        The server is asked when the first event is: what it refuses is raised there.
        """
        chosen = None if partitions is None else tuple(partitions)
        return AsyncConnectedSubscription(
            partial(
                self._stem.subscribe,
                *topics,
                group=group,
                start=start,
                follow=follow,
                commit=commit,
                partitions=chosen,
            ),
            has_cursors=group is not None,
        )

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
    ) -> AsyncConnectedQueue:
        """Share the events of a topic one by one; the rules are those of ``ConnectedStem.queue``.

        The server is asked when the first delivery is, or by ``async with``.
        """
        make = partial(
            self._stem.queue,
            topic,
            name=name,
            start=start,
            max_deliveries=max_deliveries,
            lock_s=lock_s,
            order=order,
            follow=follow,
        )
        return AsyncConnectedQueue(make, follow=follow)

    def writer(self, topic: str, *, name: str, partition: int | None = None) -> ThreadedWriter:
        """Become the only writer of that name; the rules are those of ``Stem.writer``."""
        make = partial(self._stem.writer, topic, name=name, partition=partition)
        return ThreadedWriter(make)

    async def close(self) -> None:
        """Finish what is under way and let go of the connection."""
        await self.__aexit__(None, None, None)

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
        self._closed = True
        await asyncio.to_thread(self._stem.__exit__, kind, error, trace)
        self._sender.end()

    async def _deliver(
        self, topic: str, event: Event, partition: int | None, *, anew: bool
    ) -> Position:
        wakeup = Wakeup()
        arrived = wakeup.arm()
        send = partial(self._stem.send, topic, event, partition, wakeup.wake, anew=anew)
        delivery = await self._in_order(send)
        await arrived
        return delivery.wait()

    async def _in_order(self, call: Callable[[], T]) -> T:
        if self._closed:
            raise Closed("the stem has been closed; connect again")
        return await self._sender.run(call)
