"""One timer per connection: calls back when the conversation's deadline has passed.

How this works: the deadline may change with every frame, but the timer is only ever moved to an
earlier time. If it fires too early, it reads the deadline again, and waits for the remaining time.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Protocol


def now_ms() -> int:
    """Return the monotonic time in milliseconds, the clock of all deadlines."""
    return int(time.monotonic() * 1000)


class Timed(Protocol):
    """An object with a deadline: a conversation, or another connection."""

    def deadline(self) -> int | None:
        """Return when to call back (monotonic ms), None for never; may change at any time."""


class Timer:
    """Calls back when the deadline of one ``Timed`` has passed."""

    __slots__ = ("_call", "_conversation", "_fires_ms", "_handle", "_loop")

    def __init__(self, conversation: Timed, call: Callable[[int], None]) -> None:
        self._conversation = conversation
        self._call = call
        """Called with the time when the deadline has passed; it must call ``ask`` afterwards."""
        self._loop = asyncio.get_running_loop()
        self._handle: asyncio.TimerHandle | None = None
        self._fires_ms = 0

    def ask(self) -> None:
        """Read the deadline, which may have changed, and set the timer."""
        deadline = self._conversation.deadline()
        if deadline is None or (self._handle is not None and self._fires_ms <= deadline):
            return
        self.cancel()
        self._fires_ms = deadline
        # Wait at least 1 ms, so that a passed deadline cannot occupy the loop.
        wait_ms = max(1, deadline - now_ms())
        self._handle = self._loop.call_later(wait_ms / 1000, self._fire)

    def cancel(self) -> None:
        """Stop the timer until the next ``ask``."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _fire(self) -> None:
        self._handle = None
        now = now_ms()
        deadline = self._conversation.deadline()
        if deadline is not None and deadline <= now:
            self._call(now)
        else:
            self.ask()
