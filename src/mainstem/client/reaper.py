"""Closes subscriptions that were garbage-collected without being closed (``break`` out of a loop).

How this works: a finalizer may run at any point of any thread, even while that holds a lock that
leaving the group needs. So it only notes the feed here. A thread closes the noted feeds; so does
every call that would otherwise still see the abandoned member.
"""

import logging
import threading
from collections import deque
from queue import SimpleQueue
from typing import Protocol

from mainstem.core.errors import MainstemError

_logger = logging.getLogger("mainstem.client")


class Closable(Protocol):
    """A feed that can be closed."""

    def close(self, *, finished: bool) -> object:
        """Leave the group; with ``finished``, the events returned last count as processed."""


class Reaper:
    """Closes the feeds of subscriptions that were garbage-collected."""

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
        """Close the feeds passed to ``note``, and end the thread."""
        self.reap()
        self._signals.put(False)

    def note(self, feed: Closable) -> None:
        """Note a feed that is to be closed soon; takes no lock, so it is safe in a finalizer."""
        self._feeds.append(feed)
        self._signals.put(True)

    def reap(self) -> None:
        """Close the noted feeds; the events they returned last are delivered again."""
        with self._lock:
            while self._feeds:
                try:
                    self._feeds.popleft().close(finished=False)
                except MainstemError as error:
                    _logger.warning("closing an abandoned subscription: %s", error)

    def _run(self) -> None:
        while self._signals.get():
            self.reap()
