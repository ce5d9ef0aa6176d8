"""Starts a head whose package is an extra, or says which one to install."""

from importlib import import_module
from typing import TYPE_CHECKING, Protocol

from mainstem.core.errors import Unsupported
from mainstem.heads.head import HeadSettings, RunningHead, Start

if TYPE_CHECKING:
    import socket

    from mainstem.heads.context import HeadContext


class _Startable(RunningHead, Protocol):
    """A head that is made first, and opens its sockets then."""

    def start(self) -> None:
        """Open the sockets."""


def starts_with(extra: str, module: str, name: str) -> Start:
    """Return a function that makes a head of the class ``name`` in ``module``, and starts it."""

    async def start(
        context: "HeadContext", settings: HeadSettings, listener: "socket.socket"
    ) -> RunningHead:
        try:
            make = getattr(import_module(module), name)
        except ImportError as error:
            raise Unsupported(
                f"--{extra} needs the package {error.name}: pip install 'mainstem[{extra}]'"
            ) from None
        head: _Startable = make(context, settings, listener)
        try:
            head.start()
        except BaseException:
            await head.close()
            raise
        return head

    return start
