"""Subscriptions that were let go without being closed, such as by ``break`` out of a loop.

How this works: a finaliser may run at any point of any thread, even inside a lock that leaving the
group needs. So it only notes the feed here. A thread of its own acts on the notes; and so does
every call that would otherwise see the abandoned member still there.
"""

import logging
import threading
from collections import deque
from queue import SimpleQueue
from typing import Protocol

from mainstem.core.errors import MainstemError

_logger = logging.getLogger("mainstem.client")


class Closable(Protocol):
    """What a subscription reads from."""

    def close(self, *, finished: bool) -> object:
        """Leave the group; ``finished`` tells whether the events given out count."""


class Reaper:
    """Feeds to be closed by someone else than their consumer."""

    def __init__(self) -> None:
        self._feeds: deque[Closable] = deque()
        self._signals: SimpleQueue[bool] = SimpleQueue()
        self._lock = threading.Lock()
        self._started = False

    def start(self) -> None:
        """Begin to act on notes, if that was not begun."""
        with self._lock:
            if self._started:
                return
            self._started = True
        threading.Thread(target=self._run, name="mainstem-reaper", daemon=True).start()

    def stop(self) -> None:
        """Act on what was noted, and end the thread."""
        self.reap()
        self._signals.put(False)

    def note(self, feed: Closable) -> None:
        """Have a feed closed soon; takes no lock, so it is safe in a finaliser."""
        self._feeds.append(feed)
        self._signals.put(True)

    def reap(self) -> None:
        """Close what was noted until now; the events they gave out last come again."""
        with self._lock:
            while self._feeds:
                try:
                    self._feeds.popleft().close(finished=False)
                except MainstemError as error:
                    _logger.warning("closing an abandoned subscription: %s", error)

    def _run(self) -> None:
        while self._signals.get():
            self.reap()
