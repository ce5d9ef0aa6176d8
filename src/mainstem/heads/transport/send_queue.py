"""The send queue of a connection: pieces of memory and ranges of files.

How this works: data is written directly to the socket as long as it accepts any, files by sendfile.
The rest goes through the asyncio transport, one chunk at a time; the transport reports when a chunk
was sent. So a peer that does not read costs the memory of its queued answers, but never copies of
file ranges. On a TLS connection all data goes through the transport, which encrypts it, a chunk at
a time.
"""

import asyncio
import fcntl
import os
import struct
import termios
from collections import deque

from mainstem.heads.conversation import Answer, FileSlice, Piece
from mainstem.heads.transport.traffic import Traffic

CHUNK_BYTES = 128 * 1024
SENDFILE_FROM = 16 * 1024
"""Minimum size of a file range for sendfile; shorter ranges are copied to memory, which is cheaper
than a system call each.
"""
JOINED_BYTES = 1024
"""Pieces up to this size are joined: most answers are small, and many are sent at once."""
_MOST_PIECES = 64
"""Maximum number of pieces in one system call; the kernel's limit is 1024."""

_INT = struct.Struct("i")
_Plain = bytes | bytearray | memoryview


class SendQueue:
    """The data to send to one peer, in order: pieces of memory and ranges of files."""

    def __init__(self, transport: asyncio.WriteTransport, traffic: Traffic) -> None:
        self._transport = transport
        self._traffic = traffic
        is_tls = transport.get_extra_info("ssl_object") is not None
        # With these limits any data left in the transport's buffer calls pause_writing, which sets
        # blocked. TLS transports compare with >=, others with >.
        transport.set_write_buffer_limits(high=1 if is_tls else 0, low=0)
        self._descriptor: int | None = (
            None if is_tls else transport.get_extra_info("socket").fileno()
        )
        """The socket to write to directly; None if the transport must encrypt the data."""
        self._pieces: deque[_Plain | FileSlice] = deque()
        self._joined: bytearray | None = None
        """The last piece, if further small pieces can be joined to it."""
        self._sent = 0
        """How many bytes of the first piece were already sent."""
        self.held_bytes = 0
        """Unsent bytes in memory; file ranges are not counted."""
        self.blocked = False
        """Whether nothing can be sent until the peer has read."""

    def __bool__(self) -> bool:
        return bool(self._pieces) or self.blocked

    def add(self, answer: Answer) -> None:
        """Append the pieces of an answer."""
        for piece in answer:
            plain = _plain(piece)
            if plain is None:
                assert not isinstance(piece, _Plain)
                self._pieces.append(piece)
                self._joined = None
            elif len(plain):
                self._add_plain(plain)

    def _add_plain(self, piece: _Plain) -> None:
        self.held_bytes += len(piece)
        if len(piece) > JOINED_BYTES:
            self._pieces.append(piece)
            self._joined = None
        elif self._joined is None:
            self._joined = bytearray(piece)
            self._pieces.append(self._joined)
        else:
            self._joined += piece

    def push(self) -> None:
        """Send until the queue is empty, or the socket accepts no more until the peer reads."""
        while self._pieces and not self.blocked:
            sent = self._send_now()
            if sent:
                self._advance(sent)
            else:
                chunk = self._chunk()
                self._advance(len(chunk))
                self._transport.write(chunk)

    def clear(self) -> None:
        """Drop all unsent data."""
        self._pieces.clear()
        self._joined = None
        self._sent = self.held_bytes = 0

    def unacknowledged_bytes(self) -> int | None:
        """Return how many added bytes the peer's TCP has not acknowledged; None if unknown."""
        if self._descriptor is None:
            return None
        try:
            # SIOCOUTQ: what the kernel holds until the peer has acknowledged it.
            held = fcntl.ioctl(self._descriptor, termios.TIOCOUTQ, bytes(_INT.size))
        except OSError:
            return None
        (in_kernel,) = _INT.unpack(held)
        return self.held_bytes + self._transport.get_write_buffer_size() + int(in_kernel)

    def _send_now(self) -> int:
        """Write to the socket directly, and return how many bytes it accepted.

        0 if it accepts none, or the peer has disconnected.
        """
        if self._descriptor is None:
            return 0
        first = self._pieces[0]
        try:
            if isinstance(first, _Plain):
                if len(self._pieces) == 1 and not self._sent:
                    return os.write(self._descriptor, first)
                return os.writev(self._descriptor, self._first_pieces())
            position, left = first.position + self._sent, first.length - self._sent
            return os.sendfile(self._descriptor, first.fileno(), position, left)
        except OSError:
            # The transport gets the same error, and handles it.
            return 0

    def _first_pieces(self) -> list[_Plain]:
        found: list[_Plain] = []
        for piece in self._pieces:
            if not isinstance(piece, _Plain) or len(found) == _MOST_PIECES:
                break
            found.append(piece if found or not self._sent else memoryview(piece)[self._sent :])
        return found

    def _chunk(self) -> bytes:
        first = self._pieces[0]
        if isinstance(first, _Plain):
            return bytes(memoryview(first)[self._sent : self._sent + CHUNK_BYTES])
        length = min(CHUNK_BYTES, first.length - self._sent)
        chunk = os.pread(first.fileno(), length, first.position + self._sent)
        if not chunk:
            raise OSError(f"a file ended {first.length - self._sent} bytes before its answer did")
        return chunk

    def _advance(self, sent: int) -> None:
        self._traffic.bytes_out += sent
        if sent == self.held_bytes and len(self._pieces) == 1:
            # The usual case: everything was sent in one call.
            self.clear()
            return
        while sent:
            first = self._pieces[0]
            plain = isinstance(first, _Plain)
            left = (len(first) if isinstance(first, _Plain) else first.length) - self._sent
            taken = min(sent, left)
            sent -= taken
            if plain:
                self.held_bytes -= taken
            if taken < left:
                self._sent += taken
            else:
                if self._pieces.popleft() is self._joined:
                    self._joined = None
                self._sent = 0


def _plain(piece: Piece) -> _Plain | None:
    """Return a piece as bytes; None for a file range that is large enough for sendfile."""
    if isinstance(piece, _Plain):
        return piece
    if piece.length < SENDFILE_FROM or piece.fileno() < 0:
        return piece.tobytes()
    return None
