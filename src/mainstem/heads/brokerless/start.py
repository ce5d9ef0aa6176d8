"""Starts a head that opens its sockets itself."""

from typing import Protocol, TypeVar

from mainstem.heads.head import RunningHead


class Startable(RunningHead, Protocol):
    """A head whose sockets are opened after it was constructed."""

    def start(self) -> None:
        """Open the sockets."""


StartableT = TypeVar("StartableT", bound=Startable)


async def started(head: StartableT) -> StartableT:
    """Open the sockets of a head; it is closed if one cannot be opened."""
    try:
        head.start()
    except BaseException:
        await head.close()
        raise
    return head
