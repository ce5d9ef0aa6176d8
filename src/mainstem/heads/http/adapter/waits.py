"""Waits in the event loop for events."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Hashable
from typing import TYPE_CHECKING

from mainstem.heads.context import HeadContext
from mainstem.heads.parked import Over

if TYPE_CHECKING:
    from starlette.types import Receive

Call = Callable[[], None]


class Wait:
    """A wait for events that ends early if the client disconnects or the server stops."""

    def __init__(self, context: HeadContext, peer: set[Call], wait_ms: int) -> None:
        """``peer``: the calls to make when the client disconnects; the wait adds its own."""
        self._woken = asyncio.Event()
        self.over: Over | None = None
        """Why the wait is over; None while it goes on."""
        self._parked = context.park(peer, wait_ms, self._ended, self._woken.set)
        self._context = context
        if context.draining:
            self._parked.drain()

    def watch(self, key: Hashable, begin: Callable[[Call], Call]) -> None:
        """Set a watch under this key that makes ``next`` return, unless one is set already.

        ``begin`` sets it: it takes a callback, which is called once in any thread, and returns a
        function that cancels the watch.
        """
        watches = self._parked.watches

        def woken() -> None:
            watches.pop(key, None)
            self._woken.set()

        if key not in watches:
            watches[key] = begin(lambda: self._context.on_loop(woken))

    async def next(self) -> None:
        """Wait until a watch reports, ``wake`` is called, or the wait is over."""
        await self._woken.wait()
        self._woken.clear()

    def wake(self) -> None:
        """Make the current or next call of ``next`` return."""
        self._woken.set()

    def end(self) -> None:
        """End the wait, and cancel all watches."""
        self._parked.end()

    def _ended(self, why: Over) -> None:
        self.over = why
        self._woken.set()


@contextlib.asynccontextmanager
async def waiting(context: HeadContext, receive: "Receive", wait_ms: int) -> AsyncIterator[Wait]:
    """Return a ``Wait`` for a block of code; the body of the request must have been read."""
    peer: set[Call] = set()
    wait = Wait(context, peer, wait_ms)
    listening = asyncio.get_running_loop().create_task(_listen(receive, peer))
    try:
        yield wait
    finally:
        wait.end()
        listening.cancel()


async def _listen(receive: "Receive", peer: set[Call]) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    for gone in list(peer):
        gone()
