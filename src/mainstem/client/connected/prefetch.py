"""How many events a queue of a server may ask for at a time, so that none waits for too long.

How this works: what was asked for and waits here has its lock running, and when it goes back that
counts as a delivery that nobody saw. So a queue asks for no more events than it would hand out in a
quarter of their lock if each took as long as the longest of the last 256, and for no more than it
has handed out at this pace. If something goes back all the same, it comes again before other events
of its partition, and one event at a time is asked for until ten times as many have been handed out
(partitions may take turns): what nobody has seen does not go back a second time.
"""

from collections import deque
from math import inf

STEPS = (1, 8, 64, 256)
"""How many events are asked for at a time: a few sizes, as a member keeps to its size."""
_REMEMBERED = STEPS[-1]
_SHARE = 0.25
"""What waits is to be handed out within this share of the lock; by half of it, it goes back."""
_CAREFUL = 10
"""So many single events are asked for, for each that went back."""


class Prefetch:
    """How fast the consumers of one queue object take events, all of its threads together."""

    def __init__(self, lock_s: float) -> None:
        self._wait_s = lock_s * _SHARE
        self._pauses_s: deque[float] = deque(maxlen=_REMEMBERED)
        """How long nobody asked for the next event, after each."""
        self._handed_out_at = inf
        self._singles = 0

    @property
    def is_careful(self) -> bool:
        """Whether something went back, and may come again."""
        return self._singles > 0

    def handed_out(self, asked_at: float, now: float) -> None:
        """Note that somebody who asked then has got an event, or several, now."""
        self._pauses_s.append(self._pause_s(asked_at))
        self._handed_out_at = now
        self._singles = max(0, self._singles - 1)

    def gave_back(self, count: int) -> None:
        """Note that so many events went back that nobody had asked for in time."""
        self._singles += count * _CAREFUL

    def most(self, asked_at: float) -> int:
        """Return how many events may be asked for, for somebody who has asked for one then."""
        if self._singles or not self._pauses_s:
            return 1
        longest_s = max(self._pause_s(asked_at), *self._pauses_s)
        most = len(self._pauses_s)
        if longest_s * most > self._wait_s:
            most = int(self._wait_s / longest_s)
        return max((each for each in STEPS if each <= most), default=1)

    def _pause_s(self, asked_at: float) -> float:
        # Who asked before the last was handed out has made nobody wait.
        return max(0.0, asked_at - self._handed_out_at)
