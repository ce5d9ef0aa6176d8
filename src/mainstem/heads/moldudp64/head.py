"""Starts the MoldUDP64 head."""

from time import monotonic
from typing import TYPE_CHECKING

from mainstem.heads.context import HeadContext
from mainstem.heads.moldudp64.adapter import MoldHead
from mainstem.heads.moldudp64.settings import MoldSettings

if TYPE_CHECKING:
    import socket


async def start(
    context: HeadContext, settings: MoldSettings, listener: "socket.socket"
) -> MoldHead:
    """Start the MoldUDP64 head on a bound UDP socket."""
    head = MoldHead(context, settings, listener, lambda: monotonic() * 1000)
    try:
        await head.start()
    except BaseException:
        await head.close()
        raise
    return head
