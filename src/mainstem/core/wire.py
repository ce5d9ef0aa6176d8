"""Types shared by wire protocols: pieces of data to send, and the protocol error."""

from typing import Protocol


class ProtocolError(Exception):
    """A protocol violation: the peer is sent the bytes ``farewell``, and then disconnected."""

    def __init__(self, message: str, farewell: bytes = b"") -> None:
        super().__init__(message)
        self.farewell = farewell


class FileSlice(Protocol):
    """A range of a file, sent by sendfile, without copying it into this process."""

    @property
    def length(self) -> int:
        """The length of the range in bytes."""

    @property
    def position(self) -> int:
        """Where the range begins in the file."""

    def fileno(self) -> int:
        """Return the file's descriptor, -1 if the bytes are in memory."""

    def tobytes(self) -> bytes | memoryview:
        """Return the bytes of the range, reading them if they are in a file."""


Piece = bytes | bytearray | memoryview | FileSlice
"""A piece of data to send, in memory or in a file."""
