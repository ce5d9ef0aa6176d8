"""A thread that makes blocking calls for an event loop, one after the other."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, TypeVar

T = TypeVar("T")
R = TypeVar("R")

SLICE_S = 0.5
"""How long a call waits at most, so that a program can end without closing everything."""


class Worker(Generic[T]):
    """Makes calls in the order in which they are asked for."""

    def __init__(self, name: str) -> None:
        self._thread = ThreadPoolExecutor(1, name)
        self.taking: asyncio.Future[T] | None = None
        """What is under way, perhaps for a task that was cancelled."""

    def run(self, call: Callable[[], R]) -> "asyncio.Future[R]":
        """Make a call."""
        return asyncio.get_running_loop().run_in_executor(self._thread, call)

    async def take(self, call: Callable[[], T]) -> T:
        """Return what a call brings, or what one brought for a task that was cancelled."""
        if self.taking is None:
            self.taking = self.run(call)
        try:
            found = await asyncio.shield(self.taking)
        except asyncio.CancelledError:
            raise
        except BaseException:
            self.taking = None
            raise
        self.taking = None
        return found

    def end(self) -> None:
        """Let the thread end after the calls that were asked for."""
        self._thread.shutdown(wait=False)
