"""A blocking subscription to topics on a server."""

import threading
import time
from collections.abc import Iterator

from mainstem.client.connected.feed import ConnectedFeed
from mainstem.client.feed_subscription import BlockingSubscription
from mainstem.client.reaper import Reaper
from mainstem.client.subscription import SubscriptionOptions
from mainstem.core.event import Event
from mainstem.remote.admin import Admin

_FOREVER_S = 3600.0


class ConnectedSubscription(BlockingSubscription[ConnectedFeed]):
    """Implements ``Subscription`` through the Kafka protocol.

    An event counts as finished when the next one is requested, or when the reading thread calls
    ``close``; but not if an error leaves the ``with`` block, if another thread closes, or if a
    ``for`` loop without ``with`` is left by ``break``. A member of a group must keep polling,
    because it gets and gives up partitions only during a poll.
    """

    def __init__(self, administration: Admin, options: SubscriptionOptions, reaper: Reaper) -> None:
        super().__init__(options, reaper)
        self.feed = ConnectedFeed(administration, options)

    def __iter__(self) -> Iterator[Event]:
        """Return this iterator."""
        return self

    def __next__(self) -> Event:
        """Return the next event; StopIteration once closed, or at the end without ``follow``."""
        events = self._wait(1, None)
        if not events:
            raise StopIteration
        return events[0]

    def poll(self, timeout: float | None = None) -> Event | None:
        """Return the next event; None after ``timeout`` seconds (None: no limit) or at the end."""
        self._check_open()
        events = self._wait(1, timeout)
        return events[0] if events else None

    def poll_many(self, limit: int = 1000, timeout: float | None = None) -> list[Event]:
        """Return up to ``limit`` events; waits for the first, at most ``timeout`` s if given."""
        self._check_open()
        return self._wait(max(1, limit), timeout)

    def commit(self) -> None:
        """Commit the group's offsets up to the last event returned; they are durable on return."""
        self.feed.commit()

    def close_now(self, *, finished: bool) -> None:
        """Close; with ``finished``, the events returned last count as processed."""
        self.feed.close(finished=finished)

    def _wait(self, limit: int, timeout: float | None) -> list[Event]:
        self._reader = threading.get_ident()
        until = time.monotonic() + (_FOREVER_S if timeout is None else timeout)
        while True:
            events = self.feed.take(limit, max(0.0, until - time.monotonic()))
            if events:
                return events
            if self.feed.ended:
                if self._closes_at_end():
                    self.close_now(finished=True)
                return []
            if timeout is not None and time.monotonic() >= until:
                return []
