"""Drains the connections of a head: each may answer its requests, then its peer should close."""

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterable
from typing import Protocol, TypeVar

GOODBYE_S = 0.2
"""How long a peer that has all its answers may take to close its side."""
_LOOK_S = 0.005


class Ending(Protocol):
    """A connection that can be ended once its peer has all answers."""

    @property
    def is_ending(self) -> bool:
        """Whether all requests are answered, and only the peer still has to close."""


E = TypeVar("E", bound=Ending)


async def drained(
    connections: Iterable[E],
    within_s: float,
    hurry: asyncio.Event,
    look: Callable[[E], object] = lambda _: None,
) -> None:
    """Return when all connections are closed, or only wait for their peers to close.

    Returns after ``within_s`` at the latest, or when ``hurry`` is set. Until then ``look`` is
    called repeatedly for each connection that has not begun to end.
    """
    until = time.monotonic() + within_s
    quiet_until = time.monotonic() + GOODBYE_S
    while (opened := list(connections)) and time.monotonic() < until and not hurry.is_set():
        staying = [each for each in opened if not each.is_ending]
        for each in staying:
            look(each)
        if staying:
            quiet_until = time.monotonic() + GOODBYE_S
        elif time.monotonic() > quiet_until:
            return
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(hurry.wait(), _LOOK_S)
