"""Counters of a head's sockets, and the description of a connected peer."""

from collections.abc import Iterable

import msgspec


class ConnectionInfo(msgspec.Struct, frozen=True):
    """A connected peer, as the admin port shows it."""

    peer: str
    connected_s: float
    """How long the peer has been connected."""


class Traffic:
    """Counters of one listening socket since the server started; updated by the event loop only."""

    __slots__ = ("accepted", "bytes_in", "bytes_out", "closed", "cut_off", "refused")

    def __init__(self) -> None:
        self.accepted = 0
        """Accepted connections."""
        self.closed = 0
        """Accepted connections that have ended since."""
        self.cut_off = 0
        """Connections that the server ended because of a protocol violation or an error."""
        self.refused = 0
        """Connections closed at once, because ``max_connections`` was reached."""
        self.bytes_in = 0
        self.bytes_out = 0

    @property
    def open(self) -> int:
        """The number of connections that are open now."""
        return self.accepted - self.closed


def total(parts: Iterable[Traffic]) -> Traffic:
    """Return the sums of the counters of several listening sockets."""
    found = Traffic()
    for each in parts:
        for name in Traffic.__slots__:
            setattr(found, name, getattr(found, name) + getattr(each, name))
    return found
