"""Host-and-port addresses: of listening heads (``HOST:PORT`` or ``off``), and of peers."""

import ipaddress
from typing import TYPE_CHECKING

import msgspec

from mainstem.core.errors import InvalidSetting

if TYPE_CHECKING:
    import asyncio
    import socket

OFF, AUTO, NONE = "off", "auto", "none"
"""What settings may have instead of an address, or of a list."""
LOOPBACK = ("127.0.0.1", "::1", "localhost")


class Address(msgspec.Struct, frozen=True):
    """A host and a port."""

    host: str
    port: int

    @property
    def pair(self) -> tuple[str, int]:
        """Host and port as a tuple, for sockets."""
        return self.host, self.port

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_address(text: str, option: str) -> Address | None:
    """Parse an address; None for ``off``. The default host is 127.0.0.1."""
    if text == OFF:
        return None
    host, colon, port = text.rpartition(":")
    if not colon or not port.isascii() or not port.isdigit() or len(port) > 5 or int(port) > 65535:
        raise InvalidSetting(f"{option}: {text!r:.100} is not HOST:PORT, nor {OFF!r}")
    return Address(host.strip("[]") or "127.0.0.1", int(port))


def multicast_group(text: str) -> Address:
    """Parse the address of an IPv4 multicast group; raises InvalidSetting."""
    try:
        address = parse_address(text, "group")
        if address and address.port and ipaddress.IPv4Address(address.host).is_multicast:
            return address
    except (ValueError, InvalidSetting):
        pass
    raise InvalidSetting(
        f"{text!r:.60} is no multicast group: write an address of 224.0.0.0 to 239.255.255.255 "
        "and a port, such as 239.255.77.1:30001"
    )


def address_of(listener: "socket.socket") -> Address:
    """Return the address that a socket is bound to."""
    host, port, *_ = listener.getsockname()
    return Address(str(host), int(port))


def peer_of(transport: "asyncio.BaseTransport") -> str:
    """Return the address of the connected peer as text, for log messages."""
    host, port, *_ = transport.get_extra_info("peername") or ("?", 0)
    return f"{host}:{port}"
