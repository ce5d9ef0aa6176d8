"""UDP sockets: one receives packets for a head and sends answers, another sends multicast."""

import asyncio
import logging
import socket
import struct
from collections.abc import Callable
from typing import cast

from mainstem.heads.addresses import Address, address_of
from mainstem.heads.transport.traffic import Traffic

_logger = logging.getLogger("mainstem.heads")

_SO_MEMINFO = 55
_MEMINFO = struct.Struct("=9I")
_DROPS = 8
"""The index of the drop count in SO_MEMINFO (linux/sock_diag.h)."""

MAX_UNSENT_BYTES = 1024 * 1024
"""Answers are dropped while the transport has this many unsent bytes."""

Sender = tuple[str, int]
"""Host and port of a packet's sender."""
Receive = Callable[[bytes, Sender], None]


def bind_datagrams(address: Address, receive_buffer_bytes: int) -> socket.socket:
    """Bind a UDP address, with a receive buffer as large as the kernel allows."""
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    return datagram_socket(lambda it: it.bind(address.pair), receive_buffer_bytes, family)


def datagram_socket(
    prepare: Callable[[socket.socket], None],
    receive_buffer_bytes: int,
    family: socket.AddressFamily = socket.AF_INET,
) -> socket.socket:
    """Return a new UDP socket that does not block; it is closed if ``prepare`` raises."""
    found = socket.socket(family, socket.SOCK_DGRAM)
    try:
        found.setblocking(False)
        ask_for_buffer(found, receive_buffer_bytes)
        prepare(found)
    except BaseException:
        found.close()
        raise
    return found


def ask_for_buffer(found: socket.socket, size: int) -> None:
    """Ask the kernel for a receive buffer of this size."""
    try:
        # Allows more than net.core.rmem_max, but only for root. The kernel doubles the value.
        found.setsockopt(socket.SOL_SOCKET, 33, size // 2)  # SO_RCVBUFFORCE
    except OSError:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, size // 2)


class Datagrams(asyncio.DatagramProtocol):
    """Receives UDP packets and sends answers until it is closed."""

    def __init__(self, listener: socket.socket, receive: Receive) -> None:
        self.address = address_of(listener)
        self.traffic = Traffic()
        self.packets = 0
        self._socket = listener
        self._receive = receive
        self._transport: asyncio.DatagramTransport | None = None
        self._drops = 0

    async def start(self) -> None:
        """Start receiving."""
        loop = asyncio.get_running_loop()
        await loop.create_datagram_endpoint(lambda: self, sock=self._socket)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Store the transport, which asyncio has connected."""
        # uvloop's class does not derive from DatagramTransport.
        self._transport = cast(asyncio.DatagramTransport, transport)

    def datagram_received(self, data: bytes, addr: tuple[object, ...]) -> None:
        """Pass a packet to the head; an exception is logged, and only this packet is lost."""
        self.packets += 1
        self.traffic.bytes_in += len(data)
        try:
            self._receive(data, (str(addr[0]), cast(int, addr[1])))
        except Exception:
            self.traffic.cut_off += 1
            _logger.exception("a packet from %s could not be handled", addr)

    def error_received(self, exc: Exception) -> None:
        """Ignore an error about a single packet."""
        _logger.warning("%s: %s", self.address, exc)

    def answer(self, data: bytes, to: Sender) -> bool:
        """Send a packet to an address; False if it was dropped, as the socket's buffer is full."""
        if self._transport is None:
            return False
        # Transports of asyncio and uvloop have this method, their type has not.
        unsent = cast(asyncio.WriteTransport, self._transport).get_write_buffer_size()
        if unsent + len(data) > MAX_UNSENT_BYTES:
            return False
        self._transport.sendto(data, to)
        self.traffic.bytes_out += len(data)
        return True

    @property
    def kernel_drops(self) -> int:
        """Packets that the kernel dropped because the buffer was full, as last read if closed."""
        if self._socket.fileno() >= 0:
            told = self._socket.getsockopt(socket.SOL_SOCKET, _SO_MEMINFO, _MEMINFO.size)
            self._drops = _MEMINFO.unpack(told)[_DROPS]
        return self._drops

    def close(self) -> None:
        """Stop receiving."""
        if self._transport is not None:
            self._drops = self.kernel_drops
            self._transport.close()
            self._transport = None


class MulticastSender:
    """Sends packets to multicast groups through one network interface; never blocks."""

    def __init__(self, interface: str, ttl: int, send_buffer_bytes: int) -> None:
        """``interface``: the IPv4 address of the network interface."""
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            self._socket.setblocking(False)
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_buffer_bytes)
            chosen = socket.inet_aton(interface)
            self._socket.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, chosen)
            self._socket.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, ttl)
        except BaseException:
            self._socket.close()
            raise

    def send(self, data: bytes, group: Address) -> bool:
        """Send a packet; return False if the socket's buffer is full. Raises OSError."""
        try:
            self._socket.sendto(data, group.pair)
        except BlockingIOError:
            return False
        return True

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()
