"""Starts the nng head."""

from typing import TYPE_CHECKING

from mainstem.heads.brokerless.start import started
from mainstem.heads.context import HeadContext
from mainstem.heads.nng.adapter import NngHead
from mainstem.heads.nng.settings import NngSettings

if TYPE_CHECKING:
    import socket


async def start(context: HeadContext, settings: NngSettings, listener: "socket.socket") -> NngHead:
    """Start the nng head; its library opens the sockets."""
    return await started(NngHead(context, settings, listener))
