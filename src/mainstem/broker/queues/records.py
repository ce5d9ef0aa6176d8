"""A queue's settings, and the records that store its state.

A queue belongs to one topic and covers all its partitions. In each partition it has a window: all
events below ``next`` are settled, except those in ``left``, which are in flight or must be
redelivered. Events removed by compaction or by an aborted transaction are simply not in ``left``,
so offsets need not be dense.
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
    """The order in which events are delivered."""

    NONE = "none"
    """By offset, except for redeliveries."""
    KEY = "key"
    """By offset, but an event is held back until all earlier events of its key are settled."""
    PRIORITY = "priority"
    """One partition per priority: events of higher partitions come first."""


class QueueSettings(msgspec.Struct, frozen=True, kw_only=True):
    """A queue's settings, chosen at creation."""

    lock_ms: int = 30_000
    """How long a delivery stays locked to its consumer; then it goes to another consumer."""
    max_deliveries: int | None = 5
    """Failed deliveries after which an event becomes a dead letter; none: it is retried for
    ever.
    """
    dead_letters: bool = True
    """Whether failed events go to the topic ``<topic>.dead``; otherwise they are dropped."""
    max_unsettled: int = 2_000
    """Limit per partition on events in flight, to be redelivered, or waiting for their key."""
    order: Order = Order.NONE
    uncommitted: bool = False
    """Whether events of open transactions are delivered before their commit or abort."""
    unsynced: bool = False
    """Whether events are delivered as soon as they are written, before they are durable: a crash
    may lose an event that was delivered already, and its settlement.
    """
    ttl_ms: int | None = None
    """Time to live: an event not delivered this long after it was published expires; none:
    never.
    """
    ttl_header: str = ""
    """Name of a header with the event's own time to live in milliseconds; the lower of the two
    applies.
    """
    max_length: int | None = None
    """Maximum number of waiting events; the oldest ones beyond it become dead letters."""
    max_bytes: int | None = None
    """Maximum bytes of waiting events; the oldest ones beyond it become dead letters."""
    dead_letter_route: str = ""
    """Where dead letters go instead of ``<topic>.dead``: a name that a protocol head resolves (for
    AMQP, exchange and routing key).
    """

    @property
    def is_limited(self) -> bool:
        """Whether the settings can expire or drop events that were never delivered."""
        limits = (self.ttl_ms, self.max_length, self.max_bytes)
        return bool(self.ttl_header) or limits != (None, None, None)

    @property
    def has_length(self) -> bool:
        """Whether the number or bytes of waiting events are limited."""
        return (self.max_length, self.max_bytes) != (None, None)

    def check(self) -> None:
        """Raise InvalidSetting for values out of range."""
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
    """The record key of a queue's settings: its name and topic."""

    name: str
    topic_id: str


class WindowKey(msgspec.Struct, frozen=True, array_like=True, tag="window"):
    """The record key of a queue's state in one partition."""

    name: str
    topic_id: str
    partition: int

    @property
    def at(self) -> PartitionId:
        """The partition."""
        return PartitionId(self.topic_id, self.partition)


class ChangeKey(msgspec.Struct, frozen=True, array_like=True, tag="change"):
    """The record key of one change to a queue's state in a partition.

    Changes are numbered from 0 after each record of the whole state, which replaces all earlier
    records.
    """

    name: str
    topic_id: str
    partition: int
    number: int


class RunKey(msgspec.Struct, frozen=True, array_like=True, tag="run"):
    """The key of the record that tells whether a process uses queues, to detect a crash."""


class QueueSet(msgspec.Struct, frozen=True, tag_field="kind", tag="subscription/1"):
    """The record of a queue: it exists, with these settings."""

    settings: QueueSettings
    created_ms: int


class UnsettledRange(NamedTuple):
    """Consecutive unsettled events with the same delivery count and due time.

    For events in flight the count includes the current delivery.
    """

    first: int
    last: int
    deliveries: int
    due_ms: int = 0


class WindowSet(msgspec.Struct, frozen=True, tag_field="kind", tag="window/1", omit_defaults=True):
    """The record of a queue's whole state in one partition (its window)."""

    next: int
    left: tuple[UnsettledRange, ...] = ()
    """Unsettled events below ``next``, in offset order and without overlap."""
    missed: int = 0
    """Number of offsets deleted before they were settled."""

    @property
    def start(self) -> int:
        """First unsettled offset: everything below is settled."""
        return self.left[0].first if self.left else self.next


class WindowChange(
    msgspec.Struct, frozen=True, tag_field="kind", tag="window-change/1", omit_defaults=True
):
    """A change of a queue's state in one partition; stored if the whole state would be larger."""

    next: int
    left: tuple[UnsettledRange, ...] = ()
    """Unsettled events that are new or whose delivery count or due time changed."""
    settled: tuple[tuple[int, int], ...] = ()
    """First and last offset of each run of events that have been settled."""
    missed: int = 0

    def applied(self, to: WindowSet) -> WindowSet:
        """Return the queue's state in the partition: ``to``, with this change applied."""
        left = {at: each for each in to.left for at in range(each.first, each.last + 1)}
        for first, last in self.settled:
            for offset in range(first, last + 1):
                left.pop(offset, None)
        for each in self.left:
            left |= dict.fromkeys(range(each.first, each.last + 1), each)
        counted = ((at, left[at].deliveries, left[at].due_ms) for at in sorted(left))
        return WindowSet(self.next, runs(counted), self.missed)


class RunSet(msgspec.Struct, frozen=True, tag_field="kind", tag="run/1", omit_defaults=True):
    """Tells whether a process uses queues.

    If the next start finds that one does, that process has crashed.
    """

    is_running: bool
    unsure: tuple[QueueKey, ...] = ()
    """Queues with unsettled events that may have been in flight at an earlier crash."""


Key = QueueKey | WindowKey | ChangeKey | RunKey
Value = QueueSet | WindowSet | WindowChange | RunSet


def runs(counted: Iterable[tuple[int, int, int]]) -> tuple[UnsettledRange, ...]:
    """Group consecutive offsets with equal delivery counts and due times."""
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
    """One record of the queues' journal."""

    key: Key
    value: Value | None


class Delivery(msgspec.Struct, frozen=True):
    """One event handed to one owner."""

    event: Event
    count: int
    """How often the event was delivered, this delivery included."""
    lease: int
    """Number that distinguishes this delivery from other deliveries of the same event."""
    until_ms: int | None
    """When the lock expires unless renewed, on the broker's monotonic clock.

    None if the delivery has no lock: its owner keeps it until it settles it or leaves.
    """
    redelivered: bool = False
    """Whether the event may have been delivered before, even if that delivery did not count."""


class AcquiredRecords(NamedTuple):
    """Consecutive offsets with the same delivery count, including this delivery."""

    first: int
    last: int
    deliveries: int


class AcquiredBatches(NamedTuple):
    """Events of a partition delivered to one owner as record batches."""

    partition: int
    batches: list[memoryview]
    """Whole record batches in offset order; events whose offset is not in ``runs`` are not
    delivered.
    """
    runs: list[AcquiredRecords]
    """The delivered offsets, in order."""


class Outcome(StrEnum):
    """How an owner settles a delivery or gives it back."""

    ACK = "ack"
    """Processed: the event is never redelivered."""
    NACK = "nack"
    """Failed: redelivered, or a dead letter after the last delivery allowed."""
    RELEASE = "release"
    """Not processed: redelivered, and this delivery does not count."""
    REJECT = "reject"
    """Can never be processed: becomes a dead letter at once."""
    RENEW = "renew"
    """Still in progress: the owner keeps it for another ``lock_ms`` from now."""
    ABSENT = "absent"
    """The owner found no event at this offset (compaction): settled, even if it is not in flight.
    """


class Cause(StrEnum):
    """Why an event became a dead letter."""

    REJECTED = "rejected"
    DELIVERIES = "delivery_limit"
    """The maximum number of deliveries was reached."""
    EXPIRED = "expired"
    """Its time to live has passed."""
    LENGTH = "maxlen"
    """The queue's limit of events or bytes was exceeded."""


class Settlement(NamedTuple):
    """An owner's outcome for one delivery."""

    partition: int
    offset: int
    outcome: Outcome = Outcome.ACK
    lease: int | None = None
    """The delivery's lease; None matches any delivery of the event that is in flight with the
    owner.
    """
    delay_ms: int = 0
    """After how many ms a nacked event may be redelivered."""
    reason: str = ""
    """Why the event failed; stored in the header of a dead letter."""
