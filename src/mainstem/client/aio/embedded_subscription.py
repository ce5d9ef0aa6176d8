"""A subscription of a log in this process, for an event loop."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import TypeVar

from mainstem.broker.door import Door
from mainstem.client.aio.wakeup import Wakeup, until_durable
from mainstem.client.contexts import AsyncClosing
from mainstem.client.embedded.feed import Feed
from mainstem.client.feed_subscription import FeedSubscription
from mainstem.client.reaper import Reaper
from mainstem.client.subscription import SubscriptionOptions
from mainstem.core.event import Event

T = TypeVar("T")

_IN_A_ROW = 256
"""Number of events returned in a row before other tasks of the event loop may run."""


class AsyncEmbeddedSubscription(FeedSubscription[Feed], AsyncClosing):
    """An async iterator of events, for one task at a time; see ``Subscription``."""

    def __init__(
        self, broker: Door, options: SubscriptionOptions, now_ms: Callable[[], int], reaper: Reaper
    ) -> None:
        super().__init__(options, reaper)
        self._wakeup = Wakeup()
        self._in_a_row = 0
        self.feed = Feed(broker, options, self._wakeup.wake, now_ms)

    def __aiter__(self) -> AsyncIterator[Event]:
        """Return this iterator."""
        return self

    async def __anext__(self) -> Event:
        """Return the next event; StopAsyncIteration at the end, or once closed."""
        event = await self._next(self.feed.take, None)
        if event is None:
            raise StopAsyncIteration
        return event

    async def poll(self, timeout: float | None = None) -> Event | None:
        """Return the next event; None after ``timeout`` seconds (None: no limit) or at the end."""
        self._check_open()
        return await self._next(self.feed.take, timeout)

    async def poll_many(self, limit: int = 1000, timeout: float | None = None) -> list[Event]:
        """Return up to ``limit`` events; waits for the first, at most ``timeout`` s if given."""
        self._check_open()
        return await self._next(partial(self.feed.take_many, max(1, limit)), timeout) or []

    async def commit(self) -> None:
        """Commit the group's offsets up to the last event returned; durable on return."""
        await until_durable(self.feed.commit())

    async def close(self) -> None:
        """Leave the group; auto-commit commits the offsets up to the last event returned."""
        await self._leave(None)

    def stem_closes(self, *, failed: bool) -> None:
        """Close because the stem closes; the last event returned counts as unfinished."""
        self.feed.close(finished=False)

    async def _leave(self, error: BaseException | None) -> None:
        await until_durable(self.feed.close(finished=error is None))

    async def _next(self, take: Callable[[], T | None], timeout_s: float | None) -> T | None:
        self._in_a_row += 1
        if self._in_a_row > _IN_A_ROW:
            self._in_a_row = 0
            # Let the event loop run before an event is taken: if the task is cancelled here, it
            # loses none.
            await asyncio.sleep(0)
        return take() or await self._wait(take, timeout_s)

    async def _wait(self, take: Callable[[], T | None], timeout_s: float | None) -> T | None:
        until = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            rung = self._wakeup.arm()
            taken = take()
            if taken:
                return taken
            if self.feed.ended:
                if self._closes_at_end():
                    await self.close()
                return None
            left = None if until is None else until - time.monotonic()
            if left is not None and left <= 0:
                return None
            await asyncio.wait((rung,), timeout=self.feed.wait_s(left))
