"""The promise that ``append`` returns: kept at once, or by a group commit that many share."""

import threading
from collections.abc import Callable
from functools import partial
from typing import Final

from mainstem.core.errors import MainstemError
from mainstem.log import tail_watches

Call = Callable[[MainstemError | None], None]


class Commit:
    """A promise that one thread settles and any number wait for; it is settled only once."""

    __slots__ = ("_calls", "_check_wait", "_error", "_hand_over", "_lock", "done")

    def __init__(
        self,
        hand_over: Callable[[], None] | None = None,
        check_wait: Callable[[], None] | None = None,
    ) -> None:
        self._lock = threading.Lock()
        self._hand_over = hand_over
        self._check_wait = check_wait
        """Raises in a thread that must not wait, as it would wait for itself."""
        self._calls: list[Call] = []
        self._error: MainstemError | None = None
        self.done = False
        """Whether it has been decided, for good or bad."""

    def settle(self, error: MainstemError | None = None) -> None:
        """Decide: durable, or never because of ``error``; whoever waits is told from this thread.

        What was decided stays: a second call changes nothing. A call that was registered by
        ``then`` and fails is reported, and nothing else comes of it.
        """
        with self._lock:
            if self.done:
                return
            self._error = error
            self.done = True
            calls, self._calls = self._calls, []
        tail_watches.call_all(partial(each, error) for each in calls)

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until durable; False on time-out; raises the error if it will never be."""
        if not self.done and not self._wait(timeout):
            return False
        if self._error is not None:
            raise self._error.with_traceback(None)
        return True

    def then(self, call: Call) -> None:
        """Call back once decided: at once in this thread, or later in the one that settles."""
        with self._lock:
            if not self.done:
                self._calls.append(call)
                return
        call(self._error)

    def hand_over(self) -> None:
        """Let it survive the end of this process, if not yet of the machine."""
        if not self.done and self._hand_over is not None:
            self._hand_over()

    def _wait(self, timeout: float | None) -> bool:
        if self._check_wait is not None:
            self._check_wait()
        # A lock as a gate: an Event costs four times as much, and most commits have one waiter.
        gate = threading.Lock()
        gate.acquire()

        def open_gate(_: MainstemError | None) -> None:
            gate.release()

        self.then(open_gate)
        seconds = -1 if timeout is None else min(max(timeout, 0), threading.TIMEOUT_MAX)
        if gate.acquire(timeout=seconds):
            return True
        with self._lock:
            # A caller that asks again and again must not leave a gate behind each time.
            if open_gate in self._calls:
                self._calls.remove(open_gate)
            return self.done


class _AtOnce:
    """What is as durable as its policy says before ``append`` returns."""

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
"""The promise that is kept already."""
