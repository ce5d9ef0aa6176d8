"""Starts the nng head, if the package that it needs is installed."""

from typing import TYPE_CHECKING

from mainstem.core.errors import Unsupported
from mainstem.heads.context import HeadContext
from mainstem.heads.nng.settings import NngSettings

if TYPE_CHECKING:
    import socket

    from mainstem.heads.head import RunningHead


async def start(
    context: HeadContext, settings: NngSettings, listener: "socket.socket"
) -> "RunningHead":
    """Start the nng head on a bound TCP socket."""
    try:
        from mainstem.heads.nng.adapter import NngHead  # noqa: PLC0415 - optional
    except ImportError as error:
        raise Unsupported(
            f"--nng needs the package {error.name}: pip install 'mainstem[nng]'"
        ) from None
    head = NngHead(context, settings, listener)
    try:
        head.start()
    except BaseException:
        await head.close()
        raise
    return head
