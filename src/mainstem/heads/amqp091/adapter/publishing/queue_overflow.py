"""Tells whether queues with ``x-overflow=reject-publish`` or ``reject-publish-dlx`` are full.

How this works: a limit counts all waiting messages, also those that were appended but that the
queue cannot deliver yet, because they are not durable. The broker counts the bytes of those that
the queue can deliver; the bytes of the others are recorded here when they are appended.
"""

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from mainstem.broker.door import Door, Published, TopicEvents
from mainstem.heads.amqp091.adapter.queues.queues import DeclaredQueue


class _Unseen(NamedTuple):
    """Messages of one append, none of which the queue can deliver yet."""

    partition: int
    offset: int
    """The offset of the first message."""
    size: int


class FullQueues:
    """Tells whether queues that refuse messages are full; shared by all connections."""

    def __init__(self) -> None:
        self._unseen: dict[str, deque[_Unseen]] = {}
        """By topic: messages that were appended and that the queue cannot deliver yet; only for
        queues with a limit in bytes.
        """

    @property
    def is_counting(self) -> bool:
        """Whether there are queues with a limit in bytes, for which ``appended`` must be called."""
        return bool(self._unseen)

    def is_full(self, queue: DeclaredQueue, door: Door, size: int) -> bool:
        """Tell whether a queue has no space for a message of ``size`` bytes."""
        limits = queue.record.settings
        if limits.max_length is not None and _waiting(queue, door) >= limits.max_length:
            return True
        if limits.max_length_bytes is None:
            return False
        # Read before the visible messages are counted, so that no message is missed in between.
        unseen = self._unseen_bytes(queue, door)
        waiting = door.queues.waiting_bytes(*queue.place)
        return waiting + unseen + size > limits.max_length_bytes

    def appended(self, entries: Sequence[TopicEvents], published: Sequence[Published]) -> None:
        """Record messages that were just appended: their bytes count towards the limits."""
        for entry, done in zip(entries, published, strict=True):
            unseen = self._unseen.get(entry.topic)
            if unseen is not None:
                size = sum(len(each.value or b"") for each in entry.events)
                unseen.append(_Unseen(*done.position, size))

    def forget(self, topic: str) -> None:
        """Remove what was recorded for a topic whose queue was deleted."""
        self._unseen.pop(topic, None)

    def _unseen_bytes(self, queue: DeclaredQueue, door: Door) -> int:
        unseen = self._unseen.setdefault(queue.place[0], deque())
        if unseen:
            # Some queues deliver messages before they are durable.
            tails = {each.partition: each.tail for each in door.queues.show(*queue.place).windows}
            while unseen and unseen[0].offset < tails[unseen[0].partition]:
                unseen.popleft()
        return sum(each.size for each in unseen)


def _waiting(queue: DeclaredQueue, door: Door) -> int:
    """Return the number of waiting messages, including those the queue cannot deliver yet."""
    topic, name = queue.place
    return sum(
        door.bounds(topic, each.partition).end - each.next + each.waiting
        for each in door.queues.show(topic, name).windows
    )
