"""The async twins: ``async with mainstem.aio.open("data") as stem``.

Appending is quick and done at once on the event loop; what is awaited is durability, room in a
topic that is full, and the tail. None of these takes a thread. Opening, closing and administering
topics and groups may touch many files, and run in one.
"""

import asyncio
import os
from collections.abc import AsyncIterable, Callable, Generator, Iterable, Iterator
from functools import partial
from types import TracebackType
from typing import Literal, Self

from mainstem.broker.overload import Held
from mainstem.client.async_subscription import AsyncSubscription
from mainstem.client.embedded import EmbeddedStem, open_stem
from mainstem.client.groups import EmbeddedGroups
from mainstem.client.loops import until_durable
from mainstem.client.publishing import Wait, event_of
from mainstem.client.stem import GroupInfo, HeadersLike, Key, Lag, Start, TopicInfo, Value
from mainstem.client.topics import EmbeddedTopics
from mainstem.client.values import make_event
from mainstem.core.event import Event, Position

__all__ = ["AsyncGroups", "AsyncStem", "AsyncSubscription", "AsyncTopics", "open"]


def open(path: str | os.PathLike[str], **config: object) -> "Opening":  # noqa: A001 - as in gzip
    """Open a log as ``mainstem.open`` does; use with ``async with`` or ``await``."""
    return Opening(partial(open_stem, path, **config))


class Opening:
    """A stem that is about to be opened."""

    def __init__(self, make: Callable[[], EmbeddedStem]) -> None:
        self._make = make
        self._stem: AsyncStem | None = None

    def __await__(self) -> Generator[object, None, "AsyncStem"]:
        """Return the open stem."""
        return self._open().__await__()

    async def __aenter__(self) -> "AsyncStem":
        """Return the open stem."""
        self._stem = await self._open()
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

    async def _open(self) -> "AsyncStem":
        return AsyncStem(await asyncio.to_thread(self._make))


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


class AsyncTopics:
    """What can be done with topics."""

    def __init__(self, topics: EmbeddedTopics) -> None:
        self._topics = topics

    async def create(self, name: str, *, exist_ok: bool = False, **settings: object) -> TopicInfo:
        """Create a topic; settings are those of ``TopicSettings``."""
        create = partial(self._topics.create, name, exist_ok=exist_ok, **settings)
        return await asyncio.to_thread(create)

    async def list(self, pattern: str = "*", *, internal: bool = False) -> tuple[TopicInfo, ...]:
        """Return the topics whose names match a pattern such as ``orders.*``."""
        return await asyncio.to_thread(self._topics.list, pattern, internal=internal)

    async def show(self, name: str) -> TopicInfo:
        """Return one topic."""
        return await asyncio.to_thread(self._topics.show, name)

    async def alter(self, name: str, **settings: object) -> TopicInfo:
        """Change settings; partitions may only grow."""
        return await asyncio.to_thread(partial(self._topics.alter, name, **settings))

    async def delete(self, name: str) -> None:
        """Delete a topic and all it holds."""
        await asyncio.to_thread(self._topics.delete, name)

    async def trim(self, name: str, before: Start, *, partition: int | None = None) -> TopicInfo:
        """Delete the events before an offset or a time; ``latest`` empties the topic."""
        return await asyncio.to_thread(self._topics.trim, name, before, partition=partition)


class AsyncGroups:
    """What can be done with groups."""

    def __init__(self, groups: EmbeddedGroups) -> None:
        self._groups = groups

    async def list(self) -> tuple[GroupInfo, ...]:
        """Return every group that is live or has cursors."""
        return await asyncio.to_thread(self._groups.list)

    async def show(self, name: str) -> GroupInfo:
        """Return one group."""
        return await asyncio.to_thread(self._groups.show, name)

    async def seek(
        self,
        name: str,
        topic: str,
        to: Start,
        *,
        partition: int | None = None,
        dry_run: bool = False,
    ) -> tuple[Lag, ...]:
        """Move the cursors of a group that has no live members; return where they are then."""
        seek = partial(self._groups.seek, partition=partition, dry_run=dry_run)
        return await asyncio.to_thread(seek, name, topic, to)

    async def delete(self, name: str) -> None:
        """Forget a group that has no live members."""
        await asyncio.to_thread(self._groups.delete, name)
