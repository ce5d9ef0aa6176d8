"""A subscription that waits in the thread of its consumer."""

import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from queue import Empty, SimpleQueue
from typing import TypeVar

from mainstem.broker.door import Door
from mainstem.client.embedded.feed import Feed
from mainstem.client.feed_subscription import BlockingSubscription
from mainstem.client.reaper import Reaper
from mainstem.client.subscription import SubscriptionOptions
from mainstem.core.event import Event

T = TypeVar("T")


class EmbeddedSubscription(BlockingSubscription[Feed]):
    """Implements ``Subscription`` on the log of this process.

    An event counts as finished when the next one is asked for, or at ``close`` by the thread that
    reads. It does not when an error leaves the ``with`` block, when another thread closes while
    the event is worked on, or when a bare loop is left by ``break``: then it comes again.
    A subscription that nothing refers to any more leaves its group by itself.
    """

    def __init__(
        self,
        broker: Door,
        options: SubscriptionOptions,
        now_ms: Callable[[], int],
        reaper: Reaper,
    ) -> None:
        super().__init__(options, reaper)
        signals = self._signals = SimpleQueue[None]()
        self.feed = Feed(broker, options, lambda: signals.put(None), now_ms)

    def __iter__(self) -> Iterator[Event]:
        """Iterate."""
        return self

    def __next__(self) -> Event:
        """Return the next event; StopIteration at the end if it does not follow, or once closed."""
        self._reader = threading.get_ident()
        event = self.feed.take() or self._wait(self.feed.take, None)
        if event is None:
            raise StopIteration
        return event

    def poll(self, timeout: float | None = None) -> Event | None:
        """Return the next event, or None if none came in ``timeout`` seconds."""
        self._check_open()
        self._reader = threading.get_ident()
        return self.feed.take() or self._wait(self.feed.take, timeout)

    def poll_many(self, limit: int = 1000, timeout: float | None = None) -> list[Event]:
        """Return the events that are there, at most ``limit``, waiting for the first."""
        self._check_open()
        self._reader = threading.get_ident()
        take = partial(self.feed.take_many, max(1, limit))
        return take() or self._wait(take, timeout) or []

    def commit(self) -> None:
        """Store the group's cursors after the last event returned; durable on return."""
        self.feed.commit().wait()

    def close_now(self, *, finished: bool) -> None:
        """Close, saying whether the events returned last are finished."""
        self.feed.close(finished=finished).wait()

    def _wait(self, take: Callable[[], T | None], timeout: float | None) -> T | None:
        until = None if timeout is None else time.monotonic() + timeout
        while True:
            self._forget_signals()
            taken = take()
            if taken:
                return taken
            if self.feed.ended:
                self._ended = self._ended or not self.feed.closed
                if not self._by_hand:
                    self.close_now(finished=True)
                return None
            left = None if until is None else until - time.monotonic()
            if left is not None and left <= 0:
                return None
            try:
                self._signals.get(timeout=self.feed.wait_s(left))
            except Empty:
                continue

    def _forget_signals(self) -> None:
        """Take signals of what has been seen; a later one is not among them, and wakes again."""
        try:
            while True:
                self._signals.get_nowait()
        except Empty:
            return
