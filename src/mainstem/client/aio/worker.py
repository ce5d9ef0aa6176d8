"""A thread that makes blocking calls for an event loop, one after the other."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, TypeVar

T = TypeVar("T")
R = TypeVar("R")

SLICE_S = 0.5
"""Maximum duration of a blocking call, so that a program can end without closing everything."""


class Worker(Generic[T]):
    """A thread that runs calls in order."""

    def __init__(self, name: str) -> None:
        self._thread = ThreadPoolExecutor(1, name)
        self.taking: asyncio.Future[T] | None = None
        """The call that is running; the task that began it may have been cancelled."""

    def run(self, call: Callable[[], R]) -> "asyncio.Future[R]":
        """Run a call in the thread."""
        return asyncio.get_running_loop().run_in_executor(self._thread, call)

    async def take(self, call: Callable[[], T]) -> T:
        """Run ``call`` and return its result; or that of a call left by a cancelled task."""
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
        """Let the pending calls finish, and end the thread without waiting for that."""
        self._thread.shutdown(wait=False)
