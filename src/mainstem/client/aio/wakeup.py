"""Wakes an event loop from other threads, when an append is durable or new events have arrived."""

import asyncio
from collections.abc import Callable

from mainstem.broker.door import Durable


async def until_durable(durable: Durable, timeout_s: float | None = None) -> None:
    """Wait until an append is durable, without a thread; raises its error.

    Returns without error if ``timeout_s`` is over before.
    """
    if not durable.done:
        loop = asyncio.get_running_loop()
        decided = loop.create_future()
        durable.then(lambda _: call_soon(loop, _settle, decided))
        if timeout_s is None:
            await decided
        else:
            await asyncio.wait((decided,), timeout=timeout_s)
    if durable.done:
        durable.wait()


class Wakeup:
    """A signal from other threads, for which one task at a time waits."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._rung: asyncio.Future[None] | None = None

    def arm(self) -> "asyncio.Future[None]":
        """Return a future that ``wake`` completes; look for events again before awaiting it."""
        self._loop = asyncio.get_running_loop()
        self._rung = self._loop.create_future()
        return self._rung

    def wake(self) -> None:
        """Wake the waiting task, if there is one; may be called from any thread."""
        rung, loop = self._rung, self._loop
        if rung is not None and loop is not None:
            call_soon(loop, _settle, rung)


def call_soon(
    loop: asyncio.AbstractEventLoop,
    call: "Callable[[asyncio.Future[None]], None]",
    future: "asyncio.Future[None]",
) -> None:
    """Run ``call(future)`` in the loop; may be called from any thread.

    Does nothing if the loop is closed.
    """
    try:
        loop.call_soon_threadsafe(call, future)
    except RuntimeError:
        # A closed loop must not raise in the thread that signals.
        if not loop.is_closed():
            raise


def _settle(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)
