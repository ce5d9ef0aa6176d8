"""Sends the answers to one peer in the order of its requests, and pushes between them.

How this works: an answer goes to the send queue at once if it is settled and no earlier answer is
pending. Pending answers (an append that waits for the disk, a fetch that waits for events) and all
answers behind them wait; they move to the send queue in order, as they are settled and the peer
reads. Pushes, data that answers no request, do not wait for answers.
"""

import asyncio
from collections import deque
from collections.abc import Callable

from mainstem.heads.conversation import Answer, Later
from mainstem.heads.transport.send_queue import SendQueue
from mainstem.heads.transport.traffic import Traffic

TURN_BYTES = 1024 * 1024
"""When queued answers, or unanswered requests, reach this size in bytes, the peer is no longer read
from.
"""
MAX_UNANSWERED = 512


class Answers:
    """The unanswered requests and the send queue of one connection."""

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
        """Called when a pending answer is settled."""
        self._soon = soon
        """Called when an answer is queued that is already settled."""
        self.unanswered: deque[tuple[Later, int]] | None = None
        """The answers not sent yet, with the sizes of their requests; None while there are none."""
        self._unanswered_bytes = 0
        self._held_by: Later | None = None
        """The answer before which no later request is handled, None if there is none."""

    def __bool__(self) -> bool:
        return bool(self.unanswered or self.queue)

    @property
    def is_full(self) -> bool:
        """Whether the send queue accepts no more data until the peer reads."""
        return self.queue.blocked or self.queue.held_bytes >= TURN_BYTES

    def must_catch_up(self) -> bool:
        """Tell whether no further request may be handled until the peer reads or gets answers."""
        return (
            self.queue.blocked
            or self.queue.held_bytes >= TURN_BYTES
            or self._held_by is not None
            or self._unanswered_bytes >= TURN_BYTES
            or (self.unanswered is not None and len(self.unanswered) >= MAX_UNANSWERED)
        )

    def has_next(self) -> bool:
        """Tell whether the next answer is settled, and the send queue has room for it."""
        next_is_there = self.unanswered and self.unanswered[0][0].answer is not None
        return bool(next_is_there) and not self.is_full

    def add(self, answer: Answer | Later, size: int) -> None:
        """Queue the answer to a request of ``size`` bytes, or send it if no answer is pending."""
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
        """Move settled answers to the send queue, in order; raises the error of a failed answer."""
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
        """Drop the unanswered requests; data in the send queue is still sent."""
        self.unanswered = None
        self._unanswered_bytes = 0
        self._held_by = None
