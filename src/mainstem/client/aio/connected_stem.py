"""The async version of ``mainstem.connect``.

How this works: librdkafka's calls block, so they run in threads. One thread sends events, in the
order of the calls, without waiting for their acknowledgement. Each subscription and each queue has
a thread that polls for its events. A poll lasts half a second at most, so a program that ends
without closing them does not hang.
"""

import asyncio
from collections.abc import AsyncIterable, Callable
from functools import partial
from itertools import islice
from typing import TypeVar

from mainstem.client.aio.common_stem import CommonAsyncStem
from mainstem.client.aio.connected_queue import AsyncConnectedQueue
from mainstem.client.aio.connected_subscription import AsyncConnectedSubscription
from mainstem.client.aio.wakeup import Wakeup
from mainstem.client.aio.worker import Worker
from mainstem.client.connected.stem import ConnectedStem
from mainstem.client.due_times import DueTime
from mainstem.client.queue_options import QueueOptions
from mainstem.client.subscription import SubscriptionOptions
from mainstem.client.values import AsyncValues, Value
from mainstem.core.errors import Closed, UnknownPartition, UnknownTopic
from mainstem.core.event import Event, Position

T = TypeVar("T")

_CHUNK = 10_000
"""Number of events of an async iterable that are published together."""


class AsyncConnectedStem(
    CommonAsyncStem[ConnectedStem, AsyncConnectedSubscription, AsyncConnectedQueue]
):
    """An ``AsyncStem`` on a server."""

    def __init__(self, stem: ConnectedStem) -> None:
        super().__init__(stem)
        self._sender = Worker[None]("mainstem-sender")
        self._closed = False

    async def _publish(self, topic: str, event: Event, partition: int | None) -> Position:
        try:
            return await self._deliver(topic, event, partition, anew=False)
        except (UnknownTopic, UnknownPartition):
            return await self._deliver(topic, event, partition, anew=True)

    async def _schedule(
        self, topic: str, event: Event, due: DueTime, partition: int | None
    ) -> None:
        await self._in_order(partial(self._stem.delay, topic, event, due, partition))

    async def _publish_many(self, topic: str, events: AsyncValues, partition: int | None) -> int:
        publish = partial(self._stem.publish_many, topic, partition=partition)
        if not isinstance(events, AsyncIterable):
            rest, count = iter(events), 0
            # The iterable is the caller's code, so it is iterated in the caller's thread.
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

    def _subscription(self, options: SubscriptionOptions) -> AsyncConnectedSubscription:
        make = partial(self._stem.open_subscription, options)
        return AsyncConnectedSubscription(make, has_cursors=options.group is not None)

    def _queue(self, options: QueueOptions) -> AsyncConnectedQueue:
        make = partial(self._stem.open_queue, options)
        return AsyncConnectedQueue(make, follow=options.follow)

    async def _leave(self, error: BaseException | None) -> None:
        self._closed = True
        await asyncio.to_thread(self._stem.close_now, failed=error is not None)
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
