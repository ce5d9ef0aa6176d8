"""What ``stem.queue`` and ``stem.queues`` give: the interface of queues, and what is known of them.

A queue is a fine subscription as its consumers see it: they share the events of a topic one by one,
and each delivery is settled once.
"""

from collections.abc import Iterable, Iterator, Sequence
from types import TracebackType
from typing import Literal, Protocol, Self

import msgspec

from mainstem.core.event import Event, Position

Order = Literal["none", "key"]


class QueuePartition(msgspec.Struct, frozen=True):
    """How a queue stands in one partition of its topic."""

    partition: int
    start: int
    """Everything below is settled."""
    next: int
    """Nothing from here on has been delivered."""
    tail: int
    out: int
    waiting: int
    """Events to be delivered again, or waiting for an earlier one of their key."""
    missed: int
    """Events that were deleted before they were settled."""


class QueueInfo(msgspec.Struct, frozen=True):
    """A queue: its settings, who works on it, and how it stands."""

    topic: str
    name: str
    lock_s: float
    max_deliveries: int
    """0: for ever."""
    order: Order
    consumers: dict[str, int]
    """How many events are out with each consumer that has any."""
    partitions: tuple[QueuePartition, ...]

    @property
    def ready(self) -> int:
        """Events that are not settled and not out (fewer, if the topic is compacted)."""
        return sum(max(0, each.tail - each.next) + each.waiting for each in self.partitions)

    @property
    def out(self) -> int:
        """Events that are out with consumers."""
        return sum(each.out for each in self.partitions)

    @property
    def missed(self) -> int:
        """Events that were deleted before they were settled."""
        return sum(each.missed for each in self.partitions)


class QueuedEvent(msgspec.Struct, frozen=True):
    """An event that is not settled, as ``peek`` shows it."""

    event: Event
    deliveries: int
    """How often it was delivered."""
    consumer: str | None
    """Who has it now."""


class Delivery(Protocol):
    """One event handed to one consumer; ``with delivery as event`` acks it, or nacks on an error.

    A settled delivery cannot be settled again: StaleDelivery, as after ``lock_s`` seconds, when it
    may have gone to another consumer.
    """

    @property
    def event(self) -> Event:
        """What was published."""

    @property
    def count(self) -> int:
        """How often the event has been delivered, this time included."""

    def ack(self) -> None:
        """Say that it is done: it never comes again; durable on return."""

    def nack(self, *, delay_s: float = 0.0, reason: str = "") -> None:
        """Say that it failed: it comes again, perhaps after a delay, or becomes a dead letter."""

    def release(self) -> None:
        """Give it back untried: this delivery does not count."""

    def reject(self, reason: str = "") -> None:
        """Say that it will never work: a dead letter at once."""

    def renew(self) -> None:
        """Keep it for another ``lock_s`` seconds from now."""

    def __enter__(self) -> Event: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...


class Queue(Protocol):
    """Deliveries as they come; an iterator that can be closed, also from another thread."""

    def __iter__(self) -> Iterator[Delivery]:
        """Iterate."""

    def __next__(self) -> Delivery:
        """Return the next delivery; StopIteration once closed, or if it does not follow."""

    def poll(self, timeout: float | None = None) -> Delivery | None:
        """Return the next delivery, or None if none came in ``timeout`` seconds."""

    def poll_many(self, limit: int = 100, timeout: float | None = None) -> Sequence[Delivery]:
        """Return the deliveries that can be had, at most ``limit``, waiting for the first."""

    def ack_many(self, deliveries: Iterable[Delivery]) -> None:
        """Ack deliveries of this queue object in one write; durable on return.

        Raises StaleDelivery if one of them is not out any more; the others are acked all the same.
        Raises InvalidSetting if one was delivered to another consumer; none is acked then.
        """

    def close(self) -> None:
        """Give back what was not settled; it comes again at once, and this does not count."""

    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...


class Queues(Protocol):
    """What can be done with queues as a whole."""

    def list(self) -> tuple[QueueInfo, ...]:
        """Return every queue, by topic and name."""

    def show(self, topic: str, name: str) -> QueueInfo:
        """Return one queue."""

    def peek(
        self, topic: str, name: str, limit: int = 10, *, after: Position | None = None
    ) -> tuple[QueuedEvent, ...]:
        """Return the first events that are not settled, and take none.

        ``after``: go on after this one, to look at many in pieces.
        """

    def delete(self, topic: str, name: str) -> None:
        """Forget a queue; the events stay in the topic."""
