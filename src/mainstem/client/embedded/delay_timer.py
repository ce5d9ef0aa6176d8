"""Publishes due delayed events of a log in this process; a server does this in its own timer."""

import threading
from collections.abc import Callable
from typing import Protocol

_LOOK_S = 1.0
"""Maximum wait in seconds, because the system's clock may be changed."""


class Delays(Protocol):
    """What the thread needs of the broker: the delayed events of a log."""

    def next_deadline(self) -> int | None:
        """Return when to call ``tick`` next, in ms since 1970; None if no event is delayed."""

    def tick(self) -> None:
        """Publish events that are due, a limited number."""


class DelayClock:
    """A thread that publishes delayed events when they are due, while the log is open."""

    def __init__(
        self,
        delays: Delays,
        when_due_earlier: Callable[[Callable[[], None]], None],
        now_ms: Callable[[], int],
    ) -> None:
        self._delays, self._listen, self._now_ms = delays, when_due_earlier, now_ms
        self._signal = threading.Event()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._is_stopped = False

    def start(self) -> None:
        """Start the thread, unless it is running."""
        with self._lock:
            if self._thread is None and not self._is_stopped:
                self._listen(self._signal.set)
                self._thread = threading.Thread(
                    target=self._run, name="mainstem-delays", daemon=True
                )
                self._thread.start()

    def stop(self) -> None:
        """End the thread; events due later are published when the log is opened again."""
        with self._lock:
            self._is_stopped = True
            thread = self._thread
        self._signal.set()
        if thread is not None:
            thread.join()

    def _run(self) -> None:
        while not self._is_stopped:
            self._signal.clear()
            due_ms = self._delays.next_deadline()
            wait_s = _LOOK_S if due_ms is None else (due_ms - self._now_ms()) / 1000
            if wait_s > 0 and not self._is_stopped:
                self._signal.wait(min(wait_s, _LOOK_S))
            else:
                self._delays.tick()
