"""The async version of ``mainstem.open``.

Appending is fast, so it runs on the event loop. Durability, space in a full topic, and new events
at the tail are awaited, without a thread. Closing, and administration of topics and groups, may
touch many files, so they run in a thread.
"""

import asyncio
from collections.abc import AsyncIterable, Iterator

from mainstem.broker.door import HeldPublish
from mainstem.client.aio.common_stem import CommonAsyncStem
from mainstem.client.aio.embedded_queue import AsyncEmbeddedQueue
from mainstem.client.aio.embedded_subscription import AsyncEmbeddedSubscription
from mainstem.client.aio.wakeup import until_durable
from mainstem.client.due_times import DueTime
from mainstem.client.embedded.publishing import Wait
from mainstem.client.embedded.stem import EmbeddedStem
from mainstem.client.queue_options import QueueOptions
from mainstem.client.subscription import SubscriptionOptions
from mainstem.client.values import AsyncValues, event_of
from mainstem.core.event import Event, Position


class AsyncEmbeddedStem(
    CommonAsyncStem[EmbeddedStem, AsyncEmbeddedSubscription, AsyncEmbeddedQueue]
):
    """An ``AsyncStem`` on the log of this process."""

    async def _publish(self, topic: str, event: Event, partition: int | None) -> Position:
        answer = self._stem.try_publish(topic, event, partition)
        while isinstance(answer, HeldPublish):
            await self._wait(Wait(answer.room, answer.until_ms))
            answer = self._stem.try_publish(topic, event, partition, answer)
        if answer.durable.done:
            answer.durable.wait()
        else:
            await until_durable(answer.durable)
        return answer.position

    async def _schedule(
        self, topic: str, event: Event, due: DueTime, partition: int | None
    ) -> None:
        due_ms = due.to_ms(self._stem.node.now_ms())
        await until_durable(self._stem.delay(topic, event, due_ms, partition))

    async def _publish_many(self, topic: str, events: AsyncValues, partition: int | None) -> int:
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

    def _subscription(self, options: SubscriptionOptions) -> AsyncEmbeddedSubscription:
        node, options = self._stem.node, self._stem.with_settings(options)
        made = AsyncEmbeddedSubscription(node.broker, options, node.now_ms, self._stem.reaper)
        self._stem.register(made)
        return made

    def _queue(self, options: QueueOptions) -> AsyncEmbeddedQueue:
        return AsyncEmbeddedQueue(self._stem.join_queue(options), follow=options.follow)

    async def _leave(self, error: BaseException | None) -> None:
        await asyncio.to_thread(self._stem.close_now, failed=error is not None)

    async def _wait_all(self, waits: Iterator[Wait]) -> None:
        for wait in waits:
            await self._wait(wait)
        # Let the event loop run, even if nothing had to be awaited.
        await asyncio.sleep(0)

    async def _wait(self, wait: Wait) -> None:
        timeout_s = None
        if wait.until_ms is not None:
            timeout_s = max(0, wait.until_ms - self._stem.node.now_ms()) / 1000
        await until_durable(wait.durable, timeout_s)
