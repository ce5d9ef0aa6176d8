"""The interfaces between a head and the transport. Nothing in this module does I/O.

Every head is a folder with the same files; files that it does not need are absent:

``codec.py``    bytes to frames and back. Knows the protocol's grammar and nothing else.
``session.py``  one peer's protocol state: which frame may come when. No I/O, no broker, no clock.
``adapter.py``  maps the protocol to the broker. Only this file depends on both.
"""

from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

from mainstem.core.wire import FileSlice, Piece, ProtocolError

__all__ = [
    "AcknowledgedOutbox",
    "Answer",
    "Conversation",
    "Converse",
    "DrainedConversation",
    "FileSlice",
    "Later",
    "Outbox",
    "Piece",
    "ProtocolError",
    "Room",
    "RunConversation",
    "TimedConversation",
    "WaitingConversation",
]


Answer = Sequence[Piece]


class Later:
    """An answer that is not known yet; settled once, in the event loop."""

    __slots__ = ("_call", "answer", "failed", "holds")

    def __init__(self) -> None:
        self.answer: Answer | Callable[[], Answer] | None = None
        """The answer, or a function that creates it; None until it is settled."""
        self.failed: Exception | None = None
        """The error because of which the peer is disconnected instead of answered."""
        self.holds = False
        """Whether later requests of the peer are handled only after this answer."""
        self._call: Callable[[], None] | None = None

    def hold(self) -> None:
        """Handle no further requests of the peer until this answer is settled."""
        self.holds = True

    def settle(self, answer: Answer | Callable[[], Answer]) -> None:
        """Set the answer, or a function that creates it when it is about to be sent.

        A function saves memory while many answers wait. An empty answer sends nothing.
        """
        if self.answer is None:
            self.answer = answer
            if self._call is not None:
                self._call()

    def take(self) -> Answer:
        """Return the answer, creating it if it was set as a function."""
        return self.answer() if callable(self.answer) else self.answer or ()

    def fail(self, error: Exception) -> None:
        """Disconnect the peer instead of answering it."""
        self.failed = error
        self.settle(())

    def then(self, call: Callable[[], None]) -> None:
        """Register a callback for when the answer is settled."""
        self._call = call


class Room(Protocol):
    """Tells whether a peer takes more data; only the event loop may call it."""

    @property
    def is_full(self) -> bool:
        """Whether the send queue is full, so that pushes must stop until the peer reads."""

    def when_room(self, call: Callable[[], None]) -> None:
        """Call ``call`` once, soon after the send queue has room again."""


class Outbox(Room, Protocol):
    """A connection as its conversation sees it: to push data, and to close.

    Only the event loop may call it. Once the connection ends, nothing more is sent, and only the
    conversation's ``close`` is called.
    """

    @property
    def peer(self) -> str:
        """The peer's address, for log messages."""

    @property
    def is_tls(self) -> bool:
        """Whether the connection is encrypted."""

    @property
    def heard_ms(self) -> int:
        """When bytes of the peer last arrived, even of an incomplete frame (monotonic ms)."""

    def send(self, pieces: Answer) -> None:
        """Push data behind all queued data; pushes of one loop iteration share a write."""

    def close(self, reason: str = "") -> None:
        """Close without answering pending requests.

        A reason means a fault of the peer: it is logged, and counted in ``Traffic.cut_off``.
        """

    def end(self, farewell: Answer = (), reason: str = "") -> None:
        """Accept no more requests, answer pending ones, send ``farewell``, and close."""


@runtime_checkable
class AcknowledgedOutbox(Outbox, Protocol):
    """A connection that tells how much data has arrived at the peer's host."""

    @property
    def unacknowledged_bytes(self) -> int | None:
        """How many bytes were sent that the peer's TCP has not acknowledged; None if unknown."""


class Conversation(Protocol):
    """Handles one peer's requests for a head: gets complete frames, returns answers."""

    def frame_size(self, view: memoryview) -> int | None:
        """Return the size of the frame that begins here, None if more bytes are needed.

        May be called again for the same frame, always from its first byte, when more has arrived;
        an implementation that searches for the end may remember its position until ``handle``.
        Raises ProtocolError for a size over the limit, before memory is allocated for it.
        """

    def handle(self, frame: memoryview) -> Answer | Later:
        """Handle the request in a frame; the frame's memory is reused when this returns."""

    def close(self) -> None:
        """Release the peer's resources, as it has disconnected; called once."""


Converse = Callable[[Outbox], Conversation]
"""Creates the conversation for a newly connected peer."""


@runtime_checkable
class RunConversation(Conversation, Protocol):
    """A conversation that can handle several frames in one call."""

    def handle_run(self, view: memoryview) -> tuple[Answer | Later, int] | None:
        """Handle several leading requests together; return their answer and the bytes handled.

        None if that is not possible: then the first request is handled by ``handle``.
        """


@runtime_checkable
class TimedConversation(Conversation, Protocol):
    """A conversation with deadlines, such as heart-beats or a login timeout.

    ``deadline`` is called when the conversation begins, after requests were handled, after a push,
    and when the deadline has passed; so it must be cheap, and may change at any time.
    """

    def deadline(self) -> int | None:
        """Return when to call ``tick`` (monotonic ms); None for never."""

    def tick(self, now_ms: int) -> Answer:
        """Do what is due, such as sending a heart-beat; return data to send.

        Raises ProtocolError to disconnect the peer.
        """


@runtime_checkable
class DrainedConversation(Conversation, Protocol):
    """A conversation that sends a last message when the server stops."""

    def drain(self) -> Answer:
        """Return the last message; called when all requests are answered, or time has run out."""


@runtime_checkable
class WaitingConversation(Conversation, Protocol):
    """A conversation whose requests may wait for something other than the disk."""

    def stop_waiting(self) -> None:
        """Answer all waiting requests at once, as the peer has closed its side of the connection.

        Requests that arrived before may still be handled afterwards. May be called again.
        """
