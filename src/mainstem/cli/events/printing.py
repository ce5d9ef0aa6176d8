"""Writes events to stdout or to a process, and commits the offsets of what was written."""

import os
import select
import stat
import sys
import time
from collections.abc import Callable, Sequence
from datetime import datetime
from threading import Thread

from mainstem.cli.events.event_format import Render
from mainstem.cli.events.exec_process import ExecProcess
from mainstem.cli.exit_codes import say
from mainstem.client.stem import Subscription
from mainstem.core.errors import Closed
from mainstem.core.event import Event

AT_ONCE = 2000
COMMIT_SECONDS = 1.0


class Printing:
    """One run of ``sub``: prints events, then commits their offsets.

    A group's offsets are committed after the events before them have been written: at least once a
    second while events arrive, and before every wait. So an interrupt never loses an event, and
    repeats none while the command waits. If the events go to a process, it must have read them
    before. If the run has an end (a count, or the end of the topics), the process must have exited
    with 0 before.
    """

    def __init__(
        self,
        subscription: Subscription,
        render: Render,
        *,
        process: ExecProcess | None = None,
        until: datetime | None = None,
        commits: bool = False,
        quiet: bool = False,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.printed = 0
        """Number of printed events."""
        self.timed_out = False
        """Whether printing ended because no event arrived within the timeout."""
        self._subscription = subscription
        self._render = render
        self._until_ms = None if until is None else round(until.timestamp() * 1000)
        self._passed: set[tuple[str, int]] = set()
        self._commits = commits
        self._committed_at = now()
        self._unstored = self._follows = False
        self._quiet = quiet or not sys.stderr.isatty()
        self._now = now
        self._process = process
        self._out = sys.stdout.buffer if process is None else process.stdin
        self._reader_left = False

    def run(self, *, count: int | None, timeout: float | None, end: bool) -> None:
        """Print until the end of the topics, the count or the timeout.

        Raises BrokenPipeError if the process that reads the output has ended.
        """
        self._follows = not end and count is None
        if not end:
            self._watch_the_reader()
        while count is None or self.printed < count:
            limit = AT_ONCE if count is None else min(AT_ONCE, count - self.printed)
            events = self._next(limit, timeout, end=end)
            if not events:
                break
            kept = events if self._until_ms is None else self._before(events, self._until_ms)
            self._out.write(self._render(kept))
            self.printed += len(kept)
            self._unstored = True
            if self._now() - self._committed_at >= COMMIT_SECONDS:
                self._store()
            if self._passed and self._passed.issuperset(self._subscription.assignment):
                break
        self._store()
        if self._process is not None:
            self._process.end()
            self._process.check()
            if self._commits:
                self._subscription.commit()

    def _next(self, limit: int, timeout: float | None, *, end: bool) -> Sequence[Event]:
        try:
            events = self._subscription.poll_many(limit, None if end else 0)
            if events or end:
                return events
            self._store()
            if not self._quiet:
                self._quiet = True
                say("at the end; waiting for more (Ctrl-C ends, -e would have ended here)")
            events = self._subscription.poll_many(limit, timeout)
        except Closed:
            events = []
        if self._reader_left:
            raise BrokenPipeError
        self.timed_out = not events and timeout is not None
        return events

    def _store(self) -> None:
        self._out.flush()
        if self._commits and self._unstored and self._is_read():
            self._subscription.commit()
        self._unstored = False
        self._committed_at = self._now()

    def _is_read(self) -> bool:
        if self._process is None:
            return True
        if not self._follows:
            return False
        if not self._process.has_read_all():
            raise BrokenPipeError
        return True

    def _before(self, events: Sequence[Event], until_ms: int) -> list[Event]:
        kept = []
        for event in events:
            place = (event.topic, event.partition)
            if event.timestamp_ms >= until_ms:
                self._passed.add(place)
            if place not in self._passed:
                kept.append(event)
        return kept

    def _watch_the_reader(self) -> None:
        # While the command waits for events, it writes nothing, so it would not notice that the
        # reader (`| head -1`) has ended.
        gone = self._reader_gone() if self._process is None else self._process.wait
        if gone is None:
            return

        def watch() -> None:
            gone()
            self._reader_left = True
            self._subscription.close()

        Thread(target=watch, name="mainstem-sub-reader", daemon=True).start()

    def _reader_gone(self) -> Callable[[], object] | None:
        """Return a function that waits until nobody reads stdout; None if stdout is no pipe."""
        try:
            descriptor = self._out.fileno()
        except OSError:
            return None
        if not stat.S_ISFIFO(os.fstat(descriptor).st_mode):
            return None
        gone = select.poll()
        gone.register(descriptor, 0)
        return gone.poll
