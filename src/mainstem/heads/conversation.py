"""The interfaces between a head and the transport. Nothing in this module does I/O.

Every head is a folder with the same files; files that it does not need are absent:

``codec.py``    bytes to frames and back. Knows the protocol's grammar and nothing else.
``session.py``  one peer's protocol state: which frame may come when. No I/O, no broker, no clock.
``adapter.py``  maps the protocol to the broker. The only file that knows both.
"""

from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

from mainstem.core.wire import FileSlice, Piece, ProtocolError

__all__ = [
    "Answer",
    "Conversation",
    "Converse",
    "DrainedConversation",
    "FileSlice",
    "Later",
    "Outbox",
    "Piece",
    "ProtocolError",
    "RunConversation",
    "TimedConversation",
    "WaitingConversation",
]


Answer = Sequence[Piece]


class Later:
    """A future answer; it is settled once, in the thread of the event loop."""

    __slots__ = ("_call", "answer", "failed", "holds")

    def __init__(self) -> None:
        self.answer: Answer | Callable[[], Answer] | None = None
        """The answer, or a function that returns it; None before it is settled."""
        self.failed: Exception | None = None
        """Why there is no answer; the peer is then disconnected."""
        self.holds = False
        """Whether later requests of the peer wait for this answer."""
        self._call: Callable[[], None] | None = None

    def hold(self) -> None:
        """Handle no further requests of the peer before this is answered."""
        self.holds = True

    def settle(self, answer: Answer | Callable[[], Answer]) -> None:
        """Set the answer, or a function that makes it when it is about to be sent.

        The latter saves memory while many answers wait. An empty answer sends nothing.
        """
        if self.answer is None:
            self.answer = answer
            if self._call is not None:
                self._call()

    def take(self) -> Answer:
        """Return the answer."""
        return self.answer() if callable(self.answer) else self.answer or ()

    def fail(self, error: Exception) -> None:
        """Disconnect the peer instead of answering it."""
        self.failed = error
        self.settle(())

    def then(self, call: Callable[[], None]) -> None:
        """Call ``call`` when the answer is settled."""
        self._call = call


class Outbox(Protocol):
    """A connection as its conversation sees it: for pushes, backpressure and closing.

    Used in the thread of the event loop. Once the connection ends, nothing more is sent, and only
    the conversation's ``close`` is called.
    """

    @property
    def peer(self) -> str:
        """The peer's address, for log messages."""

    @property
    def is_tls(self) -> bool:
        """Whether the connection is encrypted."""

    @property
    def heard_ms(self) -> int:
        """The monotonic time of the last bytes from the peer, even of an incomplete frame."""

    @property
    def is_full(self) -> bool:
        """Whether the send queue is full; then stop pushing until the peer has read."""

    def send(self, pieces: Answer) -> None:
        """Push data after what is queued; pushes of one loop iteration share a write."""

    def when_room(self, call: Callable[[], None]) -> None:
        """Call ``call`` one time, soon after the outbox is no longer full."""

    def close(self, reason: str = "") -> None:
        """Close at once, without answering; with a reason it is logged and counted as cut off."""

    def end(self, farewell: Answer = (), reason: str = "") -> None:
        """Accept no more requests, answer the earlier ones, send ``farewell``, and close."""


class Conversation(Protocol):
    """One peer's session with a head: whole frames in, answers out."""

    def frame_size(self, view: memoryview) -> int | None:
        """Return the size of the frame that begins here, None if more bytes are needed.

        May be called again for the same frame, always from its first byte, when more has arrived;
        an implementation that searches for the end may remember its position until ``handle``.
        Raises ProtocolError for a size over the limit, before memory is allocated for it.
        """

    def handle(self, frame: memoryview) -> Answer | Later:
        """Handle a request; the frame's memory is reused when this returns."""

    def close(self) -> None:
        """Release the peer's resources when it has disconnected; called once."""


Converse = Callable[[Outbox], Conversation]
"""Creates the conversation of a newly connected peer."""


@runtime_checkable
class RunConversation(Conversation, Protocol):
    """A conversation that can handle several frames in one call."""

    def handle_run(self, view: memoryview) -> tuple[Answer | Later, int] | None:
        """Handle a run of requests together; return the answer and the run's size in bytes.

        None if there is no such run: then the first request is handled alone.
        """


@runtime_checkable
class TimedConversation(Conversation, Protocol):
    """A conversation with deadlines, such as heart-beats or a login timeout.

    ``deadline`` is called when the conversation begins, after requests were handled, after a push,
    and when the deadline has passed; so it must be cheap, and may change at any time.
    """

    def deadline(self) -> int | None:
        """Return when to call ``tick``, in monotonic milliseconds; None for never."""

    def tick(self, now_ms: int) -> Answer:
        """Do what is due; return data to send. Raises ProtocolError to disconnect the peer."""


@runtime_checkable
class DrainedConversation(Conversation, Protocol):
    """A conversation that sends a farewell when the server stops."""

    def drain(self) -> Answer:
        """Return the farewell; called when all requests are answered, or the time is up."""


@runtime_checkable
class WaitingConversation(Conversation, Protocol):
    """A conversation whose answers may wait for something other than the disk."""

    def stop_waiting(self) -> None:
        """Answer all waiting requests, as the peer has closed its side of the connection.

        Earlier requests may still be handled afterwards. May be called again.
        """
