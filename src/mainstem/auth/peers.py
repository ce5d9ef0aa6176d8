"""The other side of a connection: where it comes from, and who it is."""

import msgspec


class Principal(msgspec.Struct, frozen=True):
    """Who somebody is."""

    name: str


ANONYMOUS = Principal("ANONYMOUS")
"""Whoever has not logged in."""


class Peer(msgspec.Struct, frozen=True):
    """The other side of a connection."""

    address: str
    """HOST:PORT, as the log names it."""
    principal: Principal = ANONYMOUS
    tls: bool = False
    """Whether the connection is encrypted."""

    @property
    def is_local(self) -> bool:
        """Whether it is on this machine."""
        host = self.address.rpartition(":")[0].strip("[]")
        return host.startswith("127.") or host in ("::1", "localhost")
