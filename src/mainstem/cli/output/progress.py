"""Shows the progress of a long command on stderr, if that is a terminal."""

import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import NamedTuple

from mainstem.cli.exit_codes import say

EVERY_SECONDS = 0.2
_LOOK_S, _SAY_S, _JOIN_S = 1.0, 5.0, 2.0


class Progress:
    """Counts events and prints their number a few times per second."""

    def __init__(
        self, verb: str, *, quiet: bool, now: Callable[[], float] = time.monotonic
    ) -> None:
        self.count = 0
        self._verb = verb
        self._shown = not quiet and sys.stderr.isatty()
        self._now = now
        self._began = self._said = now()

    def add(self, count: int) -> None:
        """Add to the count."""
        self.count += count
        if self._shown and self._now() - self._said >= EVERY_SECONDS:
            self._said = self._now()
            sys.stderr.write(f"\r{self._line()}\x1b[K")
            sys.stderr.flush()

    def done(self, note: str = "") -> None:
        """Print the final number."""
        if self._shown:
            sys.stderr.write(f"\r{self._line()}{note}\x1b[K\n")

    def _line(self) -> str:
        seconds = self._now() - self._began
        events = "event" if self.count == 1 else "events"
        rate = f" in {seconds:.1f} s, {self.count / seconds:,.0f}/s" if seconds >= 0.1 else ""
        return f"mainstem: {self._verb} {self.count:,} {events}{rate}"


class Step(NamedTuple):
    """A step of a command's work, and for how many seconds it has been running."""

    what: str
    seconds: float
    more: str = ""


@contextmanager
def waiting(
    what: str,
    look: Callable[[], Sequence[Step] | None] = lambda: None,
    now: Callable[[], float] = time.monotonic,
) -> Iterator[None]:
    """Print on a terminal what the command is doing: at once, and every 5 s with the duration.

    ``look`` is called about once a second and returns the current steps; if it returns None, there
    is one step, ``what``.
    """
    if not sys.stderr.isatty():
        yield
        return
    say(what)
    began = now()
    ended = threading.Event()

    def tell() -> None:
        said: dict[str, float] = {}
        while not ended.wait(_LOOK_S):
            steps = look()
            if steps is None:
                steps = [Step(what, now() - began)]
            said = _said(steps, said)

    def tell_while_possible() -> None:
        # Ignore errors such as a closed terminal: the command itself will meet them.
        with suppress(Exception):
            tell()

    teller = threading.Thread(target=tell_while_possible, daemon=True)
    teller.start()
    try:
        yield
    finally:
        ended.set()
        teller.join(_JOIN_S)


def _said(steps: Sequence[Step], before: Mapping[str, float]) -> dict[str, float]:
    """Print each step that was not printed for 5 s; return the duration last printed for each."""
    said = {}
    for each in steps:
        last = before.get(each.what, 0.0)
        if each.seconds < last:
            # The next step of that name.
            last = 0.0
        if each.seconds - last >= _SAY_S:
            say(f"{each.what}, {each.seconds:.0f} s so far{each.more}")
            last = each.seconds
        said[each.what] = last
    return said
