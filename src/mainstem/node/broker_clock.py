"""Calls the broker when its deadlines pass: expiry of locks, sessions and transactions."""

import asyncio
import contextlib
import threading

from mainstem.broker.broker import Broker

_STOOD_STILL_S = 1.0
"""A timer later than this shows that the process was paused, not just busy."""
_LISTEN_S = 1.0


class BrokerClock:
    """Calls the broker's ``tick`` when its next deadline is due; in the thread of the loop."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._is_told = False
        """Whether an earlier deadline may exist that was not checked yet."""
        self._is_stopped = False
        self._timer: asyncio.TimerHandle | None = None
        self._due = 0.0
        """When the timer fires; uvloop's handles do not report it."""
        self._listening_until = 0.0
        """No session expires before this: requests sent while we were paused are read first."""
        broker.when_due_earlier(self._tell)

    def _tell(self) -> None:
        """Check deadlines soon.

        The broker calls this under its locks, so it cannot be called now.
        """
        if self._is_told:
            return
        self._is_told = True
        if threading.get_ident() == self._thread:
            self._loop.call_soon(self.look)
            return
        # A program that embeds the server may use its broker after the loop has ended.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self.look)

    def look(self) -> None:
        """Schedule a tick for the broker's next deadline."""
        self._is_told = False
        if self._is_stopped:
            # The log may be closed by now.
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
        """Tick the broker now, and schedule its next deadline."""
        self._cancel()
        self._broker.tick()
        self.look()

    def stop(self) -> None:
        """Stop calling the broker."""
        self._is_stopped = True
        self._cancel()

    def _cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _fire(self) -> None:
        """Tick the broker; after a pause of the process only after its sockets were read."""
        now = self._loop.time()
        if now - self._due > _STOOD_STILL_S and self._due > self._listening_until:
            self._timer = None
            self._listening_until = now + _LISTEN_S
            self.look()
        else:
            self.catch_up()
