"""The peer of a connection: its address and principal."""

import msgspec


class Principal(msgspec.Struct, frozen=True):
    """An authenticated user."""

    name: str


ANONYMOUS = Principal("ANONYMOUS")
"""The principal of a connection before its login."""


class Peer(msgspec.Struct, frozen=True):
    """The other side of a connection."""

    address: str
    """HOST:PORT, for log messages."""
    principal: Principal = ANONYMOUS
    tls: bool = False
    """Whether the connection is encrypted."""

    @property
    def is_local(self) -> bool:
        """Whether the peer is on this machine."""
        host = self.address.rpartition(":")[0].strip("[]")
        return host.startswith("127.") or host in ("::1", "localhost")
