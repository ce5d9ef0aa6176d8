"""Splits a byte stream into pieces; yields complete ones before it waits for more input.

A burst is what can be read without blocking, up to a limit. Only the first read of a burst blocks;
then pieces are yielded as long as more input is ready. So a fast pipe is published in large
batches, and a slow one line by line.
"""

import os
import select
from collections.abc import Iterator

READ_BYTES = 1 << 20
BURST_BYTES = 64 << 20


class StreamSplitter:
    """Splits the bytes of a file descriptor at a delimiter."""

    def __init__(self, descriptor: int, delimiter: bytes, max_bytes: int) -> None:
        self.ended = False
        """Whether the stream has ended and all its pieces were returned."""
        self.too_large = 0
        """The size of a piece that is larger than ``max_bytes``; no piece after it is returned."""
        self._descriptor = descriptor
        self._delimiter = delimiter
        self._max_bytes = max_bytes
        self._rest = bytearray()

    def burst(self) -> Iterator[list[bytes]]:
        """Yield lists of pieces while input is ready; only the first read waits."""
        taken = 0
        while not self.ended and taken < BURST_BYTES and (not taken or self._ready()):
            chunk = os.read(self._descriptor, READ_BYTES)
            taken += len(chunk)
            if pieces := self._split(chunk):
                yield pieces

    def _ready(self) -> bool:
        return bool(select.select([self._descriptor], [], [], 0)[0])

    def _split(self, chunk: bytes) -> list[bytes]:
        searched = max(0, len(self._rest) - len(self._delimiter) + 1)
        self._rest += chunk
        if not chunk:
            self.ended = True
            return [bytes(self._rest)] if self._rest else []
        pieces: list[bytes] = []
        if self._rest.find(self._delimiter, searched) >= 0:
            pieces = bytes(self._rest).split(self._delimiter)
            self._rest = bytearray(pieces.pop())
        if len(self._rest) > self._max_bytes:
            # Without a limit, an endless line would use all memory.
            self.ended, self.too_large = True, len(self._rest)
        return pieces
