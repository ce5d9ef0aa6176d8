"""A queue of a log in this process, for an event loop."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterable

from mainstem.broker.door import Delivery as BrokerDelivery
from mainstem.broker.door import Outcome
from mainstem.client.aio.stem import AsyncDelivery
from mainstem.client.aio.wakeup import Wakeup, until_durable
from mainstem.client.checks import check_limit
from mainstem.client.contexts import AsyncClosing, AsyncExits, aclose_after
from mainstem.client.embedded.queue_consumer import DeliveredEvent, HeldDelivery, QueueConsumer
from mainstem.core.event import Event


class AsyncEmbeddedDelivery(DeliveredEvent, AsyncExits):
    """A delivery: one event handed to one consumer, to be settled. See ``Delivery``."""

    __slots__ = ()

    async def ack(self, *, wait: bool = True) -> None:
        """Acknowledge the event, which is never delivered again; durable on return if ``wait``."""
        await self._settle(Outcome.ACK, wait=wait)

    async def nack(self, *, delay_s: float = 0.0, reason: str = "", wait: bool = True) -> None:
        """Report a failure: the event is redelivered after the delay, or becomes a dead letter."""
        await self._settle(Outcome.NACK, delay_s, reason, wait=wait)

    async def release(self, *, wait: bool = True) -> None:
        """Put the event back into its queue; does not count towards ``max_deliveries``."""
        await self._settle(Outcome.RELEASE, wait=wait)

    async def reject(self, reason: str = "", *, wait: bool = True) -> None:
        """Move the event to the dead letters at once, without a redelivery."""
        await self._settle(Outcome.REJECT, 0.0, reason, wait=wait)

    async def __aenter__(self) -> Event:
        """Return the delivered event; the end of the block acks or nacks it."""
        return self._held.given.event

    async def _leave(self, error: BaseException | None) -> None:
        self._held.leave(error)

    async def _settle(
        self, outcome: Outcome, delay_s: float = 0.0, reason: str = "", *, wait: bool
    ) -> None:
        settle = self._held.settle if wait else self._held.settle_soon
        await until_durable(settle(outcome, delay_s, reason))


class AsyncEmbeddedQueue(AsyncClosing):
    """An async iterator of deliveries, for one task at a time; see ``Queue``."""

    def __init__(self, consumer: QueueConsumer, *, follow: bool) -> None:
        self._consumer = consumer
        self._follow = follow
        self._wakeup = Wakeup()

    @property
    def consumer(self) -> str:
        """The name under which this object is a consumer of the queue."""
        return self._consumer.id

    def __aiter__(self) -> AsyncIterator[AsyncEmbeddedDelivery]:
        """Return this iterator."""
        return self

    async def __anext__(self) -> AsyncEmbeddedDelivery:
        """Return the next delivery; StopAsyncIteration once closed, or at the end."""
        found = await self._take(1, None if self._follow else 0.0)
        if not found:
            raise StopAsyncIteration
        return found[0]

    async def poll(self, timeout: float | None = None) -> AsyncEmbeddedDelivery | None:
        """Return the next delivery, or None after ``timeout`` seconds (None: no limit)."""
        self._consumer.check_open()
        return next(iter(await self._take(1, timeout)), None)

    async def poll_many(
        self, limit: int = 100, timeout: float | None = None
    ) -> list[AsyncEmbeddedDelivery]:
        """Return up to ``limit`` deliveries; waits for one, at most ``timeout`` s if given."""
        self._consumer.check_open()
        check_limit(limit)
        return await self._take(limit, timeout)

    async def ack_many(self, deliveries: Iterable[AsyncDelivery]) -> None:
        """Ack deliveries of this queue object in one write; they are durable on return.

        Raises StaleDelivery if the lock of one has expired; the others are still acked. Raises
        InvalidSetting if one belongs to another consumer; then none is acked.
        """
        settled = self._consumer.ack_many(deliveries)
        await until_durable(settled.durable)
        for error in settled.refused.values():
            raise error

    async def close(self) -> None:
        """Close; unsettled events are redelivered, and this does not count as a delivery.

        Settlements with ``wait=False`` are durable on return; raises the error of one that failed.
        """
        await until_durable(self._consumer.leave())
        self._consumer.check_settled()

    async def _leave(self, error: BaseException | None) -> None:
        await aclose_after(error, self.close())

    async def _take(self, limit: int, timeout_s: float | None) -> list[AsyncEmbeddedDelivery]:
        # Let the event loop run first, even if nothing has to be awaited: if the task is cancelled
        # here, it has lost no event.
        await asyncio.sleep(0)
        given = self._consumer.take(limit)
        if not given and self._consumer.closed is None and timeout_s != 0:
            given = await self._wait(
                limit, None if timeout_s is None else time.monotonic() + timeout_s
            )
        return [AsyncEmbeddedDelivery(HeldDelivery(self._consumer, each)) for each in given]

    async def _wait(self, limit: int, until: float | None) -> list[BrokerDelivery]:
        while True:
            rung = self._wakeup.arm()
            unwatch = self._consumer.watch(self._wakeup.wake)
            try:
                # Check again, as an event may have arrived before ``watch`` was called.
                given = self._consumer.take(limit)
                left = None if until is None else until - time.monotonic()
                if given or self._consumer.closed is not None or (left is not None and left <= 0):
                    return given
                await asyncio.wait((rung,), timeout=self._consumer.wait_s(left))
            finally:
                unwatch()
