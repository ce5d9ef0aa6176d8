"""Starts the ZeroMQ head, if the package that it needs is installed."""

from typing import TYPE_CHECKING

from mainstem.core.errors import Unsupported
from mainstem.heads.context import HeadContext
from mainstem.heads.zmq.settings import ZmqSettings

if TYPE_CHECKING:
    import socket

    from mainstem.heads.head import RunningHead


async def start(
    context: HeadContext, settings: ZmqSettings, listener: "socket.socket"
) -> "RunningHead":
    """Start the ZeroMQ head on a bound TCP socket."""
    try:
        from mainstem.heads.zmq.adapter import ZmqHead  # noqa: PLC0415 - optional
    except ImportError as error:
        raise Unsupported(
            f"--zmq needs the package {error.name}: pip install 'mainstem[zmq]'"
        ) from None
    head = ZmqHead(context, settings, listener)
    try:
        head.start()
    except BaseException:
        await head.close()
        raise
    return head
