"""What the sockets of a head have seen, counted as it happens, and who is connected."""

import msgspec


class ConnectionInfo(msgspec.Struct, frozen=True):
    """One peer that is connected."""

    peer: str
    connected_s: float
    """For how long."""


class Traffic:
    """Counts of one listening socket since it was opened; changed by the event loop only."""

    __slots__ = ("accepted", "bytes_in", "bytes_out", "closed", "cut_off", "refused")

    def __init__(self) -> None:
        self.accepted = 0
        """Connections that were begun,"""
        self.closed = 0
        """those of them that have ended,"""
        self.cut_off = 0
        """those that we ended, as the peer broke the protocol or could not be served,"""
        self.refused = 0
        """and those closed at once, over the limit."""
        self.bytes_in = 0
        self.bytes_out = 0

    @property
    def open(self) -> int:
        """How many connections there are."""
        return self.accepted - self.closed
