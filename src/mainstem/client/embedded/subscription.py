"""A blocking subscription of a log in this process."""

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

    An event counts as finished when the next one is requested, or when the reading thread calls
    ``close``. It does not if an error leaves the ``with`` block, if another thread closes
    meanwhile, or if a ``for`` loop without ``with`` is left by ``break``: then it is delivered
    again. A subscription that is garbage-collected leaves its group.
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
        """Return this iterator."""
        return self

    def __next__(self) -> Event:
        """Return the next event; StopIteration once closed, or at the end without ``follow``."""
        self._reader = threading.get_ident()
        event = self.feed.take() or self._wait(self.feed.take, None)
        if event is None:
            raise StopIteration
        return event

    def poll(self, timeout: float | None = None) -> Event | None:
        """Return the next event; None after ``timeout`` seconds (None: no limit) or at the end."""
        self._check_open()
        self._reader = threading.get_ident()
        return self.feed.take() or self._wait(self.feed.take, timeout)

    def poll_many(self, limit: int = 1000, timeout: float | None = None) -> list[Event]:
        """Return up to ``limit`` events; waits for the first, at most ``timeout`` s if given."""
        self._check_open()
        self._reader = threading.get_ident()
        take = partial(self.feed.take_many, max(1, limit))
        return take() or self._wait(take, timeout) or []

    def commit(self) -> None:
        """Commit the group's offsets up to the last event returned; durable on return."""
        self.feed.commit().wait()

    def close_now(self, *, finished: bool) -> None:
        """Close; with ``finished``, the events returned last count as processed."""
        self.feed.close(finished=finished).wait()

    def _wait(self, take: Callable[[], T | None], timeout: float | None) -> T | None:
        until = None if timeout is None else time.monotonic() + timeout
        while True:
            self._forget_signals()
            taken = take()
            if taken:
                return taken
            if self.feed.ended:
                if self._closes_at_end():
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
        """Discard signals received so far; a later one wakes again."""
        try:
            while True:
                self._signals.get_nowait()
        except Empty:
            return
