"""Closes subscriptions that were garbage-collected without being closed (``break`` out of a loop).

How this works: a finalizer may run in any thread at any point, even while that holds a lock that
leaving the group needs. So it only registers the subscription's feed here. A thread closes
registered feeds soon; so does every call whose result depends on group members.
"""

import logging
import threading
from collections import deque
from queue import SimpleQueue
from typing import Protocol

from mainstem.core.errors import MainstemError

_logger = logging.getLogger("mainstem.client")


class Closable(Protocol):
    """The feed of a subscription, or the members of a queue, to be closed."""

    def close(self, *, finished: bool) -> object:
        """Leave the group; with ``finished``, the events returned last count as processed."""


class Reaper:
    """Closes what belonged to subscriptions and queues that were garbage-collected."""

    def __init__(self) -> None:
        self._feeds: deque[Closable] = deque()
        self._signals: SimpleQueue[bool] = SimpleQueue()
        self._lock = threading.Lock()
        self._started = False

    def start(self) -> None:
        """Start the thread, unless it is running."""
        with self._lock:
            if self._started:
                return
            self._started = True
        threading.Thread(target=self._run, name="mainstem-reaper", daemon=True).start()

    def stop(self) -> None:
        """Close the registered feeds, and end the thread."""
        self.reap()
        self._signals.put(False)

    def note(self, feed: Closable) -> None:
        """Register a feed to be closed soon; takes no lock, so it is safe in a finalizer."""
        self._feeds.append(feed)
        self._signals.put(True)

    def reap(self) -> None:
        """Close the registered feeds now; the events they returned last are delivered again."""
        with self._lock:
            while self._feeds:
                try:
                    self._feeds.popleft().close(finished=False)
                except MainstemError as error:
                    _logger.warning("closing an abandoned subscription: %s", error)

    def _run(self) -> None:
        while self._signals.get():
            self.reap()
