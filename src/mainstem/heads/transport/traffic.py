"""Counters of a head's sockets, and the description of a connection."""

import msgspec


class ConnectionInfo(msgspec.Struct, frozen=True):
    """One connection."""

    peer: str
    connected_s: float
    """The age of the connection."""


class Traffic:
    """Counters of one listening socket since it was opened; updated by the event loop only."""

    __slots__ = ("accepted", "bytes_in", "bytes_out", "closed", "cut_off", "refused")

    def __init__(self) -> None:
        self.accepted = 0
        """Accepted connections."""
        self.closed = 0
        """Accepted connections that have ended."""
        self.cut_off = 0
        """Connections that the server ended because of a protocol violation or an error."""
        self.refused = 0
        """Connections closed at once, over the limit."""
        self.bytes_in = 0
        self.bytes_out = 0

    @property
    def open(self) -> int:
        """The number of open connections."""
        return self.accepted - self.closed
