"""State of transactions: replayed from ``__mainstem_transactions``.

How this works: a transactional id has one producer at a time. A new producer under that id gets a
higher epoch, which fences the previous one. A transaction begins with the first partition or group
that is added, and ends by commit, abort or timeout:

    Empty ── first partition or group ──▶ Ongoing ── commit ──▶ CompleteCommit
      ▲                                    ▲    └─── abort ───▶ CompleteAbort
      └── a new producer begins ───────────┴──── first partition or group ────┘

Each added partition (with a lower bound for the offset of its first event), each added group and
each offset to commit is stored. The append that ends the transaction deletes all of these records
and holds all markers, so no crash can leave a transaction half committed. For an aborted
transaction a span per partition is kept, so that consumers can skip its events, until the log no
longer holds them.

The first offset of a span may be lower than that of the first event, as other producers append at
the same time; but a span never covers an earlier transaction of the same producer.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import NamedTuple

import msgspec

from mainstem.broker.fold import Fold
from mainstem.broker.groups.cursors import Cursor
from mainstem.log.port import PartitionId


class TransactionPhase(StrEnum):
    """The state of a transaction, by Kafka's names."""

    EMPTY = "Empty"
    ONGOING = "Ongoing"
    COMMITTED = "CompleteCommit"
    ABORTED = "CompleteAbort"


class TransactionKey(msgspec.Struct, frozen=True, array_like=True, tag="transaction"):
    """The record's key for a transactional id."""

    id: str


class AddedPartitionKey(msgspec.Struct, frozen=True, array_like=True, tag="part"):
    """The record's key for a partition that was added to a transaction."""

    id: str
    topic_id: str
    partition: int


class AddedGroupKey(msgspec.Struct, frozen=True, array_like=True, tag="enlisted"):
    """The record's key for a group for which a transaction may commit offsets."""

    id: str
    group: str


class PendingKey(msgspec.Struct, frozen=True, array_like=True, tag="pending"):
    """The record's key for an offset that a transaction commits for a group in a partition."""

    id: str
    group: str
    topic_id: str
    partition: int


class AbortedKey(msgspec.Struct, frozen=True, array_like=True, tag="aborted"):
    """The record's key for an aborted transaction in a partition."""

    topic_id: str
    partition: int
    last_offset: int


class Transaction(
    msgspec.Struct, frozen=True, tag_field="kind", tag="transaction/1", omit_defaults=True
):
    """The record's value for a transactional id: its producer, and its latest transaction."""

    producer_id: int
    epoch: int
    phase: TransactionPhase
    timeout_ms: int
    changed_ms: int
    started_ms: int = -1
    last_epoch: int = -1
    """The previous epoch, if the producer itself asked for a new one, to recognise retries."""
    previous_id: int = -1
    """The previous producer id, if its epochs were used up."""
    is_bumped: bool = False
    """Whether the end of the transaction bumped the epoch (KIP-890)."""


class AddedPartition(
    msgspec.Struct, frozen=True, tag_field="kind", tag="part/1", omit_defaults=True
):
    """The record's value for an added partition: producer, and least offset of its events."""

    producer_id: int
    first_offset: int = -1


class AddedGroup(msgspec.Struct, frozen=True, tag_field="kind", tag="enlisted/1"):
    """The record's value for an added group."""


class Aborted(msgspec.Struct, frozen=True, tag_field="kind", tag="aborted/1"):
    """The record's value for an aborted transaction: producer, and its first offset."""

    producer_id: int
    first_offset: int
    stable: int
    """The last stable offset at the abort: later transactions have no events before it."""


TransactionRecordKey = TransactionKey | AddedPartitionKey | AddedGroupKey | PendingKey | AbortedKey
TransactionRecordValue = Transaction | AddedPartition | AddedGroup | Cursor | Aborted


class TransactionChange(NamedTuple):
    """One record of the internal topic: a key, and its new value (None: deleted)."""

    key: TransactionRecordKey
    value: TransactionRecordValue | None


class AbortedSpan(NamedTuple):
    """The aborted events of a producer in a partition, up to its marker."""

    last_offset: int
    first_offset: int
    producer_id: int
    stable: int


Move = tuple[str, PartitionId]
"""Where a transaction commits an offset: group and partition."""


class TransactionFold(Fold):
    """All transactional ids, with the partitions, groups and offsets of their transactions."""

    def __init__(self) -> None:
        self.transactions: dict[str, Transaction] = {}
        self.partitions: dict[str, dict[PartitionId, AddedPartition]] = {}
        """The partitions of each ongoing transaction."""
        self.groups: dict[str, set[str]] = {}
        """The groups of each ongoing transaction."""
        self.pending: dict[str, dict[Move, Cursor]] = {}
        """The offsets that each ongoing transaction commits, by group and partition."""
        self.open: dict[PartitionId, dict[int, int]] = {}
        """The first offset of each producer's ongoing transaction, by partition."""
        self._aborted: dict[PartitionId, list[AbortedSpan]] = {}
        """Aborted transactions by partition, in the order of their markers."""
        self._ids: dict[int, str] = {}
        self._unstable: dict[Move, int] = {}
        """The number of ongoing transactions that commit an offset, by group and partition."""

    def id_of(self, producer_id: int) -> str | None:
        """Return the transactional id of a producer id, even of one whose epochs are used up."""
        return self._ids.get(producer_id)

    def is_pending(self, group: str, partition: PartitionId) -> bool:
        """Tell whether an ongoing transaction will commit an offset of a group in a partition."""
        return (group, partition) in self._unstable

    def touched(self, transactional_id: str) -> Iterator[TransactionChange]:
        """Return the changes that remove an ended transaction's partitions, groups and offsets."""
        for partition in self.partitions.get(transactional_id, ()):
            yield TransactionChange(AddedPartitionKey(transactional_id, *partition), None)
        for group in sorted(self.groups.get(transactional_id, ())):
            yield TransactionChange(AddedGroupKey(transactional_id, group), None)
        for group, partition in self.pending.get(transactional_id, ()):
            yield TransactionChange(PendingKey(transactional_id, group, *partition), None)

    def aborted(self, partition: PartitionId, start: int, end: int) -> tuple[AbortedSpan, ...]:
        """Return a partition's aborted transactions with events in ``start`` to before ``end``."""
        spans = self._aborted.get(partition, [])
        found: list[AbortedSpan] = []
        for at in range(bisect_right(spans, start, key=_last_offset), len(spans)):
            if spans[at].first_offset < end:
                found.append(spans[at])
            if spans[at].stable >= end:
                break
        return tuple(sorted(found, key=lambda span: span.first_offset))

    def has_aborted(self, partition: PartitionId) -> bool:
        """Tell whether the partition holds events of aborted transactions."""
        return partition in self._aborted

    def with_aborted(self) -> list[PartitionId]:
        """Return the partitions that hold events of aborted transactions."""
        return list(self._aborted)

    def forget_aborted(
        self, partition: PartitionId, start: int, end: int
    ) -> list[TransactionChange]:
        """Return the changes that delete aborted transactions outside the log's offsets.

        The log begins at ``start`` and ends before ``end``.
        """
        return [
            TransactionChange(AbortedKey(*partition, span.last_offset), None)
            for span in self._aborted.get(partition, ())
            if span.last_offset <= start or span.first_offset >= end
        ]

    def forget_partitions(self, partitions: Iterable[PartitionId]) -> list[TransactionChange]:
        """Return the changes that delete all records about deleted partitions."""
        gone = set(partitions)
        changes = [change for each in gone for change in self.forget_aborted(each, 0, 0)]
        for each, added in self.partitions.items():
            changes += [
                TransactionChange(AddedPartitionKey(each, *at), None) for at in added if at in gone
            ]
        for each, cursors in self.pending.items():
            changes += [
                TransactionChange(PendingKey(each, group, *at), None)
                for group, at in cursors
                if at in gone
            ]
        return changes

    def apply(self, change: TransactionChange) -> None:
        """Apply one change, new or replayed at start; nothing else modifies this state."""
        key, value = change
        match key:
            case TransactionKey():
                self._apply_transaction(key.id, value)
            case AddedPartitionKey():
                self._apply_partition(key, value)
            case AddedGroupKey():
                groups = self.groups.setdefault(key.id, set())
                groups.add(key.group) if value is not None else groups.discard(key.group)
                if not groups:
                    del self.groups[key.id]
            case PendingKey():
                self._apply_pending(key, value)
            case AbortedKey():
                self._apply_aborted(key, value)

    def _apply_transaction(
        self, transactional_id: str, value: TransactionRecordValue | None
    ) -> None:
        was = self.transactions.pop(transactional_id, None)
        if was is not None:
            self._ids.pop(was.producer_id, None)
            self._ids.pop(was.previous_id, None)
        if isinstance(value, Transaction):
            self.transactions[transactional_id] = value
            self._ids[value.producer_id] = transactional_id
            if value.previous_id >= 0:
                self._ids[value.previous_id] = transactional_id

    def _apply_partition(
        self, key: AddedPartitionKey, value: TransactionRecordValue | None
    ) -> None:
        partition = PartitionId(key.topic_id, key.partition)
        partitions = self.partitions.setdefault(key.id, {})
        was = partitions.pop(partition, None)
        if was is not None and was.first_offset >= 0:
            _take_out(self.open, partition, was.producer_id)
        if isinstance(value, AddedPartition):
            partitions[partition] = value
            if value.first_offset >= 0:
                self.open.setdefault(partition, {})[value.producer_id] = value.first_offset
        if not partitions:
            del self.partitions[key.id]

    def _apply_pending(self, key: PendingKey, value: TransactionRecordValue | None) -> None:
        move = (key.group, PartitionId(key.topic_id, key.partition))
        cursors = self.pending.setdefault(key.id, {})
        if cursors.pop(move, None) is not None:
            self._unstable[move] -= 1
            if not self._unstable[move]:
                del self._unstable[move]
        if isinstance(value, Cursor):
            cursors[move] = value
            self._unstable[move] = self._unstable.get(move, 0) + 1
        if not cursors:
            del self.pending[key.id]

    def _apply_aborted(self, key: AbortedKey, value: TransactionRecordValue | None) -> None:
        partition = PartitionId(key.topic_id, key.partition)
        spans = self._aborted.setdefault(partition, [])
        at = bisect_left(spans, key.last_offset, key=_last_offset)
        if at < len(spans) and spans[at].last_offset == key.last_offset:
            del spans[at]
        if isinstance(value, Aborted):
            span = (key.last_offset, value.first_offset, value.producer_id, value.stable)
            spans.insert(at, AbortedSpan(*span))
        if not spans:
            del self._aborted[partition]


def _last_offset(span: AbortedSpan) -> int:
    return span.last_offset


def _take_out(
    table: dict[PartitionId, dict[int, int]], partition: PartitionId, producer_id: int
) -> None:
    there = table[partition]
    there.pop(producer_id, None)
    if not there:
        del table[partition]
