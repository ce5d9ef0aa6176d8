"""A subscription to a server, that waits in the thread of its consumer."""

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

    An event counts as finished when the next one is asked for, or at ``close`` by the thread that
    reads; not when an error leaves the ``with`` block, when another thread closes, or when a bare
    loop is left by ``break``. A member of a group has to go on asking: it is only then that it
    takes and gives up partitions.
    """

    def __init__(self, administration: Admin, options: SubscriptionOptions, reaper: Reaper) -> None:
        super().__init__(options, reaper)
        self.feed = ConnectedFeed(administration, options)

    def __iter__(self) -> Iterator[Event]:
        """Iterate."""
        return self

    def __next__(self) -> Event:
        """Return the next event; StopIteration at the end if it does not follow, or once closed."""
        events = self._wait(1, None)
        if not events:
            raise StopIteration
        return events[0]

    def poll(self, timeout: float | None = None) -> Event | None:
        """Return the next event, or None if none came in ``timeout`` seconds."""
        self._check_open()
        events = self._wait(1, timeout)
        return events[0] if events else None

    def poll_many(self, limit: int = 1000, timeout: float | None = None) -> list[Event]:
        """Return the events that are there, at most ``limit``, waiting for the first."""
        self._check_open()
        return self._wait(max(1, limit), timeout)

    def commit(self) -> None:
        """Store the group's cursors after the last event returned; durable on return."""
        self.feed.commit()

    def close_now(self, *, finished: bool) -> None:
        """Close, saying whether the events returned last are finished."""
        self.feed.close(finished=finished)

    def _wait(self, limit: int, timeout: float | None) -> list[Event]:
        self._reader = threading.get_ident()
        until = time.monotonic() + (_FOREVER_S if timeout is None else timeout)
        while True:
            events = self.feed.take(limit, max(0.0, until - time.monotonic()))
            if events:
                return events
            if self.feed.ended:
                self._ended = self._ended or not self.feed.closed
                if not self._by_hand:
                    self.close_now(finished=True)
                return []
            if timeout is not None and time.monotonic() >= until:
                return []
