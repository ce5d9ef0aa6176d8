"""Runs slow work in threads, for requests that wait for it in the event loop."""

import asyncio
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


async def in_thread(call: Callable[[], T]) -> T:
    """Run a call in a thread, and return its result."""
    return await asyncio.to_thread(call)


class OncePerKey(Generic[T]):
    """Runs calls in threads; while one runs for a key, others with this key share its result."""

    def __init__(self) -> None:
        self._running: dict[str, asyncio.Future[T]] = {}

    async def run(self, key: str, call: Callable[[], T]) -> T:
        """Return the result of the call that runs for this key; if none runs, start ``call``."""
        running = self._running.get(key)
        if running is None:
            running = asyncio.get_running_loop().run_in_executor(None, call)
            self._running[key] = running
            running.add_done_callback(lambda done: self._forget(key, done))
        # A request that is cancelled must not cancel the call for the others.
        return await asyncio.shield(running)

    def _forget(self, key: str, done: "asyncio.Future[T]") -> None:
        del self._running[key]
        if not done.cancelled():
            # If all requests were cancelled, the loop would log an exception that nobody took.
            done.exception()
