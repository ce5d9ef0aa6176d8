"""Administering topics, groups and queues from an event loop: the calls run in a thread."""

import asyncio
from functools import partial

from mainstem.client.info import GroupInfo, Lag, QueuedEvent, QueueInfo, TopicInfo
from mainstem.client.starts import Start
from mainstem.client.stem import Groups, Queues, Topics
from mainstem.core.event import Position


class ThreadedTopics:
    """Implements ``AsyncTopics``."""

    def __init__(self, topics: Topics) -> None:
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


class ThreadedGroups:
    """Implements ``AsyncGroups``."""

    def __init__(self, groups: Groups) -> None:
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


class ThreadedQueues:
    """Implements ``AsyncQueues``."""

    def __init__(self, queues: Queues) -> None:
        self._queues = queues

    async def list(self) -> tuple[QueueInfo, ...]:
        """Return every queue, by topic and name."""
        return await asyncio.to_thread(self._queues.list)

    async def show(self, topic: str, name: str) -> QueueInfo:
        """Return one queue."""
        return await asyncio.to_thread(self._queues.show, topic, name)

    async def peek(
        self, topic: str, name: str, limit: int = 10, *, after: Position | None = None
    ) -> tuple[QueuedEvent, ...]:
        """Return the first events that are not settled, or the first after one; take none."""
        return await asyncio.to_thread(self._queues.peek, topic, name, limit, after=after)

    async def delete(self, topic: str, name: str) -> None:
        """Forget a queue; the events stay in the topic."""
        await asyncio.to_thread(self._queues.delete, topic, name)
