"""Work that takes long, in threads, for requests that wait for it in the event loop."""

import asyncio
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


async def in_thread(call: Callable[[], T]) -> T:
    """Run a call in a thread, and return its result."""
    return await asyncio.to_thread(call)


class OncePerKey(Generic[T]):
    """Runs calls in threads; those with the same key at the same time share one call."""

    def __init__(self) -> None:
        self._running: dict[str, asyncio.Future[T]] = {}

    async def run(self, key: str, call: Callable[[], T]) -> T:
        """Return the result of a call that is running for this key, or of this one."""
        running = self._running.get(key)
        if running is None:
            running = asyncio.get_running_loop().run_in_executor(None, call)
            self._running[key] = running
            running.add_done_callback(lambda done: self._forget(key, done))
        # A peer that goes away does not take it from the others.
        return await asyncio.shield(running)

    def _forget(self, key: str, done: "asyncio.Future[T]") -> None:
        del self._running[key]
        if not done.cancelled():
            # Everybody who asked may have gone; the loop would complain.
            done.exception()
