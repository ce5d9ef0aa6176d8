"""A thread that makes blocking calls for an event loop, one after another."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, TypeVar

T = TypeVar("T")
R = TypeVar("R")

SLICE_S = 0.5
"""Maximum duration of a blocking call, so that a program can end without closing everything."""


class Worker(Generic[T]):
    """A thread that runs calls in the order in which they were made."""

    def __init__(self, name: str) -> None:
        self._thread = ThreadPoolExecutor(1, name)
        self.taking: asyncio.Future[T] | None = None
        """The call that is running; the task that began it may have been cancelled."""

    def run(self, call: Callable[[], R]) -> "asyncio.Future[R]":
        """Run ``call`` in the thread; return a future for its result."""
        return asyncio.get_running_loop().run_in_executor(self._thread, call)

    async def take(self, call: Callable[[], T]) -> T:
        """Run ``call``, which fetches events, and return its result.

        If a cancelled task has left such a call running, return the result of that one, so that its
        events are not lost.
        """
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
        """Let the calls made so far finish, and end the thread; does not wait for that."""
        self._thread.shutdown(wait=False)
