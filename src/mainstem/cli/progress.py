"""Progress of a long command, on stderr, and only if a person is looking."""

import sys
import time
from collections.abc import Callable

EVERY_SECONDS = 0.2


class Progress:
    """Counts events and says so a few times per second."""

    def __init__(
        self, verb: str, *, quiet: bool, now: Callable[[], float] = time.monotonic
    ) -> None:
        self.count = 0
        self._verb = verb
        self._shown = not quiet and sys.stderr.isatty()
        self._now = now
        self._began = self._said = now()

    def add(self, count: int) -> None:
        """Count some more."""
        self.count += count
        if self._shown and self._now() - self._said >= EVERY_SECONDS:
            self._said = self._now()
            sys.stderr.write(f"\r{self._line()}\x1b[K")
            sys.stderr.flush()

    def done(self, note: str = "") -> None:
        """Say the total, once."""
        if self._shown:
            sys.stderr.write(f"\r{self._line()}{note}\x1b[K\n")

    def _line(self) -> str:
        seconds = self._now() - self._began
        events = "event" if self.count == 1 else "events"
        rate = f" in {seconds:.1f} s, {self.count / seconds:,.0f}/s" if seconds >= 0.1 else ""
        return f"mainstem: {self._verb} {self.count:,} {events}{rate}"
