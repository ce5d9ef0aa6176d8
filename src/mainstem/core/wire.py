"""What wire protocols have in common: the pieces that are sent, and the error of a bad peer."""

from typing import Protocol


class ProtocolError(Exception):
    """The peer broke the protocol: it is told why in ``farewell``, then cut off."""

    def __init__(self, message: str, farewell: bytes = b"") -> None:
        super().__init__(message)
        self.farewell = farewell


class FileSlice(Protocol):
    """A stretch of a file, which is sent without passing through this process."""

    @property
    def length(self) -> int:
        """How many bytes."""

    @property
    def position(self) -> int:
        """Where in the file."""

    def fileno(self) -> int:
        """Return the file's descriptor, -1 if the bytes are in memory."""

    def tobytes(self) -> bytes | memoryview:
        """Return the bytes."""


Piece = bytes | bytearray | memoryview | FileSlice
"""A part of what is sent to a peer, in memory or in a file."""
