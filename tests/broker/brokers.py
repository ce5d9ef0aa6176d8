"""A broker on an in-memory log, with a manual clock."""

from collections.abc import Callable, Collection, Sequence
from typing import Self

from mainstem.broker.broker import Broker
from mainstem.broker.door import AppendedBatch, ProducerIdAndEpoch, Publishing
from mainstem.broker.groups.local.coordinator import HAND_OVER_MS
from mainstem.core.batch import batches
from mainstem.core.errors import MainstemError, StorageFull
from mainstem.core.event import Event
from mainstem.core.records import build, events
from mainstem.core.topic_settings import TopicSettings
from mainstem.log.commit.durable import Commit
from mainstem.log.memory import MemoryLog
from mainstem.log.port import (
    Appended,
    Batches,
    Bounds,
    Log,
    PartitionId,
    Slice,
    TimedOffset,
    WritableBatch,
)

NOW_MS = 1_700_000_000_000
"""What a log is given to append."""


class Clock:
    """A clock that moves only when a test moves it."""

    def __init__(self, now_ms: int = NOW_MS) -> None:
        self.now_ms = now_ms

    def __call__(self) -> int:
        return self.now_ms


def new_broker(
    log: Log | None = None, clock: Clock | None = None, hand_over_ms: int = HAND_OVER_MS
) -> Broker:
    """Open a broker; an existing log is replayed."""
    ids = iter(range(1, 1_000_000))
    return Broker(
        MemoryLog() if log is None else log,
        clock or Clock(),
        new_id=lambda: f"a{next(ids):031x}",
        hand_over_ms=hand_over_ms,
    )


def publish(broker: Broker, topic: str, *values: bytes, partition: int | None = None) -> None:
    """Publish one event per value."""
    broker.publish(topic, [Event(value) for value in values], partition).durable.wait(30)


def append(
    broker: Publishing,
    topic: str,
    partition: int,
    batch: WritableBatch,
    *,
    adds_partition: bool = False,
) -> AppendedBatch:
    """Append one record batch that nothing holds; raises the error if it is refused."""
    batches = ((partition, batch),)
    outcomes, held = broker.append_batches(topic, batches, adds_partition=adds_partition)
    assert held is None
    (outcome,) = outcomes
    if not isinstance(outcome, AppendedBatch):
        raise outcome
    return outcome


def read_all(broker: Broker, topic: str, partition: int = 0) -> list[Event]:
    """Return every event of a partition."""
    found: list[Event] = []
    start, tail = broker.bounds(topic, partition)[:2]
    offset = start
    while offset < tail:
        read = broker.read(topic, partition, offset, 1_000_000)
        for batch in batches(read.tobytes()):
            found += events(batch, topic=topic, partition=partition, from_offset=offset)
        offset = found[-1].offset + 1
    return found


def values(found: Sequence[Event]) -> list[bytes | None]:
    """Return only the values."""
    return [event.value for event in found]


class FullLog(MemoryLog):
    """A log that can be made full."""

    is_full = False

    def append(self, batches: Batches, *, together: bool = True, lazy: bool = False) -> Appended:
        """Append, if there is room."""
        if self.is_full:
            raise StorageFull("no space is left")
        return super().append(batches, together=together, lazy=lazy)


class LateLog:
    """A log whose appends become durable only when the test says so; it may be full, too."""

    def __init__(self) -> None:
        self._log = MemoryLog()
        self.late = False
        self.is_full = False
        self.appends = self.refused = 0
        self.commits: list[Commit] = []

    @property
    def written(self) -> Self:
        """The log itself: a test hides what it wants to hide."""
        return self

    def settle(self, error: MainstemError | None = None) -> None:
        """Make everything durable, or fail it."""
        for commit in self.commits:
            commit.settle(error)

    def append(self, batches: Batches, *, together: bool = True, lazy: bool = False) -> Appended:
        """Append, and promise durability."""
        if self.is_full:
            self.refused += 1
            raise StorageFull("no space is left")
        self.appends += 1
        appended = self._log.append(batches, together=together, lazy=lazy)
        if not self.late:
            return appended
        self.commits.append(Commit())
        return Appended(appended.offsets, self.commits[-1], appended.starts)

    def ensure(self, partition: PartitionId, topic: str, settings: TopicSettings) -> None:
        """Create the partition."""
        self._log.ensure(partition, topic, settings)

    def delete(self, partitions: Sequence[PartitionId]) -> None:
        """Delete partitions."""
        self._log.delete(partitions)

    def read(self, partition: PartitionId, offset: int, max_bytes: int) -> Slice:
        """Read."""
        return self._log.read(partition, offset, max_bytes)

    def bounds(self, partition: PartitionId) -> Bounds:
        """Return the bounds."""
        return self._log.bounds(partition)

    def offset_at(self, partition: PartitionId, timestamp_ms: int) -> TimedOffset | None:
        """Search by time."""
        return self._log.offset_at(partition, timestamp_ms)

    def watch(
        self, partition: PartitionId, offset: int, wake: Callable[[], None]
    ) -> Callable[[], None]:
        """Watch the tail."""
        return self._log.watch(partition, offset, wake)

    def cut(
        self, partition: PartitionId, *, start: int | None = None, end: int | None = None
    ) -> Bounds:
        """Cut."""
        return self._log.cut(partition, start=start, end=end)

    def thin(self, partition: PartitionId, before: int, but: Collection[int]) -> None:
        """Thin."""
        self._log.thin(partition, before, but)


def transactional_batch(
    who: ProducerIdAndEpoch, *values: bytes, sequence: int = 0, now_ms: int = 0
) -> bytearray:
    """Build a batch of events of a transaction; ``sequence`` is that of the first."""
    return build(
        [Event(value) for value in values],
        now_ms=now_ms,
        producer_id=who.producer_id,
        producer_epoch=who.epoch,
        base_sequence=sequence,
        transactional=True,
    )
