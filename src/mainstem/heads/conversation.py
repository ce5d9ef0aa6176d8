"""The shape every head has. Nothing in this module does I/O.

A head is a folder with the same files in every head; one that it does not need is absent:

``codec.py``    bytes to frames and back. Knows the protocol's grammar and nothing else.
``session.py``  one peer's conversation: what may be said when. No I/O, no broker; the time is told.
``adapter.py``  the protocol's words in terms of the broker's. The only file that knows both.
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


class Outbox(Protocol):
    """A connection as its conversation sees it: what is not an answer goes through here.

    Used in the thread of the event loop. Once the connection ends, nothing more is sent, and
    nothing is called any more but the conversation's ``close``.
    """

    @property
    def peer(self) -> str:
        """The peer's address, as the log names it."""

    @property
    def is_tls(self) -> bool:
        """Whether the connection is encrypted."""

    @property
    def heard_ms(self) -> int:
        """When bytes last came from the peer, also if they made no whole frame; monotonic."""

    @property
    def is_full(self) -> bool:
        """Whether the peer must read first; who pushes stops then."""

    def send(self, pieces: Answer) -> None:
        """Push: leaves after what was queued before, in one write with other pushes of a turn."""

    def when_room(self, call: Callable[[], None]) -> None:
        """Call once, soon after the outbox is not full any more."""

    def close(self, reason: str = "") -> None:
        """Close at once, requests unanswered; a reason is logged, and counted as cut off."""

    def end(self, farewell: Answer = (), reason: str = "") -> None:
        """Take no more requests, answer those before, say these last words, and close."""


class Conversation(Protocol):
    """One peer's talk with a head: whole frames in, answers out."""

    def frame_size(self, view: memoryview) -> int | None:
        """Return the size of the frame that begins here, None if more bytes are needed to tell.

        May be asked again about the same frame, always from its first byte, when more of it has
        come: who looks for an end remembers how far it has looked, and begins anew in ``handle``.
        Raises ProtocolError for a size that is refused, before anything of it is kept.
        """

    def handle(self, frame: memoryview) -> Answer | Later:
        """Carry out a request; the frame is gone when this returns."""

    def close(self) -> None:
        """Let go of what was held for the peer, who has gone; called once."""


Converse = Callable[[Outbox], Conversation]
"""Begins a conversation with a peer that has connected."""


@runtime_checkable
class RunConversation(Conversation, Protocol):
    """A conversation that is quicker with many frames at once."""

    def handle_run(self, view: memoryview) -> tuple[Answer | Later, int] | None:
        """Carry out the requests that begin here and are quicker together; return their size, too.

        None if there are none: the first is then handled by itself.
        """


@runtime_checkable
class TimedConversation(Conversation, Protocol):
    """A conversation in which something is due at a time: heart-beats, a peer that says nothing.

    The deadline is asked for when the conversation begins, after every turn of handling, after a
    push, and when the time has come; so it is cheap to tell, and may change at any time.
    """

    def deadline(self) -> int | None:
        """Return when to be called, in monotonic milliseconds; None for never."""

    def tick(self, now_ms: int) -> Answer:
        """Do what is due and return what to send; ProtocolError if the peer is to be cut off."""


@runtime_checkable
class DrainedConversation(Conversation, Protocol):
    """A conversation that has last words when the server stops."""

    def drain(self) -> Answer:
        """Return them; called when nothing is unanswered, or there is no time left to wait."""


@runtime_checkable
class WaitingConversation(Conversation, Protocol):
    """A conversation whose answers may wait for something other than the disk."""

    def stop_waiting(self) -> None:
        """Answer what waits: the peer has sent all it will, and may have gone.

        What it sent before may still be handled. May be called again.
        """
