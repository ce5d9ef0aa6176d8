"""Calls the broker when a deadline passes: when locks, sessions and transactions expire."""

import asyncio
import contextlib
import threading

from mainstem.broker.broker import Broker

_STOOD_STILL_S = 1.0
"""Delay of a timer, in seconds, that shows that the process was paused, not just busy."""
_LISTEN_S = 1.0


class BrokerClock:
    """Calls the broker's ``tick`` when its next deadline passes, in the event loop's thread."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._is_told = False
        """Whether ``look`` is scheduled, because the broker may have an earlier deadline."""
        self._is_stopped = False
        self._timer: asyncio.TimerHandle | None = None
        self._due = 0.0
        """The time when the timer fires, which uvloop's handles do not report."""
        self._listening_until = 0.0
        """No session expires before this time: requests sent during a pause are read first."""
        broker.when_due_earlier(self._tell)

    def _tell(self) -> None:
        """Schedule ``look``, because the broker may have an earlier deadline now.

        The broker calls this while it holds its locks, so it must not be called back from here.
        """
        if self._is_told:
            return
        self._is_told = True
        if threading.get_ident() == self._thread:
            self._loop.call_soon(self.look)
            return
        # RuntimeError: a program that embeds the server may use the broker after the loop was
        # closed.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self.look)

    def look(self) -> None:
        """Set the timer to the broker's next deadline, if that is before the timer's."""
        self._is_told = False
        if self._is_stopped:
            # The log may be closed.
            return
        wait_ms = self._broker.wait_ms()
        if wait_ms is None:
            return
        due = max(self._loop.time() + wait_ms / 1000, self._listening_until)
        if self._timer is not None:
            if self._due <= due:
                return
            self._timer.cancel()
        self._due = due
        self._timer = self._loop.call_at(due, self._fire)

    def catch_up(self) -> None:
        """Call the broker's ``tick`` now, and set the timer to the next deadline."""
        self._cancel()
        try:
            self._broker.tick()
        finally:
            # Set the timer also after an error, so that the next deadline is not missed.
            self.look()

    def stop(self) -> None:
        """Cancel the timer; the broker is never called again."""
        self._is_stopped = True
        self._cancel()

    def _cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _fire(self) -> None:
        """Call the broker's ``tick``, or wait a moment more if the process was suspended.

        Requests that arrived meanwhile are read in this moment, so that their sessions do not
        expire.
        """
        now = self._loop.time()
        if now - self._due > _STOOD_STILL_S and self._due > self._listening_until:
            self._timer = None
            self._listening_until = now + _LISTEN_S
            self.look()
        else:
            self.catch_up()
