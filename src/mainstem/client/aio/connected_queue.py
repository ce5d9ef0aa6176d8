"""A queue on a server, for an event loop: a thread makes the blocking calls."""

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable
from functools import partial
from itertools import islice
from typing import NoReturn, Self, TypeVar, cast

from mainstem.client.aio.stem import AsyncDelivery
from mainstem.client.aio.threaded import Threaded, in_thread
from mainstem.client.aio.worker import SLICE_S, Worker
from mainstem.client.checks import check_limit
from mainstem.client.connected.delivery import ConnectedDelivery
from mainstem.client.connected.queue import ConnectedQueue
from mainstem.client.contexts import AsyncClosing, AsyncExits, aclose_after
from mainstem.client.stem import Delivery
from mainstem.core.errors import Closed
from mainstem.core.event import Event

T = TypeVar("T")


class AsyncConnectedDelivery(Threaded[ConnectedDelivery], AsyncExits):
    """A delivery: one event handed to one consumer, to be settled. See ``Delivery``."""

    __slots__ = ()

    @property
    def blocking(self) -> ConnectedDelivery:
        """The blocking version of this delivery, for use from other threads."""
        return self._blocking

    @property
    def event(self) -> Event:
        """The delivered event."""
        return self._blocking.event

    @property
    def count(self) -> int:
        """The number of deliveries of this event, including this one."""
        return self._blocking.count

    ack = in_thread(ConnectedDelivery.ack)
    nack = in_thread(ConnectedDelivery.nack)
    release = in_thread(ConnectedDelivery.release)
    reject = in_thread(ConnectedDelivery.reject)

    def renew(self) -> NoReturn:
        """Raise Unsupported, because locks cannot be renewed over the network."""
        self._blocking.renew()

    async def __aenter__(self) -> Event:
        """Return the delivered event; the end of the block acks or nacks it."""
        return self._blocking.event

    async def _leave(self, error: BaseException | None) -> None:
        await asyncio.to_thread(self._blocking.leave, error)


class AsyncConnectedQueue(AsyncClosing):
    """An async iterator of deliveries, for one task at a time; see ``Queue``.

    It connects when the first delivery is requested, or at ``async with``, and only then raises
    errors of the server.
    """

    def __init__(self, make: Callable[[], ConnectedQueue], *, follow: bool) -> None:
        self._make = make
        self._follow = follow
        self._worker: Worker[list[ConnectedDelivery]] = Worker("mainstem-queue")
        self._queue: ConnectedQueue | None = None
        self._taken: deque[ConnectedDelivery] = deque()
        """Deliveries fetched for a task that was cancelled; the next call returns them."""
        self._closed = False

    def __aiter__(self) -> AsyncIterator[AsyncConnectedDelivery]:
        """Return this iterator."""
        return self

    async def __anext__(self) -> AsyncConnectedDelivery:
        """Return the next delivery; StopAsyncIteration once closed, or at the end."""
        try:
            found = await self._next(1, None, ends=not self._follow)
        except Closed:
            found = []
        if not found:
            raise StopAsyncIteration
        return found[0]

    async def poll(self, timeout: float | None = None) -> AsyncConnectedDelivery | None:
        """Return the next delivery, or None after ``timeout`` seconds (None: no limit)."""
        return next(iter(await self._next(1, timeout)), None)

    async def poll_many(
        self, limit: int = 100, timeout: float | None = None
    ) -> list[AsyncConnectedDelivery]:
        """Return up to ``limit`` deliveries; waits for one, at most ``timeout`` s if given."""
        check_limit(limit)
        return await self._next(limit, timeout)

    async def ack_many(self, deliveries: Iterable[AsyncDelivery]) -> None:
        """Ack deliveries of this queue object together; they are durable on return.

        Raises StaleDelivery and InvalidSetting as ``Queue.ack_many`` does.
        """
        # The blocking queue raises an error for objects that are not deliveries.
        given = [cast(Delivery, getattr(each, "blocking", each)) for each in deliveries]
        queue = self._queue
        if queue is None:
            queue = await self._run(self._opened)
        await asyncio.to_thread(queue.ack_many, given)

    async def close(self) -> None:
        """Close; unsettled events are redelivered, which counts towards ``max_deliveries``."""
        if self._closed:
            return
        self._closed = True
        if self._queue is not None:
            await asyncio.to_thread(self._queue.close)
        self._worker.end()

    async def __aenter__(self) -> Self:
        """Join the queue, and return itself."""
        await self._run(self._opened)
        return self

    async def _leave(self, error: BaseException | None) -> None:
        await aclose_after(error, self.close())

    async def _next(
        self, limit: int, timeout_s: float | None, *, ends: bool = False
    ) -> list[AsyncConnectedDelivery]:
        until = None if timeout_s is None else time.monotonic() + timeout_s
        while not self._taken:
            left_s = SLICE_S if until is None else min(SLICE_S, until - time.monotonic())
            self._check_open()
            wait = partial(self._wait, limit, max(0.0, left_s), ends=ends)
            self._taken += await self._worker.take(wait)
            if ends or (until is not None and time.monotonic() >= until):
                break
        found = [self._taken.popleft() for _ in range(min(limit, len(self._taken)))]
        return [AsyncConnectedDelivery(each) for each in found]

    def _run(self, call: Callable[[], T]) -> "asyncio.Future[T]":
        self._check_open()
        return self._worker.run(call)

    def _check_open(self) -> None:
        if self._closed:
            raise Closed("the queue has been closed; open it again")

    def _wait(self, limit: int, wait_s: float, *, ends: bool) -> list[ConnectedDelivery]:
        queue = self._opened()
        if ends:
            return [*islice(queue, 1)]
        return queue.poll_many(limit, wait_s)

    def _opened(self) -> ConnectedQueue:
        """Return the blocking queue, created by the first call; runs in the worker thread."""
        if self._queue is None:
            self._queue = self._make()
            if self._closed:
                # A task has closed this object before the thread had created the queue.
                self._queue.close()
        return self._queue
