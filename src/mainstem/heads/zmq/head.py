"""Starts the ZeroMQ head."""

from typing import TYPE_CHECKING

from mainstem.heads.brokerless.start import started
from mainstem.heads.context import HeadContext
from mainstem.heads.zmq.adapter import ZmqHead
from mainstem.heads.zmq.settings import ZmqSettings

if TYPE_CHECKING:
    import socket


async def start(context: HeadContext, settings: ZmqSettings, listener: "socket.socket") -> ZmqHead:
    """Start the ZeroMQ head; its library opens the sockets."""
    return await started(ZmqHead(context, settings, listener))
