"""The prefetch of a queue on a server: how many events one fetch may get.

How this works: a prefetched event is locked although the caller has not got it yet, and if it is
released, the server counts that as a delivery. So a queue fetches only as many events as it would
return within a quarter of their lock time if each took as long as the slowest of the last 256, and
no more than it has returned so far. If prefetched events must be released nevertheless, the server
redelivers them before other events of their partition. From then on the queue fetches single
events, until it has returned ten times as many as it had released (they may be in other
partitions), so that none of them is released a second time before a caller gets it.
"""

from collections import deque
from math import inf

STEPS = (1, 8, 64, 256)
"""Allowed fetch sizes; few, because each share group member keeps the size it began with."""
_REMEMBERED = STEPS[-1]
_SHARE = 0.25
"""Share of the lock time within which prefetched events should be returned to the caller; those
not returned after half of the lock time are released.
"""
_CAREFUL = 10
"""Number of single-event fetches that follow for each event that was released unseen."""


class Prefetch:
    """Decides how many events one fetch may get, by how fast callers request them."""

    def __init__(self, lock_s: float) -> None:
        self._wait_s = lock_s * _SHARE
        self._pauses_s: deque[float] = deque(maxlen=_REMEMBERED)
        """Seconds from the return of an event to the next request, for the latest events."""
        self._handed_out_at = inf
        self._singles = 0

    @property
    def is_careful(self) -> bool:
        """Whether released events, which no caller has got, may still have to be redelivered."""
        return self._singles > 0

    def handed_out(self, asked_at: float, now: float) -> None:
        """Record that a request made at ``asked_at`` was answered with events at ``now``."""
        self._pauses_s.append(self._pause_s(asked_at))
        self._handed_out_at = now
        self._singles = max(0, self._singles - 1)

    def gave_back(self, count: int) -> None:
        """Record that ``count`` prefetched events were released before a caller got them."""
        self._singles += count * _CAREFUL

    def most(self, asked_at: float) -> int:
        """Return how many events may be fetched for a request made at ``asked_at``."""
        if self._singles or not self._pauses_s:
            return 1
        longest_s = max(self._pause_s(asked_at), *self._pauses_s)
        most = len(self._pauses_s)
        if longest_s * most > self._wait_s:
            most = int(self._wait_s / longest_s)
        return max((each for each in STEPS if each <= most), default=1)

    def _pause_s(self, asked_at: float) -> float:
        # A request that came before the last event was returned did not make it wait.
        return max(0.0, asked_at - self._handed_out_at)
