"""The answers to one peer, in the order of its requests; pushes are sent between them.

How this works: an answer goes to the send queue at once if it is settled and no earlier one is
pending. Otherwise it waits: pending answers (an append that waits for the disk, a fetch that waits
for events) and all behind them move to the send queue in order, as they are settled and the peer
reads. Pushes do not wait for answers.
"""

import asyncio
from collections import deque
from collections.abc import Callable

from mainstem.heads.conversation import Answer, Later
from mainstem.heads.transport.send_queue import SendQueue
from mainstem.heads.transport.traffic import Traffic

TURN_BYTES = 1024 * 1024
"""Bytes of queued answers, or of unanswered requests, at which the peer is no longer read from."""
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
        """Called when a pending answer becomes settled."""
        self._soon = soon
        """Called when a settled answer is waiting behind an earlier one."""
        self.unanswered: deque[tuple[Later, int]] | None = None
        """The unanswered requests with their sizes; None while there are none."""
        self._unanswered_bytes = 0
        self._held_by: Later | None = None
        """The request that holds back all later ones until it is answered."""

    def __bool__(self) -> bool:
        return bool(self.unanswered or self.queue)

    @property
    def is_full(self) -> bool:
        """Whether the send queue is full until the peer reads."""
        return self.queue.blocked or self.queue.held_bytes >= TURN_BYTES

    def must_catch_up(self) -> bool:
        """Tell whether to handle no further requests until the peer reads or is answered."""
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
        """Queue the answer to a request of ``size`` bytes."""
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
        """Move settled answers to the send queue; raises the error of a failed one."""
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
        """Drop the unanswered requests; queued data is still sent."""
        self.unanswered = None
        self._unanswered_bytes = 0
        self._held_by = None
