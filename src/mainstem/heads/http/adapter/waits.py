"""Waiting in the event loop for events."""

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
    """A wait for events that ends early if the peer goes away or the server stops."""

    def __init__(self, context: HeadContext, peer: set[Call], wait_ms: int) -> None:
        """``peer``: called when the peer has gone."""
        self._woken = asyncio.Event()
        self.over: Over | None = None
        """Why the wait is over; None if it goes on."""
        self._parked = context.park(peer, wait_ms, self._ended, self._woken.set)
        self._context = context
        if context.draining:
            self._parked.drain()

    def watch(self, key: Hashable, begin: Callable[[Call], Call]) -> None:
        """Begin a watch that ends ``next``, unless the one with this key goes on.

        ``begin``: takes what to call, once, from any thread; returns a function to cancel.
        """
        watches = self._parked.watches

        def woken() -> None:
            watches.pop(key, None)
            self._woken.set()

        if key not in watches:
            watches[key] = begin(lambda: self._context.on_loop(woken))

    async def next(self) -> None:
        """Wait until a watch reports, or the wait is over."""
        await self._woken.wait()
        self._woken.clear()

    def wake(self) -> None:
        """Make the current or next call of ``next`` return."""
        self._woken.set()

    def end(self) -> None:
        """Wait no more, and cancel all watches."""
        self._parked.end()

    def _ended(self, why: Over) -> None:
        self.over = why
        self._woken.set()


@contextlib.asynccontextmanager
async def waiting(context: HeadContext, receive: "Receive", wait_ms: int) -> AsyncIterator[Wait]:
    """Return a wait of a request whose body has been read, for a block of code."""
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
