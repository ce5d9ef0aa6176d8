"""The shape every head has. Nothing in this module does I/O.

A head is a folder with the same files in every head; one that it does not need is absent:

``codec.py``    bytes to frames and back. Knows the protocol's grammar and nothing else.
``session.py``  one peer's conversation: what may be said when. No I/O, no clock, no broker.
``adapter.py``  the protocol's words in terms of the broker's. The only file that knows both.
"""

from collections.abc import Callable, Sequence
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

Answer = Sequence[Piece]


class Later:
    """An answer that comes later; it is settled once, in the thread of the event loop."""

    __slots__ = ("_call", "answer", "failed", "holds")

    def __init__(self) -> None:
        self.answer: Answer | Callable[[], Answer] | None = None
        """What there is to send, or what makes it; None before it is settled."""
        self.failed: Exception | None = None
        """Why there is no answer, and the peer is cut off."""
        self.holds = False
        """Whether nothing more is taken from the peer before this is answered."""
        self._call: Callable[[], None] | None = None

    def hold(self) -> None:
        """Take nothing more from the peer before this is answered."""
        self.holds = True

    def settle(self, answer: Answer | Callable[[], Answer]) -> None:
        """Give the answer, or what makes it once it is its turn to be sent: many may wait for that.

        An empty one sends nothing.
        """
        if self.answer is None:
            self.answer = answer
            if self._call is not None:
                self._call()

    def take(self) -> Answer:
        """Return the answer that was given."""
        return self.answer() if callable(self.answer) else self.answer or ()

    def fail(self, error: Exception) -> None:
        """Give up on the answer, and on the peer who waits for it."""
        self.failed = error
        self.settle(())

    def then(self, call: Callable[[], None]) -> None:
        """Be told once the answer is there."""
        self._call = call


class Conversation(Protocol):
    """One peer's talk with a head: whole frames in, answers out."""

    def frame_size(self, view: memoryview) -> int | None:
        """Return the size of the frame that begins here, None if more bytes are needed to tell.

        Raises ProtocolError for a size that is refused, before anything of it is kept.
        """

    def handle(self, frame: memoryview) -> Answer | Later:
        """Carry out a request; the frame is gone when this returns."""

    def handle_run(self, view: memoryview) -> tuple[Answer | Later, int] | None:
        """Carry out the requests that begin here and are quicker together; return their size, too.

        None if there are none: the first is then handled by itself.
        """

    def close(self) -> None:
        """Let go of what was held for the peer, who has gone."""
