"""A subscription to topics on a server, for an event loop: a thread makes the blocking calls."""

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from functools import partial

from mainstem.client.aio.worker import SLICE_S, Worker
from mainstem.client.connected.subscription import ConnectedSubscription
from mainstem.client.contexts import AsyncClosing
from mainstem.core.errors import Closed
from mainstem.core.event import Event

_AHEAD = 500
"""Without a group, the number of events fetched at a time. With one it would be too many, as each
fetch counts the earlier events as finished.
"""


class AsyncConnectedSubscription(AsyncClosing):
    """An async iterator of events, for one task at a time; see ``Subscription``."""

    def __init__(self, make: Callable[[], ConnectedSubscription], *, has_cursors: bool) -> None:
        self._make = make
        self._ahead = 1 if has_cursors else _AHEAD
        self._worker: Worker[list[Event] | None] = Worker("mainstem-subscription")
        self._subscription: ConnectedSubscription | None = None
        self._taken: deque[Event] = deque()
        """Events that were fetched and will be returned by the next calls."""
        self._closed = self._ended = False

    def __aiter__(self) -> AsyncIterator[Event]:
        """Return this iterator."""
        return self

    async def __anext__(self) -> Event:
        """Return the next event; StopAsyncIteration at the end, or once closed."""
        events = [] if self._closed else await self._next(1, None)
        if not events:
            raise StopAsyncIteration
        return events[0]

    async def poll(self, timeout: float | None = None) -> Event | None:
        """Return the next event; None after ``timeout`` seconds (None: no limit) or at the end."""
        self._check_open()
        events = await self._next(1, timeout)
        return events[0] if events else None

    async def poll_many(self, limit: int = 1000, timeout: float | None = None) -> list[Event]:
        """Return up to ``limit`` events; waits for the first, at most ``timeout`` s if given."""
        self._check_open()
        return await self._next(max(1, limit), timeout)

    async def commit(self) -> None:
        """Commit the group's offsets up to the last event returned; durable on return."""
        if self._subscription is None:
            return
        if self._worker.taking is not None:
            # Wait for a poll that a cancelled task began, to know which events it has not received.
            await asyncio.wait((self._worker.taking,))
        commit = self._subscription.feed.commit
        await asyncio.to_thread(commit, before=self._unreturned())

    @property
    def assignment(self) -> tuple[tuple[str, int], ...]:
        """The partitions (topic, number) read now; known after the first poll."""
        return () if self._subscription is None else self._subscription.assignment

    @property
    def missed(self) -> int:
        """Number of events that were deleted before this subscription could read them."""
        return 0 if self._subscription is None else self._subscription.missed

    async def close(self) -> None:
        """Leave the group; auto-commit commits the offsets of finished events.

        The last event returned counts as finished, unless further events were fetched and not
        returned.
        """
        await self._leave(None)

    async def _leave(self, error: BaseException | None) -> None:
        if self._closed:
            return
        self._closed = True
        # Fetched events that were not returned are not finished, and the cursors cannot tell them
        # from the last one returned.
        finished = error is None and self._worker.taking is None and not self._taken
        try:
            if self._subscription is not None:
                await asyncio.to_thread(self._subscription.close_now, finished=finished)
            elif self._worker.taking is not None:
                # The thread is still creating the subscription; the next call closes it.
                await self._worker.run(self._close_unseen)
        finally:
            self._worker.end()

    def _close_unseen(self) -> None:
        if self._subscription is not None:
            self._subscription.close_now(finished=False)

    def _unreturned(self) -> list[Event]:
        taking, events = self._worker.taking, list(self._taken)
        if taking is not None and taking.done() and taking.exception() is None:
            events += taking.result() or []
        return events

    def _check_open(self) -> None:
        if self._closed and not self._ended:
            raise Closed("the subscription has been closed; subscribe again")

    async def _next(self, limit: int, timeout_s: float | None) -> list[Event]:
        until = None if timeout_s is None else time.monotonic() + timeout_s
        while not self._taken and not self._ended:
            left_s = SLICE_S if until is None else min(SLICE_S, until - time.monotonic())
            wait = partial(self._wait, max(limit, self._ahead), max(0.0, left_s))
            events = await self._worker.take(wait)
            if events is None:
                self._ended = True
            else:
                self._taken += events
            if until is not None and time.monotonic() >= until:
                break
        return [self._taken.popleft() for _ in range(min(limit, len(self._taken)))]

    def _wait(self, limit: int, wait_s: float) -> list[Event] | None:
        """Poll for events in the worker thread; the first call creates the subscription.

        Returns None at the end.
        """
        if self._subscription is None:
            self._subscription = self._make()
        if self._closed:
            return None
        try:
            events = self._subscription.poll_many(limit, wait_s)
        except Closed:
            return None
        if not events and self._subscription.feed.ended:
            return None
        return events
