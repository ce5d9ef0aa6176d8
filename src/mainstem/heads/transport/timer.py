"""One timer per connection: ticks a conversation when its deadline has come.

How this works: the deadline moves with every frame, the timer does not. It is moved only to an
earlier time; when it fires too early, it asks again, and waits for the rest.
"""

import asyncio
import time
from collections.abc import Callable

from mainstem.heads.conversation import TimedConversation


def now_ms() -> int:
    """Return the time that deadlines are in."""
    return int(time.monotonic() * 1000)


class Timer:
    """Calls back when the deadline of a conversation has come."""

    __slots__ = ("_call", "_conversation", "_fires_ms", "_handle", "_loop")

    def __init__(self, conversation: TimedConversation, call: Callable[[int], None]) -> None:
        self._conversation = conversation
        self._call = call
        """Told the time; asks for the next deadline itself."""
        self._loop = asyncio.get_running_loop()
        self._handle: asyncio.TimerHandle | None = None
        self._fires_ms = 0

    def ask(self) -> None:
        """Ask for the deadline, which may have changed."""
        deadline = self._conversation.deadline()
        if deadline is None or (self._handle is not None and self._fires_ms <= deadline):
            return
        self.cancel()
        self._fires_ms = deadline
        # One that is over is not called at once, nor again and again: others have their turn.
        wait_ms = max(1, deadline - now_ms())
        self._handle = self._loop.call_later(wait_ms / 1000, self._fire)

    def cancel(self) -> None:
        """Call no more, until the next ``ask``."""
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
