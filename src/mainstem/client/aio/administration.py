"""Administration of topics, groups and queues from an event loop: each call runs in a thread."""

import asyncio
from functools import partial

from mainstem.client.aio.threaded import Threaded, in_thread
from mainstem.client.info import TopicInfo
from mainstem.client.stem import Groups, Queues, Topics


class ThreadedTopics(Threaded[Topics]):
    """Implements ``AsyncTopics``, the topic operations for an event loop."""

    async def create(self, name: str, *, exist_ok: bool = False, **settings: object) -> TopicInfo:
        """Create a topic; settings are those of ``TopicSettings``."""
        create = partial(self._blocking.create, name, exist_ok=exist_ok, **settings)
        return await asyncio.to_thread(create)

    async def alter(self, name: str, **settings: object) -> TopicInfo:
        """Change settings of a topic; its number of partitions can only be increased."""
        return await asyncio.to_thread(partial(self._blocking.alter, name, **settings))

    list = in_thread(Topics.list)
    show = in_thread(Topics.show)
    delete = in_thread(Topics.delete)
    trim = in_thread(Topics.trim)


class ThreadedGroups(Threaded[Groups]):
    """Implements ``AsyncGroups``, the group operations for an event loop."""

    list = in_thread(Groups.list)
    show = in_thread(Groups.show)
    seek = in_thread(Groups.seek)
    delete = in_thread(Groups.delete)


class ThreadedQueues(Threaded[Queues]):
    """Implements ``AsyncQueues``, the queue operations for an event loop."""

    list = in_thread(Queues.list)
    show = in_thread(Queues.show)
    peek = in_thread(Queues.peek)
    purge = in_thread(Queues.purge)
    move = in_thread(Queues.move)
    delete = in_thread(Queues.delete)
