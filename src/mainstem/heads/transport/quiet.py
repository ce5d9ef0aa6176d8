"""Waits until a library that owns its sockets has passed on all data and sent its answers."""

import asyncio

from mainstem.heads.transport.traffic import Traffic

QUIET_S = 0.02
"""How long a library's threads may take to pass on what has arrived, or to send an answer."""
MOST_S = 0.5


async def quiet(traffic: Traffic, within_s: float, hurry: asyncio.Event) -> None:
    """Wait until no bytes are received or sent for a moment, for ``within_s`` at most."""
    clock = asyncio.get_running_loop().time
    until_s = clock() + min(MOST_S, within_s)
    before = -1, -1
    while (now := (traffic.bytes_in, traffic.bytes_out)) != before and clock() < until_s:
        if hurry.is_set():
            return
        before = now
        await asyncio.sleep(QUIET_S)
