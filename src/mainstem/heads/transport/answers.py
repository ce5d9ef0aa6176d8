"""What one peer is owed: answers in the order of its requests, and pushes as they come.

How this works: an answer that is there, with none before it outstanding, goes to the send queue at
once. All others wait in the order of their requests, also those that come later (an append that
waits for the disk, a read that waits for events), and move to the send queue as far as they are
settled and the peer reads. A push does not wait for them.
"""

import asyncio
from collections import deque
from collections.abc import Callable

from mainstem.heads.conversation import Answer, Later
from mainstem.heads.transport.send_queue import SendQueue
from mainstem.heads.transport.traffic import Traffic

TURN_BYTES = 1024 * 1024
"""Answers in memory, or requests unanswered, after which a peer has to catch up."""
MAX_UNANSWERED = 512


class Answers:
    """Requests that are not answered, and what is on its way."""

    __slots__ = ("_held_by", "_settled", "_soon", "_unanswered_bytes", "queue", "unanswered")

    def __init__(
        self,
        transport: asyncio.Transport,
        traffic: Traffic,
        settled: Callable[[], None],
        soon: Callable[[], None],
    ) -> None:
        self.queue = SendQueue(transport, traffic)
        self._settled = settled
        """Called when an answer has come,"""
        self._soon = soon
        """or is there already, but may wait for its turn."""
        self.unanswered: deque[tuple[Later, int]] | None = None
        """Requests that are not answered, and their sizes; None while there are none."""
        self._unanswered_bytes = 0
        self._held_by: Later | None = None
        """A request before whose answer nothing more is taken from the peer."""

    def __bool__(self) -> bool:
        return bool(self.unanswered or self.queue)

    @property
    def is_full(self) -> bool:
        """Whether the peer must read first."""
        return self.queue.blocked or self.queue.held_bytes >= TURN_BYTES

    def must_catch_up(self) -> bool:
        """Tell whether nothing more is taken from the peer until it has read, or was answered."""
        return (
            self.queue.blocked
            or self.queue.held_bytes >= TURN_BYTES
            or self._held_by is not None
            or self._unanswered_bytes >= TURN_BYTES
            or (self.unanswered is not None and len(self.unanswered) >= MAX_UNANSWERED)
        )

    def has_next(self) -> bool:
        """Tell whether the next answer is there, and the peer has read enough of those before."""
        next_is_there = self.unanswered and self.unanswered[0][0].answer is not None
        return bool(next_is_there) and not self.is_full

    def add(self, answer: Answer | Later, size: int) -> None:
        """Queue the answer to a request of so many bytes."""
        if isinstance(answer, Later):
            if answer.answer is None:
                answer.then(self._settled)
            else:
                self._soon()
            if answer.holds:
                self._held_by = answer
        elif self.unanswered:
            ready = Later()
            ready.settle(answer)
            size = max(size, sum(len(each) for each in answer if isinstance(each, bytes)))
            answer = ready
        else:
            self.queue.add(answer)
            return
        if self.unanswered is None:
            self.unanswered = deque()
        self.unanswered.append((answer, size))
        self._unanswered_bytes += size

    def take_settled(self) -> None:
        """Move what is settled to the send queue; raises what an answer failed with."""
        unanswered = self.unanswered
        while unanswered and self.has_next():
            later, size = unanswered.popleft()
            self._unanswered_bytes -= size
            if later is self._held_by:
                self._held_by = None
            self.queue.add(later.take())
            if later.failed is not None:
                raise later.failed
        if not unanswered:
            self.unanswered = None

    def give_up(self) -> None:
        """Answer no more; what is on its way still leaves."""
        self.unanswered = None
        self._unanswered_bytes = 0
        self._held_by = None
