"""What the clock on the wall has shown, which may be set at any moment.

A server dates messages, and sees what is due, by this clock. Who does not know at which moment of a
time it has looked can only say what it may have seen: the highest time, or the greatest rise.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple


class Moment(NamedTuple):
    """A moment in the history of the clock."""

    ms: int
    """What it showed."""
    sets: int
    """How often it had been set."""


class WallClock:
    """The history of the clock; between two settings it goes forward."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self.first = Moment(now_ms(), 0)
        """The first moment of all."""
        self._sets: list[tuple[int, int]] = []
        """What it showed before and after each time that it was set."""

    @contextmanager
    def set(self) -> Iterator[None]:
        """Take note that it is set inside."""
        before = self._now_ms()
        yield
        self._sets.append((before, self._now_ms()))

    def now(self) -> Moment:
        """Return this moment."""
        return Moment(self._now_ms(), len(self._sets))

    def highest_since(self, first: Moment) -> int:
        """Return the highest time that it showed between a moment and now."""
        return max(each for run in self._runs(first) for each in run)

    def rise_since(self, first: Moment) -> int:
        """Return by how much it was higher at most than at an earlier moment, since ``first``."""
        lowest, rise = first.ms, 0
        for began, ended in self._runs(first):
            lowest = min(lowest, began)
            rise = max(rise, ended - lowest)
        return rise

    def _runs(self, first: Moment) -> Iterator[tuple[int, int]]:
        """Yield what it showed at the beginning and the end of each time that it was not set."""
        began = first.ms
        for before, after in self._sets[first.sets :]:
            yield began, before
            began = after
        yield began, self._now_ms()
