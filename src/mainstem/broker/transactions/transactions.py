"""Transactions: events in several partitions, and cursors, become visible together or not at all.

How this works: ``records`` holds the state of every transaction, ``epochs`` the rules for producer
epochs. Here each request is decided, appended and applied under the broker's lock. The end of a
transaction is one append: the markers in all its partitions, the records of its state, and the
cursors that it moves. So a crash leaves all of them or none, and nothing has to be completed later.
With read_committed the end is visible once it is durable (``read_committed``).

A transaction that exceeds its timeout is aborted, and its producer is fenced.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

import msgspec

from mainstem.broker.callbacks import make
from mainstem.broker.groups.classic.coordinator import ClassicGroups, Membership, PartitionResults
from mainstem.broker.groups.cursors import Cursor
from mainstem.broker.producers.producers import Producers
from mainstem.broker.state import State
from mainstem.broker.topics.catalog import Topic, TopicPartition
from mainstem.broker.transactions import epochs
from mainstem.broker.transactions.completion import Completion, TransactionLimits
from mainstem.broker.transactions.epochs import ProducerIdAndEpoch
from mainstem.broker.transactions.read_committed import Committed
from mainstem.broker.transactions.records import (
    AddedGroup,
    AddedGroupKey,
    AddedPartition,
    AddedPartitionKey,
    PendingKey,
    Transaction,
    TransactionChange,
    TransactionKey,
    TransactionPhase,
)
from mainstem.core.batch import BatchHeader
from mainstem.core.errors import (
    InvalidName,
    InvalidProducerEpoch,
    InvalidSetting,
    InvalidTransactionState,
    InvalidTransactionTimeout,
    MainstemError,
    NotInTransaction,
    UnknownProducer,
    UnknownTransaction,
)
from mainstem.core.names import check_group
from mainstem.log.port import Durable, PartitionId

DEFAULTS = TransactionLimits()
_MAX_ID_LENGTH = 1_000


class ProducerSession(NamedTuple):
    """The new id and epoch of a producer; ``durable`` is done when they are durable."""

    producer_id: int
    epoch: int
    durable: Durable


class TransactionDescription(msgspec.Struct, frozen=True):
    """The description of a transactional id, for administrators."""

    id: str
    phase: TransactionPhase
    producer_id: int
    epoch: int
    timeout_ms: int
    started_ms: int
    """-1 if no transaction is ongoing."""
    partitions: tuple[TopicPartition, ...]


class Transactions:
    """Public interface of transactions; synchronous and thread-safe."""

    def __init__(
        self,
        state: State,
        producers: Producers,
        groups: ClassicGroups,
        *,
        limits: TransactionLimits = DEFAULTS,
    ) -> None:
        self._state, self._producers, self._groups = state, producers, groups
        self._now_ms, self._limits = state.clocks.now_ms, limits
        self.completion = Completion(state, producers, limits)
        self.fold = self.completion.fold
        self._view = self.completion.view
        with self._turn():
            self.completion.put_right()

    # Requests of producers

    def begin(
        self, transactional_id: str, timeout_ms: int, expected: ProducerIdAndEpoch | None = None
    ) -> ProducerSession:
        """Take over a transactional id: fence its previous producer, and abort its transaction.

        Serves InitProducerId. ``expected``: the id and epoch that the producer has, if it recovers
        from an error instead of starting (KIP-360).
        """
        self._check_begin(transactional_id, timeout_ms)
        with self._turn():
            was = self.fold.transactions.get(transactional_id)
            if was is None and len(self.fold.transactions) >= self._limits.max_ids:
                raise InvalidSetting(
                    f"there are {self._limits.max_ids} transactional ids already; use fewer"
                )
            now_ms = self._now_ms()
            value = epochs.begin(transactional_id, was, expected, timeout_ms, now_ms, self._next_id)
            durable = self.completion.settle(transactional_id, value, committed=False)
        return ProducerSession(value.producer_id, value.epoch, durable)

    def add_partitions(
        self,
        transactional_id: str,
        producer: ProducerIdAndEpoch,
        partitions: Iterable[TopicPartition],
    ) -> PartitionResults:
        """Add partitions to a transaction; if one is refused, none is added."""
        with self._state.lock:
            was = self._own(transactional_id, producer)
            found, refused = self._state.find(partitions)
            known = self.fold.partitions.get(transactional_id, {})
            changes = [] if refused else self._ongoing(transactional_id, was)
            if not refused:
                changes += [
                    TransactionChange(
                        AddedPartitionKey(transactional_id, *at), AddedPartition(was.producer_id)
                    )
                    for at in dict.fromkeys(found)
                    if at not in known
                ]
            return PartitionResults(self.completion.write(changes), refused)

    def add_group(self, transactional_id: str, producer: ProducerIdAndEpoch, group: str) -> Durable:
        """Add a group to a transaction, which may then commit offsets for it."""
        check_group(group)
        with self._state.lock:
            return self.completion.write(
                self._add_group(transactional_id, self._own(transactional_id, producer), group)
            )

    def commit_cursors(
        self,
        transactional_id: str,
        producer: ProducerIdAndEpoch,
        group: str,
        member: Membership,
        cursors: Mapping[TopicPartition, Cursor],
        *,
        adds_group: bool = False,
    ) -> PartitionResults:
        """Commit a group's offsets together with the transaction.

        ``adds_group``: adds the group to the transaction, if it is not in it yet (KIP-890).
        """
        check_group(group)
        with self._state.lock:
            self._groups.check_commit(group, member, transactional=True)
            was = self._own(transactional_id, producer)
            if not adds_group and group not in self.fold.groups.get(transactional_id, ()):
                raise NotInTransaction(
                    transactional_id, was.phase, f"used to move cursors of {group!r}, not added"
                )
            changes = self._add_group(transactional_id, was, group)
            refused: dict[TopicPartition, MainstemError] = {}
            for place, cursor in cursors.items():
                try:
                    at = self._state.at(*place)
                    self._state.cursors.commit(group, {at: cursor}, may_unset=True)
                    key = PendingKey(transactional_id, group, *at)
                    changes.append(TransactionChange(key, cursor))
                except MainstemError as error:
                    refused[place] = error
            return PartitionResults(self.completion.write(changes), refused)

    def end(
        self,
        transactional_id: str,
        producer: ProducerIdAndEpoch,
        *,
        committed: bool,
        bumps_epoch: bool = False,
    ) -> ProducerSession:
        """Commit or abort a transaction; ``bumps_epoch``: increment the epoch, too (KIP-890)."""
        with self._turn():
            was = self.fold.transactions.get(transactional_id)
            now_ms = self._now_ms()
            value = epochs.end(
                transactional_id, was, producer, committed, bumps_epoch, now_ms, self._next_id
            )
            # A retry is stored again: when that is durable, the first request is too.
            durable = self.completion.settle(transactional_id, value, committed=committed)
        return ProducerSession(value.producer_id, value.epoch, durable)

    # Batches; used under the lock

    def enter(
        self, topic: Topic, number: int, header: BatchHeader, *, adds_partition: bool
    ) -> list[TransactionChange]:
        """Check a batch against its transaction; return the records to append with it.

        ``adds_partition``: adds the partition to the transaction, if it is not in it yet (KIP-890).
        """
        producer_id = header.producer_id
        transactional_id = self.fold.id_of(producer_id)
        if transactional_id is None:
            if header.is_transactional:
                raise UnknownProducer("", producer_id)
            return []
        at = topic.partitions[number]
        is_open = producer_id in self.fold.open.get(at, ())
        was = self.fold.transactions[transactional_id]
        if not header.is_transactional:
            if is_open:
                raise InvalidTransactionState(
                    transactional_id, was.phase, "mixed with events outside of it"
                )
            return []
        if (producer_id, header.producer_epoch) != (was.producer_id, was.epoch):
            raise InvalidProducerEpoch(producer_id, header.producer_epoch, was.epoch)
        if is_open:
            return []
        if not adds_partition and at not in self.fold.partitions.get(transactional_id, ()):
            deed = f"written to partition {number} of topic {topic.name!r}, which was not added"
            raise NotInTransaction(transactional_id, was.phase, deed)
        added = AddedPartition(producer_id, self._state.log.bounds(at).end)
        return [
            *self._ongoing(transactional_id, was),
            TransactionChange(AddedPartitionKey(transactional_id, *at), added),
        ]

    def forget(self, partitions: Iterable[PartitionId]) -> None:
        """Remove deleted partitions from all transactions."""
        gone = list(partitions)
        self.completion.write(self.fold.forget_partitions(gone))
        for partition in gone:
            self._view.forget(partition)

    def check_cut(self, topic: str, partition: int, end: int) -> None:
        """Raise InvalidSetting if truncation would remove part of a transaction; takes the lock."""
        with self._state.lock:
            at = self._state.at(topic, partition)
            bounds = self._state.log.bounds(at)
            is_within = self._view.stable(at, bounds.tail) < bounds.tail or any(
                span.first_offset < end for span in self.fold.aborted(at, end, bounds.end)
            )
        if is_within:
            raise InvalidSetting(
                f"partition {partition} of topic {topic!r} holds events of transactions that end "
                f"after offset {end}, so it cannot be truncated there"
            )

    def cut(self, partition: PartitionId) -> None:
        """After a truncation, delete aborted transactions beyond the partition's new end."""
        bounds = self._state.log.bounds(partition)
        self.completion.write(self.fold.forget_aborted(partition, bounds.start, bounds.end))

    # Reading

    def stable(self, topic: str, partition: int, tail: int | None = None) -> int:
        """Return the last stable offset: read_committed consumers see only what is before it.

        ``tail``: the partition's tail (high watermark), if the caller has just read it.
        """
        with self._state.lock:
            at = self._state.at(topic, partition)
            if tail is None:
                tail = self._state.log.bounds(at).tail
            return self._view.stable(at, tail)

    def read_committed(self, topic: str, partition: int, offset: int, max_bytes: int) -> Committed:
        """Return batches before the last stable offset, and the aborted transactions in them."""
        return self.read_committed_at(self._state.at(topic, partition), offset, max_bytes)

    def read_committed_at(self, at: PartitionId, offset: int, max_bytes: int) -> Committed:
        """Like ``read_committed``, but by partition id.

        A topic that was deleted and created again has other ids.
        """
        data = self._state.log.read(at, offset, max_bytes)
        with self._state.lock:
            return self._view.view(at, offset, data)

    def has_any(self, at: PartitionId) -> bool:
        """Tell whether a partition has transactions: ongoing, ending, or aborted."""
        with self._state.lock:
            return self._view.has_any(at)

    def had_any(self, at: PartitionId) -> bool:
        """Like ``has_any``, but without the lock: may miss a transaction that is just starting."""
        return self._view.has_any(at)

    def is_pending(self, group: str, topic: str, partition: int) -> bool:
        """Tell whether an ongoing transaction will commit an offset of a group in a partition."""
        with self._state.lock:
            return self.fold.is_pending(group, self._state.at(topic, partition))

    def started_at(self, topic: str, partition: int) -> dict[int, int]:
        """Return the first offset of each ongoing transaction in a partition, by producer id."""
        with self._state.lock:
            return dict(self.fold.open.get(self._state.at(topic, partition), {}))

    # Administration

    def describe(self, transactional_id: str) -> TransactionDescription:
        """Return the description of a transactional id; raises UnknownTransaction."""
        with self._state.lock:
            found = self.fold.transactions.get(transactional_id)
            if found is None:
                raise UnknownTransaction(transactional_id)
            return self._described(transactional_id, found)

    def every(self) -> list[TransactionDescription]:
        """Return the descriptions of all transactional ids."""
        with self._state.lock:
            return [self._described(*item) for item in sorted(self.fold.transactions.items())]

    def _described(self, transactional_id: str, found: Transaction) -> TransactionDescription:
        places = [
            (topic.name, at.number)
            for at in self.fold.partitions.get(transactional_id, ())
            if (topic := self._state.topics.by_id(at.topic_id)) is not None
        ]
        return TransactionDescription(
            transactional_id,
            found.phase,
            found.producer_id,
            found.epoch,
            found.timeout_ms,
            found.started_ms,
            tuple(sorted(places)),
        )

    # Time

    def tick(self) -> None:
        """Abort timed-out transactions, and expire unused transactional ids."""
        with self._turn():
            self.completion.expire()

    def next_deadline(self) -> int | None:
        """Return when ``tick`` is next due, in wall-clock ms; None if never."""
        with self._state.lock:
            return self.completion.next_deadline()

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """Hold the lock during the ``with`` block, then call the collected callbacks without it."""
        with self._state.lock:
            yield
            calls, self.completion.calls = self.completion.calls, []
        make(calls)

    # Helpers

    def _check_begin(self, transactional_id: str, timeout_ms: int) -> None:
        if not 0 < len(transactional_id) <= _MAX_ID_LENGTH:
            reason = f"it has {len(transactional_id)} characters, 1 to {_MAX_ID_LENGTH} are allowed"
            raise InvalidName("producer", transactional_id, reason)
        if not 0 < timeout_ms <= self._limits.max_timeout_ms:
            raise InvalidTransactionTimeout(timeout_ms, self._limits.max_timeout_ms)

    def _own(self, transactional_id: str, producer: ProducerIdAndEpoch) -> Transaction:
        return epochs.check(
            transactional_id, self.fold.transactions.get(transactional_id), producer
        )

    def _ongoing(self, transactional_id: str, was: Transaction) -> list[TransactionChange]:
        """Return the change that begins a transaction; empty if it is ongoing."""
        if was.phase is TransactionPhase.ONGOING:
            return []
        now_ms = self._now_ms()
        value = msgspec.structs.replace(
            was,
            phase=TransactionPhase.ONGOING,
            started_ms=now_ms,
            changed_ms=now_ms,
            is_bumped=False,
        )
        return [TransactionChange(TransactionKey(transactional_id), value)]

    def _add_group(
        self, transactional_id: str, was: Transaction, group: str
    ) -> list[TransactionChange]:
        changes = self._ongoing(transactional_id, was)
        if group not in self.fold.groups.get(transactional_id, ()):
            changes.append(TransactionChange(AddedGroupKey(transactional_id, group), AddedGroup()))
        return changes

    def _next_id(self) -> int:
        return self._producers.next_id().producer_id
