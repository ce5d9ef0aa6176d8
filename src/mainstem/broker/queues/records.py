"""What a queue is: its settings, and the records in which its state is written down.

A queue belongs to one topic and spans all its partitions. In each it has a window: all
events below ``next`` are settled, except those in ``left``, which are out with a consumer or have
to be delivered again. Events that compaction or an aborted transaction took away are simply not
in ``left``, so offsets need not be dense.
"""

from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple

import msgspec

from mainstem.core.errors import InvalidSetting
from mainstem.core.event import Event
from mainstem.log.port import PartitionId

MAX_LOCK_MS = 86_400_000
MAX_DELIVERIES = 1_000_000
MAX_TTL_MS = 10 * 365 * 86_400_000
MAX_LENGTH = 2**53


class Order(StrEnum):
    """In which order events are delivered."""

    NONE = "none"
    """By offset, as far as redelivery allows."""
    KEY = "key"
    """An event waits until all earlier ones of its key are settled."""
    PRIORITY = "priority"
    """A partition per priority: what is in a higher one comes first."""


class QueueSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What a queue promises, chosen when it is created."""

    lock_ms: int = 30_000
    """How long a consumer may hold a delivery before it goes to another."""
    max_deliveries: int | None = 5
    """After this many failed deliveries an event becomes a dead letter; none tries for ever."""
    dead_letters: bool = True
    """Whether such events go to the topic ``<topic>.dead``; else they are settled and gone."""
    max_unsettled: int = 2_000
    """Events per partition that are out, wait to be delivered again, or wait for their key."""
    order: Order = Order.NONE
    uncommitted: bool = False
    """Whether events of transactions are delivered before it is known whether these commit."""
    ttl_ms: int | None = None
    """Events that were not delivered this long after they were published are dead; none: never."""
    ttl_header: str = ""
    """A header with an event's own such time, in milliseconds; the lower of both counts."""
    max_length: int | None = None
    """Events that may wait; the oldest ones beyond are dead."""
    max_bytes: int | None = None
    """Bytes of events that may wait; the oldest ones beyond are dead."""
    dead_letter_route: str = ""
    """Where dead events go instead of ``<topic>.dead``: a name that a head's router knows."""

    @property
    def is_limited(self) -> bool:
        """Whether events may be dead without having been delivered."""
        limits = (self.ttl_ms, self.max_length, self.max_bytes)
        return bool(self.ttl_header) or limits != (None, None, None)

    @property
    def has_length(self) -> bool:
        """Whether it is limited how much may wait."""
        return (self.max_length, self.max_bytes) != (None, None)

    def check(self) -> None:
        """Refuse values that mean nothing."""
        for name, value, least, most in (
            ("lock_ms", self.lock_ms, 1, MAX_LOCK_MS),
            ("max_deliveries", self.max_deliveries, 1, MAX_DELIVERIES),
            ("max_unsettled", self.max_unsettled, 1, 100_000),
            ("ttl_ms", self.ttl_ms, 0, MAX_TTL_MS),
            ("max_length", self.max_length, 0, MAX_LENGTH),
            ("max_bytes", self.max_bytes, 0, MAX_LENGTH),
        ):
            if value is not None and not least <= value <= most:
                raise InvalidSetting(f"{name} must be {least} to {most}, not {value}")


class QueueKey(msgspec.Struct, frozen=True, array_like=True, tag="subscription"):
    """What compaction keeps the latest of: a queue's name on a topic."""

    name: str
    topic_id: str


class WindowKey(msgspec.Struct, frozen=True, array_like=True, tag="window"):
    """What compaction keeps the latest of: a queue's window on a partition."""

    name: str
    topic_id: str
    partition: int

    @property
    def at(self) -> PartitionId:
        """The partition."""
        return PartitionId(self.topic_id, self.partition)


class ChangeKey(msgspec.Struct, frozen=True, array_like=True, tag="change"):
    """What compaction keeps the latest of: one of the changes since a window was written whole.

    Changes are numbered from 0 after each whole window, which takes the place of all before it.
    """

    name: str
    topic_id: str
    partition: int
    number: int


class QueueSet(msgspec.Struct, frozen=True, tag_field="kind", tag="subscription/1"):
    """The queue exists, with these settings."""

    settings: QueueSettings
    created_ms: int


class UnsettledRange(NamedTuple):
    """Neighbouring events that are not settled: how often each was delivered, and when it is due.

    Those that are out count the delivery that is under way.
    """

    first: int
    last: int
    deliveries: int
    due_ms: int = 0


class WindowSet(msgspec.Struct, frozen=True, tag_field="kind", tag="window/1", omit_defaults=True):
    """How far a queue has got in a partition."""

    next: int
    left: tuple[UnsettledRange, ...] = ()
    """By offset, without overlap, all below ``next``."""
    missed: int = 0
    """Offsets that were deleted before they were settled."""

    @property
    def start(self) -> int:
        """Everything below is settled."""
        return self.left[0].first if self.left else self.next


class WindowChange(
    msgspec.Struct, frozen=True, tag_field="kind", tag="window-change/1", omit_defaults=True
):
    """What has changed in a window since it was last written: where there is much, this is less."""

    next: int
    left: tuple[UnsettledRange, ...] = ()
    """Events that are not settled, and were not known before or are otherwise now."""
    settled: tuple[tuple[int, int], ...] = ()
    """First and last of neighbouring offsets that were left, and are settled."""
    missed: int = 0

    def applied(self, to: WindowSet) -> WindowSet:
        """Return the window as it is after this change."""
        left = {at: each for each in to.left for at in range(each.first, each.last + 1)}
        for first, last in self.settled:
            for offset in range(first, last + 1):
                left.pop(offset, None)
        for each in self.left:
            left |= dict.fromkeys(range(each.first, each.last + 1), each)
        counted = ((at, left[at].deliveries, left[at].due_ms) for at in sorted(left))
        return WindowSet(self.next, runs(counted), self.missed)


Key = QueueKey | WindowKey | ChangeKey
Value = QueueSet | WindowSet | WindowChange


def runs(counted: Iterable[tuple[int, int, int]]) -> tuple[UnsettledRange, ...]:
    """Return offsets, with deliveries and when they are due, as runs of neighbours alike."""
    found: list[UnsettledRange] = []
    first, last, alike = -1, -2, (0, 0)
    for offset, *rest in counted:
        if offset == last + 1 and alike == tuple(rest):
            last = offset
            continue
        if first >= 0:
            found.append(UnsettledRange(first, last, *alike))
        first = last = offset
        alike = (rest[0], rest[1])
    if first >= 0:
        found.append(UnsettledRange(first, last, *alike))
    return tuple(found)


class QueueChange(NamedTuple):
    """One record of the fold."""

    key: Key
    value: Value | None


class Delivery(msgspec.Struct, frozen=True):
    """One event handed to one owner."""

    event: Event
    count: int
    """How often the event has been delivered, this time included."""
    lease: int
    """Tells this delivery from all others of the same event."""
    until_ms: int | None
    """When it goes to another owner, on the broker's monotonic clock, unless it is renewed.

    None if its owner keeps it until it settles it or leaves.
    """
    redelivered: bool = False
    """Whether it may have been handed out before, also if that did not count as a delivery."""


class AcquiredRecords(NamedTuple):
    """Neighbouring offsets that were delivered equally often, this time included."""

    first: int
    last: int
    deliveries: int


class AcquiredBatches(NamedTuple):
    """Events of a partition handed to one owner as they are stored."""

    partition: int
    batches: list[memoryview]
    """Whole record batches, by offset; what else is in them is not delivered."""
    runs: list[AcquiredRecords]
    """What is delivered, by offset."""


class Outcome(StrEnum):
    """How an owner settles a delivery, or gives it back."""

    ACK = "ack"
    """Done: it never comes again."""
    NACK = "nack"
    """Failed: it comes again, or becomes a dead letter if that was the last delivery allowed."""
    RELEASE = "release"
    """Not tried: it comes again, and this delivery does not count."""
    REJECT = "reject"
    """Will never work: a dead letter at once."""
    RENEW = "renew"
    """Not finished yet: its owner keeps it for another ``lock_ms`` from now."""
    ABSENT = "absent"
    """Its owner found no event there: done, and no mistake if it is not out."""


class Cause(StrEnum):
    """Why an event is dead."""

    REJECTED = "rejected"
    DELIVERIES = "delivery_limit"
    """It was delivered too often."""
    EXPIRED = "expired"
    """It waited for too long."""
    LENGTH = "maxlen"
    """Too many events waited, or too large ones."""


class Settlement(NamedTuple):
    """What an owner says of one delivery."""

    partition: int
    offset: int
    outcome: Outcome = Outcome.ACK
    lease: int | None = None
    """None: whichever delivery of the event is out with the owner."""
    delay_ms: int = 0
    """How long a nacked event waits before it comes again."""
    reason: str = ""
    """Why, for the dead letter."""
