"""A socket for datagrams: hands every packet to a head, and knows how many the kernel dropped."""

import asyncio
import logging
import socket
import struct
from collections.abc import Callable
from typing import cast

from mainstem.heads.listen import Address, address_of
from mainstem.heads.transport.traffic import Traffic

_logger = logging.getLogger("mainstem.heads")

_SO_MEMINFO = 55
_MEMINFO = struct.Struct("=9I")
_DROPS = 8
"""What each word of SO_MEMINFO is: linux/sock_diag.h."""

Receive = Callable[[bytes], None]


def bind_datagrams(address: Address, receive_buffer_bytes: int) -> socket.socket:
    """Take an address for datagrams, with as large a buffer as the kernel allows."""
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    found = socket.socket(family, socket.SOCK_DGRAM)
    try:
        found.setblocking(False)
        _ask_for_buffer(found, receive_buffer_bytes)
        found.bind(address.pair)
    except BaseException:
        found.close()
        raise
    return found


def _ask_for_buffer(found: socket.socket, size: int) -> None:
    try:
        # Beyond net.core.rmem_max; for root only. The kernel doubles what it is asked for.
        found.setsockopt(socket.SOL_SOCKET, 33, size // 2)  # SO_RCVBUFFORCE
    except OSError:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, size // 2)


class Datagrams(asyncio.DatagramProtocol):
    """Receives until it is closed."""

    def __init__(self, listener: socket.socket, receive: Receive) -> None:
        self.address = address_of(listener)
        self.traffic = Traffic()
        self.packets = 0
        self._socket = listener
        self._receive = receive
        self._transport: asyncio.DatagramTransport | None = None
        self._drops = 0

    async def start(self) -> None:
        """Begin to receive."""
        loop = asyncio.get_running_loop()
        await loop.create_datagram_endpoint(lambda: self, sock=self._socket)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take note of the transport."""
        # uvloop's is one that does not say so.
        self._transport = cast(asyncio.DatagramTransport, transport)

    def datagram_received(self, data: bytes, addr: tuple[object, ...]) -> None:
        """Hand a packet on; a bug of ours costs that packet, and the log says where it is."""
        self.packets += 1
        self.traffic.bytes_in += len(data)
        try:
            self._receive(data)
        except Exception:
            self.traffic.cut_off += 1
            _logger.exception("a packet from %s could not be handled", addr)

    def error_received(self, exc: Exception) -> None:
        """Go on: an error of one packet is not that of the others."""
        _logger.warning("%s: %s", self.address, exc)

    @property
    def kernel_drops(self) -> int:
        """Packets that came and found the buffer full; the last count once it is closed."""
        if self._socket.fileno() >= 0:
            told = self._socket.getsockopt(socket.SOL_SOCKET, _SO_MEMINFO, _MEMINFO.size)
            self._drops = _MEMINFO.unpack(told)[_DROPS]
        return self._drops

    def close(self) -> None:
        """Receive nothing any more."""
        if self._transport is not None:
            self._drops = self.kernel_drops
            self._transport.close()
            self._transport = None
