"""The loop that drives stream heads: the only sockets in the heads.

How this works: bytes are read into one buffer that all connections of the loop share, so an idle
connection holds no memory; only a frame that is not whole yet is kept by its own connection. The
frames of one read are all handled before anything is written, and their answers leave in one
write. Answers leave in the order of the requests, also those that come later (an append that waits
for the disk, a read that waits for events). A peer that does not read its answers, or has too many
requests unanswered, is not read from until it catches up: that is all the backpressure there is.
"""

import asyncio
import logging
import os
import socket
from collections import deque
from collections.abc import Callable
from typing import cast

from mainstem.heads.shape import (
    Answer,
    Conversation,
    Later,
    Piece,
    ProtocolError,
    Stretch,
)

_logger = logging.getLogger("mainstem.heads")

READ_BYTES = 256 * 1024
HIGH_WATER = 4 * 1024 * 1024
MAX_UNANSWERED = 512
SENDFILE_FROM = 16 * 1024
"""Shorter stretches are copied: a system call of their own would cost more."""


class Connection(asyncio.BufferedProtocol):
    """Drives one conversation over one socket."""

    def __init__(
        self,
        converse: Callable[["Connection"], Conversation],
        scratch: memoryview,
        connections: set["Connection"],
    ) -> None:
        self._converse = converse
        self._scratch = scratch
        self._connections = connections
        self._partial: bytearray | None = None
        self._filled = 0
        self._wanted = 0
        self._out: list[Piece] = []
        self._owed: deque[Later] = deque()
        self._paused_by_answers = self._paused_by_writes = False
        self.peer = "?"

    # Called by the event loop.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin the conversation."""
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=HIGH_WATER)
        self._socket: socket.socket = transport.get_extra_info("socket")
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        host, port, *_ = transport.get_extra_info("peername") or ("?", 0)
        self.peer = f"{host}:{port}"
        self._connections.add(self)
        self._conversation = self._converse(self)

    def connection_lost(self, error: Exception | None) -> None:
        """End the conversation."""
        self._connections.discard(self)
        self._conversation.close()

    def eof_received(self) -> bool:
        """Close once the peer has said all it wanted."""
        return False

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return where to read into: the rest of a frame that has begun, or the shared buffer."""
        if self._partial is None:
            return self._scratch
        if self._filled == len(self._partial):
            grown = bytearray(min(max(2 * self._filled, READ_BYTES), max(self._wanted, 4096)))
            grown[: self._filled] = self._partial
            self._partial = grown
        return memoryview(self._partial)[self._filled :]

    def buffer_updated(self, nbytes: int) -> None:
        """Handle the frames that are whole now, and keep the rest."""
        try:
            if self._partial is None:
                self._take(self._scratch[:nbytes])
            else:
                self._filled += nbytes
                if self._filled >= self._wanted:
                    data, self._partial = memoryview(self._partial)[: self._filled], None
                    self._take(data)
        except ProtocolError as error:
            _logger.warning("closing %s: %s", self.peer, error)
            self._out.append(error.farewell)
            self._flush()
            self._transport.close()
        except Exception:
            # A bug of ours costs one connection, not the server; the log says where it is.
            _logger.exception("closing %s: the request could not be carried out", self.peer)
            self._transport.close()
        else:
            self._flush()

    def pause_writing(self) -> None:
        """Stop reading from a peer that does not read."""
        self._paused_by_writes = True
        self._transport.pause_reading()

    def resume_writing(self) -> None:
        """Go on once it has read."""
        self._paused_by_writes = False
        self._resume_if_may()

    # Ours.

    def close(self) -> None:
        """Close after what was written has been sent."""
        self._transport.close()

    def _take(self, view: memoryview) -> None:
        position = 0
        while True:
            rest = view[position:]
            size = self._conversation.frame_size(rest)
            if size is None or size > len(rest):
                if len(rest):
                    self._keep(rest, size or len(rest) + 1)
                return
            self._answer(self._conversation.handle(rest[:size]))
            position += size

    def _keep(self, rest: memoryview, wanted: int) -> None:
        # No more than what came is allocated ahead, whatever the length says will come.
        self._partial = bytearray(min(wanted, max(2 * len(rest), READ_BYTES)))
        self._partial[: len(rest)] = rest
        self._filled, self._wanted = len(rest), wanted

    def _answer(self, answer: Answer | Later) -> None:
        if isinstance(answer, Later):
            self._owed.append(answer)
            answer.then(self._settle)
            if len(self._owed) >= MAX_UNANSWERED and not self._paused_by_answers:
                self._paused_by_answers = True
                self._transport.pause_reading()
        elif self._owed:
            ready = Later()
            ready.settle(answer)
            self._owed.append(ready)
        else:
            self._out += answer

    def _settle(self) -> None:
        """Send what can be sent in order."""
        while self._owed and self._owed[0].answer is not None:
            self._out += self._owed.popleft().answer or ()
        if self._out:
            self._flush()
        self._resume_if_may()

    def _resume_if_may(self) -> None:
        if self._paused_by_answers and len(self._owed) < MAX_UNANSWERED // 2:
            self._paused_by_answers = False
        if not (self._paused_by_answers or self._paused_by_writes):
            self._transport.resume_reading()

    def _flush(self) -> None:
        out = self._out
        if not out or self._transport.is_closing():
            return
        self._out = []
        plain: list[bytes | bytearray | memoryview] = []
        for piece in out:
            if isinstance(piece, bytes | bytearray | memoryview):
                plain.append(piece)
            elif piece.length < SENDFILE_FROM or piece.fileno() < 0:
                plain.append(piece.tobytes())
            else:
                self._write(plain)
                plain = []
                self._send_file(piece)
        self._write(plain)

    def _write(self, pieces: list[bytes | bytearray | memoryview]) -> None:
        if pieces:
            self._transport.write(b"".join(pieces))

    def _send_file(self, stretch: Stretch) -> None:
        """Let the kernel send a stretch of a file; what the socket does not take is copied."""
        position, left = stretch.position, stretch.length
        if self._transport.get_write_buffer_size() == 0:
            try:
                sent = os.sendfile(self._socket.fileno(), stretch.fileno(), position, left)
            except (BlockingIOError, BrokenPipeError, ConnectionResetError):
                sent = 0
            position, left = position + sent, left - sent
        if left:
            self._transport.write(os.pread(stretch.fileno(), left, position))


class Server:
    """A listening socket of a head, and its connections."""

    def __init__(self, server: asyncio.Server, connections: set[Connection]) -> None:
        self._server = server
        self._connections = connections

    @property
    def address(self) -> tuple[str, int]:
        """Where it listens."""
        host, port, *_ = self._server.sockets[0].getsockname()
        return str(host), int(port)

    @property
    def connections(self) -> int:
        """How many peers are connected."""
        return len(self._connections)

    async def close(self) -> None:
        """Stop listening and close every connection."""
        self._server.close()
        for connection in list(self._connections):
            connection.close()
        await asyncio.sleep(0)


def bind(host: str, port: int) -> socket.socket:
    """Take an address, without serving it yet; port 0 takes a free one."""
    return socket.create_server((host, port), backlog=1024)


async def serve(
    listener: socket.socket,
    converse: Callable[[Connection], Conversation],
    *,
    max_connections: int,
) -> Server:
    """Begin a conversation with whoever connects, up to a limit."""
    scratch = memoryview(bytearray(READ_BYTES))
    connections: set[Connection] = set()

    def connect() -> asyncio.BaseProtocol:
        if len(connections) >= max_connections:
            _logger.warning("refusing a connection: %d are open already", len(connections))
            return _Refusal()
        return Connection(converse, scratch, connections)

    loop = asyncio.get_running_loop()
    server = await loop.create_server(connect, sock=listener)
    return Server(server, connections)


class _Refusal(asyncio.Protocol):
    """Closes at once."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.close()
