"""Waking an event loop from other threads: for durability, and for more to read."""

import asyncio
from collections.abc import Callable

from mainstem.broker.door import Durable


async def until_durable(durable: Durable, timeout_s: float | None = None) -> None:
    """Wait for a promise without a thread; raises its error; on time-out simply returns."""
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
    """What other threads ring, and one task at a time listens to."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._rung: asyncio.Future[None] | None = None

    def arm(self) -> "asyncio.Future[None]":
        """Return what is done at the next ring; look for work once more before awaiting it."""
        self._loop = asyncio.get_running_loop()
        self._rung = self._loop.create_future()
        return self._rung

    def wake(self) -> None:
        """Wake who listens; from any thread, also when nobody does."""
        rung, loop = self._rung, self._loop
        if rung is not None and loop is not None:
            call_soon(loop, _settle, rung)


def call_soon(
    loop: asyncio.AbstractEventLoop,
    call: "Callable[[asyncio.Future[None]], None]",
    future: "asyncio.Future[None]",
) -> None:
    """Call on the loop from any thread; a loop that is closed needs no call."""
    try:
        loop.call_soon_threadsafe(call, future)
    except RuntimeError:
        # The thread that brings the news must not suffer from a program that is gone.
        if not loop.is_closed():
            raise


def _settle(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)
