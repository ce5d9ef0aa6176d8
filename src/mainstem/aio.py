"""The async twins: ``async with mainstem.aio.open("data") as stem``, and ``connect``.

Appending is quick and done at once on the event loop; what is awaited is durability, room in a
topic that is full, and the tail. None of these takes a thread. Opening, closing and administering
topics and groups may touch many files, and run in one.
"""

import asyncio
import os
from collections.abc import AsyncIterable, Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from types import TracebackType
from typing import TYPE_CHECKING, Generic, Literal, Protocol, Self, TypeVar

from mainstem.broker.door import Held
from mainstem.client.async_administration import AsyncGroups, AsyncTopics
from mainstem.client.async_queue import AsyncDelivery, AsyncQueue
from mainstem.client.async_subscription import AsyncSubscription
from mainstem.client.embedded import EmbeddedStem, open_stem
from mainstem.client.loops import until_durable
from mainstem.client.publishing import Wait, event_of
from mainstem.client.queues import Order
from mainstem.client.stem import HeadersLike, Key, Start, Value
from mainstem.client.values import make_event
from mainstem.core.event import Event, Position

if TYPE_CHECKING:
    from mainstem.client.async_connected import AsyncConnectedStem
    from mainstem.remote.cluster import Setting

__all__ = [
    "AsyncDelivery",
    "AsyncGroups",
    "AsyncQueue",
    "AsyncStem",
    "AsyncSubscription",
    "AsyncTopics",
    "connect",
    "open",
]


def open(path: str | os.PathLike[str], **config: object) -> "Opening[AsyncStem]":  # noqa: A001 - as in gzip
    """Open a log as ``mainstem.open`` does; use with ``async with`` or ``await``."""
    return Opening(lambda: AsyncStem(open_stem(path, **config)))


def connect(
    address: str, *, timeout_s: float = 5.0, **settings: "Setting"
) -> "Opening[AsyncConnectedStem]":
    """Connect to a server as ``mainstem.connect`` does; use with ``async with`` or ``await``."""

    def make() -> "AsyncConnectedStem":
        # Who only opens logs of this process does not wait for the import of a Kafka client.
        from mainstem.client import async_connected, connected  # noqa: PLC0415

        made = connected.connect(address, timeout_s=timeout_s, **settings)
        return async_connected.AsyncConnectedStem(made)

    return Opening(make)


class _Closes(Protocol):
    def close(self) -> None: ...


class _Exits(Protocol):
    @property
    def blocking(self) -> _Closes: ...

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...


S = TypeVar("S", bound=_Exits)


class Opening(Generic[S]):
    """A stem that is about to be opened."""

    def __init__(self, make: Callable[[], S]) -> None:
        self._make = make
        self._stem: S | None = None

    def __await__(self) -> Generator[object, None, S]:
        """Return the open stem."""
        return self._open().__await__()

    async def __aenter__(self) -> S:
        """Return the open stem."""
        self._stem = await self
        return self._stem

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close it."""
        if self._stem is not None:
            await self._stem.__aexit__(kind, error, trace)

    async def _open(self) -> S:
        # A thread of its own, whose future tells a result that nobody waits for any more.
        thread = ThreadPoolExecutor(1, "mainstem-open")
        opening = thread.submit(copy_context().run, self._make)
        thread.shutdown(wait=False)
        try:
            return await asyncio.wrap_future(opening)
        except asyncio.CancelledError:
            opening.add_done_callback(_close)
            raise


def _close(opening: Future[S]) -> None:
    if not opening.cancelled() and opening.exception() is None:
        opening.result().blocking.close()


class AsyncStem:
    """A stem for one event loop."""

    def __init__(self, stem: EmbeddedStem) -> None:
        self._stem = stem
        self.topics = AsyncTopics(stem.topics)
        """Create, list, show, alter, delete, trim."""
        self.groups = AsyncGroups(stem.groups)
        """List, show, seek, delete."""

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
        while isinstance(answer, Held):
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
    ) -> AsyncSubscription:
        """Read topics as an async iterator of events; the rules are those of ``Stem.subscribe``."""
        wish = self._stem.wish(topics, group, start, follow, commit, partitions)
        made = AsyncSubscription(
            self._stem.node.broker, wish, self._stem.node.now_ms, self._stem.abandoned
        )
        self._stem.adopt(made)
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
    ) -> AsyncQueue:
        """Share the events of a topic one by one; the rules are those of ``Stem.queue``."""
        seat = self._stem.sit_down(topic, name, start, max_deliveries, lock_s, order)
        return AsyncQueue(seat, follow=follow)

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
