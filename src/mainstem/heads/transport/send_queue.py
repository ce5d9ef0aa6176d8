"""What is on its way to a peer: pieces in memory and stretches of files, sent as the peer reads.

How this works: what the socket takes at once is written straight to it, files by sendfile. Of what
it does not take, one chunk goes through the transport, which tells when it has gone. So a peer that
does not read costs the answers of one turn, and never a copy of the files in them.

On a TLS connection everything goes through the transport, which encrypts it, a chunk at a time.
"""

import asyncio
import os
from collections import deque

from mainstem.heads.conversation import Answer, FileSlice, Piece
from mainstem.heads.transport.traffic import Traffic

CHUNK_BYTES = 128 * 1024
SENDFILE_FROM = 16 * 1024
"""Shorter stretches are copied: a system call of their own would cost more."""
JOINED_BYTES = 1024
"""Smaller pieces are joined into one: most answers are, and many leave at once."""
_MOST_PIECES = 64
"""In one system call; the kernel takes 1024."""

_Plain = bytes | bytearray | memoryview


class SendQueue:
    """Pieces in the order in which they leave."""

    def __init__(self, transport: asyncio.WriteTransport, traffic: Traffic) -> None:
        self._transport = transport
        self._traffic = traffic
        is_tls = transport.get_extra_info("ssl_object") is not None
        # Whatever stays in the transport's buffer is reported to its protocol, which sets blocked.
        # A TLS transport takes a buffer as large as the limit for full, others a larger one.
        transport.set_write_buffer_limits(high=1 if is_tls else 0, low=0)
        self._descriptor: int | None = (
            None if is_tls else transport.get_extra_info("socket").fileno()
        )
        """Where plain bytes are written straight to; None if the transport must encrypt them."""
        self._pieces: deque[_Plain | FileSlice] = deque()
        self._joined: bytearray | None = None
        """The last piece, if it is one that more can be joined to."""
        self._sent = 0
        """How much of the first piece has left."""
        self.held_bytes = 0
        """What waits here in memory."""
        self.blocked = False
        """Whether the peer must read before more can be sent."""

    def __bool__(self) -> bool:
        return bool(self._pieces) or self.blocked

    def add(self, answer: Answer) -> None:
        """Queue an answer."""
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
        """Send until nothing is left, or the peer has to read first."""
        while self._pieces and not self.blocked:
            sent = self._send_now()
            if sent:
                self._advance(sent)
            else:
                chunk = self._chunk()
                self._advance(len(chunk))
                self._transport.write(chunk)

    def clear(self) -> None:
        """Forget what has not left."""
        self._pieces.clear()
        self._joined = None
        self._sent = self.held_bytes = 0

    def _send_now(self) -> int:
        """Write to the socket itself; 0 if it takes nothing, or the peer has gone."""
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
            # The transport meets the same error, and knows what to do about it.
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
            # All there is, as most answers leave.
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
    """Return what is in memory, or not worth a system call of its own."""
    if isinstance(piece, _Plain):
        return piece
    if piece.length < SENDFILE_FROM or piece.fileno() < 0:
        return piece.tobytes()
    return None
