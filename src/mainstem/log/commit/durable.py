"""The ``Durable`` that ``append`` returns: a future, done at once or by the group commit."""

import threading
from collections.abc import Callable
from functools import partial
from typing import Final

from mainstem.core.errors import MainstemError
from mainstem.log import tail_watches

Call = Callable[[MainstemError | None], None]


class Commit:
    """A future that the committing thread completes; any number of threads may wait for it."""

    __slots__ = ("_calls", "_check_wait", "_error", "_hand_over", "_hasten", "_lock", "done")

    def __init__(
        self,
        hand_over: Callable[[], None] | None = None,
        check_wait: Callable[[], None] | None = None,
        hasten: Callable[[], None] | None = None,
    ) -> None:
        self._lock = threading.Lock()
        self._hand_over = hand_over
        self._check_wait = check_wait
        """Called before waiting; raises in the event loop thread, which makes the commit itself."""
        self._hasten = hasten
        """Called when somebody waits, as the commit may be delayed while nobody does."""
        self._calls: list[Call] = []
        self._error: MainstemError | None = None
        self.done = False
        """Whether the outcome is known: durable, or failed."""

    def settle(self, error: MainstemError | None = None) -> None:
        """Complete as durable, or as failed with ``error``; callbacks run in this thread.

        A second call changes nothing. A callback that raises is logged and otherwise ignored.
        """
        with self._lock:
            if self.done:
                return
            self._error = error
            self.done = True
            calls, self._calls = self._calls, []
        tail_watches.call_all(partial(each, error) for each in calls)

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until durable, at most ``timeout`` seconds; return False on time-out.

        Raises the commit's error if it failed.
        """
        if not self.done and not self._wait(timeout):
            return False
        if self._error is not None:
            raise self._error.with_traceback(None)
        return True

    def then(self, call: Call) -> None:
        """Call ``call`` when done: at once in this thread, or later in the committing thread."""
        with self._lock:
            waits = not self.done
            if waits:
                self._calls.append(call)
        if not waits:
            call(self._error)
        elif self._hasten is not None:
            self._hasten()

    def hand_over(self) -> None:
        """Write the append to the page cache: it then survives kill -9, but not yet a power cut."""
        if not self.done and self._hand_over is not None:
            self._hand_over()

    def _wait(self, timeout: float | None) -> bool:
        if self._check_wait is not None:
            self._check_wait()
        # A Lock instead of an Event, which costs four times as much; most commits have one waiter.
        gate = threading.Lock()
        gate.acquire()

        def open_gate(_: MainstemError | None) -> None:
            gate.release()

        self.then(open_gate)
        seconds = -1 if timeout is None else min(max(timeout, 0), threading.TIMEOUT_MAX)
        if gate.acquire(timeout=seconds):
            return True
        with self._lock:
            # A caller that polls must not leave a callback behind at each poll.
            if open_gate in self._calls:
                self._calls.remove(open_gate)
            return self.done


class _AtOnce:
    """The ``Durable`` of appends that were already durable when ``append`` returned."""

    __slots__ = ()

    @property
    def done(self) -> bool:
        return True

    def wait(self, timeout: float | None = None) -> bool:
        return True

    def then(self, call: Call) -> None:
        call(None)

    def hand_over(self) -> None:
        pass


AT_ONCE: Final = _AtOnce()
"""A Durable that is already done."""
