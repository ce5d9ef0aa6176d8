"""One head, started on a broker in memory, and peers that say any bytes to it.

How this works: the head is the real one, bound, started and closed as the node does it, so this
holds for heads whose library owns its sockets, too. Peers live in the same event loop. Each piece
that a peer says is waited for until the head has read it (``traffic``), so that pieces arrive as
they were cut. An exception that nobody expected, which a head survives and logs, fails the test.
"""

import asyncio
import contextlib
import logging
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from typing import cast

import msgspec
from tests.broker.brokers import Clock, new_broker, read_all, values
from tests.heads.contexts import context_on
from tests.heads.transport.echo import until

from mainstem.auth import Auth
from mainstem.broker.broker import Broker
from mainstem.heads.addresses import Address
from mainstem.heads.context import HeadContext
from mainstem.heads.head import Head, HeadSettings, RunningHead

TOPIC = "orders"
"""Exists from the start, with one partition and a queue of the same name."""


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
            _, peer = await loop.create_connection(
                lambda: Peer(self.running, hangs_up=hangs_up), sock=own
            )
        self.peers.append(peer)
        return peer

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
        found = Started(broker, context, running, is_udp=is_udp, buffer_bytes=buffer_bytes)
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
