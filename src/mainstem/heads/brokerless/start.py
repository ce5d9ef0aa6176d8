"""Starts a head that needs an optional package, or names the package to install."""

from importlib import import_module
from typing import TYPE_CHECKING, Protocol

from mainstem.core.errors import Unsupported
from mainstem.heads.head import HeadSettings, RunningHead, Start

if TYPE_CHECKING:
    import socket

    from mainstem.heads.context import HeadContext


class _Startable(RunningHead, Protocol):
    """A head whose sockets are opened after it was constructed."""

    def start(self) -> None:
        """Open the sockets."""


def starts_with(extra: str, module: str, name: str) -> Start:
    """Return a function that starts a head: an object of class ``name`` in ``module``."""

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
