"""One head, started on a broker in memory, and peers that say any bytes to it.

How this works: the head is the real one, bound, started and closed as the node does it, so this
holds for heads whose library owns its sockets, too. Peers live in the same event loop. Each piece
that a peer says is waited for until the head has read it (``traffic``), so that pieces arrive as
they were cut. An exception that nobody expected, which a head survives and logs, fails the test.
"""

import asyncio
import contextlib
import fcntl
import logging
import socket
import struct
import termios
from collections.abc import AsyncIterator, Callable, Iterator
from typing import NamedTuple, cast

import msgspec
from tests.broker.brokers import Clock, new_broker, read_all, values
from tests.heads.contexts import context_on
from tests.heads.nng import sp
from tests.heads.transport.echo import until
from tests.heads.zmq import zmtp

from mainstem.auth import Auth
from mainstem.broker.broker import Broker
from mainstem.heads.addresses import Address
from mainstem.heads.context import HeadContext
from mainstem.heads.head import Head, HeadSettings, RunningHead


class Manners(NamedTuple):
    """How peers speak to a library that owns its sockets; of what is said, and what was heard."""

    may_say: Callable[[bytes, bytes], int]
    """How much may be said by now."""
    may_end: Callable[[bytes, bytes], bool]
    """Whether a peer may half-close; such libraries forget it then."""


OWN_SOCKETS = {
    "zmq": Manners(zmtp.may_say, zmtp.is_answered),
    "nng": Manners(lambda said, _: len(said), sp.is_answered),
}
"""Heads whose library owns the sockets."""
TOPIC = "orders"
"""Exists from the start, with one partition and a queue of the same name."""


@contextlib.asynccontextmanager
async def running_head(
    head: Head, settings: HeadSettings, context: HeadContext, *, drain_s: float = 1
) -> AsyncIterator[RunningHead]:
    """Run a head on a free port until the block ends; it is drained and closed as by the node."""
    with nothing_unexpected(), head.bind(settings, Address("127.0.0.1", 0)) as listener:
        running = await head.start(context, settings, listener)
        try:
            yield running
        finally:
            context.drain()
            await running.drain(drain_s, asyncio.Event())
            await running.close()


class Peer(asyncio.Protocol):
    """A TCP client: sends any bytes, and collects those it receives."""

    def __init__(self, running: RunningHead, *, hangs_up: bool = True) -> None:
        self.heard = b""
        self.is_over = False
        """Whether the head has ended the connection."""
        self._running = running
        self._hangs_up = hangs_up

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self.heard += data

    def datagram_received(self, data: bytes, _: object) -> None:
        self.heard += data

    def error_received(self, _: Exception) -> None:
        self.is_over = True

    def eof_received(self) -> bool:
        self.is_over = True
        return not self._hangs_up

    def connection_lost(self, _: Exception | None) -> None:
        self.is_over = True

    async def say(self, *pieces: bytes) -> None:
        """Send pieces, each after the head has read the one before."""
        for piece in pieces:
            said = self._running.traffic.bytes_in + len(piece)
            self.write(piece)
            await self._read_by_the_head(said)

    async def _read_by_the_head(self, count: int) -> None:
        await until(lambda: self._running.traffic.bytes_in >= count or self.is_over)

    def write(self, piece: bytes) -> None:
        """Send without waiting for the head to read it."""
        if not self.transport.is_closing():
            self.transport.write(piece)

    def stop_reading(self) -> None:
        """Stop reading from the socket."""
        self.transport.pause_reading()

    async def end(self) -> bytes:
        """Half-close; return everything received once the head has ended the connection."""
        if self.transport.can_write_eof() and not self.transport.is_closing():
            self.transport.write_eof()
        await until(lambda: self.is_over)
        return self.heard


class WaitingPeer(Peer):
    """A peer of a library that owns the sockets."""

    def __init__(self, running: RunningHead, manners: Manners, *, hangs_up: bool) -> None:
        super().__init__(running, hangs_up=hangs_up)
        self._manners = manners
        self._said = b""
        self._sent = 0
        self._has_ended = False

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._go_on()

    def write(self, piece: bytes) -> None:
        self._said += piece
        self._go_on()

    def _go_on(self) -> None:
        end = self._manners.may_say(self._said, self.heard)
        if end > self._sent and not self._has_ended:
            super().write(self._said[self._sent : end])
            self._sent = end

    async def _read_by_the_head(self, count: int) -> None:
        """Wait until the kernel of the head has it: when the library reads, nobody tells."""
        await until(lambda: self.is_over or (self._sent == len(self._said) and not self._unread()))

    def _unread(self) -> int:
        own = self.transport.get_extra_info("socket")
        (found,) = struct.unpack("i", fcntl.ioctl(own.fileno(), termios.TIOCOUTQ, bytes(4)))
        return int(found)

    async def end(self) -> bytes:
        await until(lambda: self.is_over or self._manners.may_end(self._said, self.heard))
        self._has_ended = True
        return await super().end()


class Datagrams(Peer):
    """The same over UDP, where nothing is answered and connections do not end."""

    def write(self, piece: bytes) -> None:
        cast(asyncio.DatagramTransport, self.transport).sendto(piece)

    def stop_reading(self) -> None:
        """Do nothing: nothing is received."""

    async def end(self) -> bytes:
        self.transport.close()
        return self.heard


class Started(msgspec.Struct, eq=False):
    """A running head, and the peers connected to it."""

    broker: Broker
    context: HeadContext
    running: RunningHead
    is_udp: bool
    manners: Manners | None = None
    buffer_bytes: int = 0
    """Receive buffer of peers; 0 for the kernel's default."""
    peers: list[Peer] = []

    async def peer(self, *, hangs_up: bool = True) -> Peer:
        """Connect; a peer that does not hang up stays half-open after the head has closed."""
        loop, at = asyncio.get_running_loop(), self.running.address.pair
        peer: Peer
        if self.is_udp:
            _, peer = await loop.create_datagram_endpoint(
                lambda: Datagrams(self.running), remote_addr=at
            )
        else:
            own = socket.socket()
            if self.buffer_bytes:
                own.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self.buffer_bytes)
            try:
                own.setblocking(False)
                await loop.sock_connect(own, at)
            except BaseException:
                own.close()
                raise
            _, peer = await loop.create_connection(lambda: self._new_peer(hangs_up), sock=own)
        self.peers.append(peer)
        return peer

    def _new_peer(self, hangs_up: bool) -> Peer:
        if self.manners is None:
            return Peer(self.running, hangs_up=hangs_up)
        return WaitingPeer(self.running, self.manners, hangs_up=hangs_up)

    async def talk(self, *pieces: bytes) -> bytes:
        """Send pieces, half-close, and return all answers."""
        peer = await self.peer()
        await peer.say(*pieces)
        return await peer.end()

    def published(self) -> list[bytes | None]:
        """Return the values in the topic."""
        return values(read_all(self.broker, TOPIC))

    def out(self) -> int:
        """Return how many events of the queue are out with consumers."""
        return sum(self.broker.queues.show(TOPIC, TOPIC).owners.values())

    async def close(self) -> None:
        self.context.drain()
        for peer in self.peers:
            peer.transport.close()
        await self.running.close()


@contextlib.asynccontextmanager
async def started(
    head: Head,
    settings: HeadSettings | None = None,
    auth: Auth | None = None,
    *,
    buffer_bytes: int = 0,
    broker: Broker | None = None,
    prepare: Callable[[Broker], None] | None = None,
) -> AsyncIterator[Started]:
    """Run a head until the block ends; ``buffer_bytes``: send buffer of its connections.

    ``broker``: one on which the head has run before. ``prepare``: called with it before the start.
    """
    if broker is None:
        broker = new_broker()
        broker.create_topic(TOPIC)
        broker.queues.create(TOPIC, TOPIC)
    if prepare is not None:
        prepare(broker)
    context = context_on(broker, Clock(), auth=auth)
    chosen = settings or head.settings
    with head.bind(chosen, Address("127.0.0.1", 0)) as listener, nothing_unexpected():
        is_udp = listener.type == socket.SOCK_DGRAM
        if buffer_bytes:
            # Connections have it from their listener.
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, buffer_bytes)
        running = await head.start(context, chosen, listener)
        found = Started(
            *(broker, context, running, is_udp), OWN_SOCKETS.get(head.name), buffer_bytes
        )
        try:
            yield found
        finally:
            await found.close()


class _Unexpected(logging.Handler):
    """Collects log records that have a traceback."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info:
            self.found.append(logging.Formatter().format(record))


@contextlib.contextmanager
def nothing_unexpected() -> Iterator[None]:
    """Fail if an exception is only logged, by a head or by the event loop."""
    kept = _Unexpected()
    loggers = [logging.getLogger(name) for name in ("mainstem", "asyncio")]
    for logger in loggers:
        logger.addHandler(kept)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeHandler(kept)
    assert not kept.found, kept.found[0]
