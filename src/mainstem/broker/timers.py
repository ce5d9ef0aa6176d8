"""The broker's timers: each acts when its deadline passes; if one fails, the others still act.

How this works: a timer that raises an error is not called for RETRY_MS, and then tried again. Only
the first of a series of errors is logged; ``failing`` and ``failures`` show an operator that the
timer still fails.
"""

import logging
from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

RETRY_MS = 1_000
"""Delay before a timer that has failed is tried again."""

_logger = logging.getLogger("mainstem.broker")


class Timer(NamedTuple):
    """A part of the broker that acts on passed deadlines."""

    name: str
    tick: Callable[[], None]
    """Acts on a bounded number of passed deadlines."""
    wait_ms: Callable[[], int | None]
    """Returns the time until ``tick`` is due; None if there is no deadline."""


class Part(Protocol):
    """A part of the broker with a deadline."""

    def tick(self) -> None:
        """Act on a bounded number of passed deadlines."""

    def next_deadline(self) -> int | None:
        """Return the time in ms when ``tick`` is next due; None if there is no deadline."""


def timer(name: str, part: Part, clock: Callable[[], int]) -> Timer:
    """Return the timer of a part, whose ``next_deadline`` is a time of ``clock``."""

    def wait_ms() -> int | None:
        due_ms = part.next_deadline()
        return None if due_ms is None else max(0, due_ms - clock())

    return Timer(name, part.tick, wait_ms)


class Timers:
    """All timers of a broker."""

    def __init__(self, timers: Sequence[Timer], monotonic_ms: Callable[[], int]) -> None:
        self._timers = timers
        self._monotonic_ms = monotonic_ms
        self._failing: dict[str, str] = {}
        """The last error of each timer that has failed, until it works again."""
        self._again_ms: dict[str, int] = {}
        self.failures = Counter({each.name: 0 for each in timers})
        """How often each timer has failed since the start."""

    def tick(self) -> None:
        """Act on passed deadlines."""
        for each in self._timers:
            if not self._rest_ms(each.name):
                try:
                    each.tick()
                except Exception as error:
                    # All other timers must outlive a bug in one.
                    self._note(each.name, error)
                else:
                    self._recovered(each.name)

    def wait_ms(self) -> int | None:
        """Return the time in ms until the next deadline; None if there is none."""
        waits = [self._wait_ms(each) for each in self._timers]
        return min((each for each in waits if each is not None), default=None)

    def failing(self) -> str | None:
        """Return the failing timers and their errors as one text; None if all work."""
        found = [f"{name}: {error}" for name, error in list(self._failing.items())]
        return "; ".join(found) or None

    def _wait_ms(self, timer: Timer) -> int | None:
        if rest_ms := self._rest_ms(timer.name):
            return rest_ms
        try:
            return timer.wait_ms()
        except Exception as error:
            # As in ``tick``.
            self._note(timer.name, error)
            return RETRY_MS

    def _rest_ms(self, name: str) -> int:
        """Return the ms until a timer that has failed may be called again; 0 if it may be now."""
        again_ms = self._again_ms.get(name)
        return 0 if again_ms is None else max(0, again_ms - self._monotonic_ms())

    def _note(self, name: str, error: Exception) -> None:
        if name not in self._failing:
            _logger.error("the timer of %s fails, and is retried", name, exc_info=error)
        self._failing[name] = f"{type(error).__name__}: {error}"
        self._again_ms[name] = self._monotonic_ms() + RETRY_MS
        self.failures[name] += 1

    def _recovered(self, name: str) -> None:
        if self._failing.pop(name, None) is not None:
            del self._again_ms[name]
            _logger.warning("the timer of %s works again", name)
