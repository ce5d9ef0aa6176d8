"""Transactions: events in several partitions, and cursors, that become visible all or not at all.

How this works: ``ledger`` knows what every transaction has touched, ``epochs`` who may speak for
it. Here a request is decided, appended and applied under the broker's lock. A transaction ends
with one append for everything: the markers in all its partitions, what the ledger has to say, and
the cursors that it moves. So a crash leaves all of it or nothing, and nothing is ever to be
finished afterwards. Readers of committed events see the end once it is durable (``committed``).

A transaction that its producer does not end in time is aborted, and the producer is fenced.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

import msgspec

from mainstem.broker.callbacks import make
from mainstem.broker.groups.classic.coordinator import (
    ClassicGroups,
    Membership,
    PartitionResults,
)
from mainstem.broker.groups.cursors import Cursor
from mainstem.broker.producers.producers import Producers
from mainstem.broker.state import State
from mainstem.broker.topics.catalog import Topic, TopicPartition
from mainstem.broker.transactions import epochs
from mainstem.broker.transactions.completion import Completion, TransactionLimits
from mainstem.broker.transactions.epochs import ProducerIdAndEpoch
from mainstem.broker.transactions.read_committed import Committed
from mainstem.broker.transactions.records import (
    Enlisted,
    EnlistedKey,
    Part,
    PartKey,
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
    """Who the producer is from now on, and when that is certain."""

    producer_id: int
    epoch: int
    durable: Durable


class TransactionDescription(msgspec.Struct, frozen=True):
    """A transactional id, as an administrator sees it."""

    id: str
    phase: TransactionPhase
    producer_id: int
    epoch: int
    timeout_ms: int
    started_ms: int
    """-1 if no transaction is ongoing."""
    partitions: tuple[TopicPartition, ...]


class Transactions:
    """The door to transactions; synchronous and thread-safe."""

    def __init__(
        self,
        state: State,
        producers: Producers,
        groups: ClassicGroups,
        now_ms: Callable[[], int],
        *,
        limits: TransactionLimits = DEFAULTS,
    ) -> None:
        self._state = state
        self._producers = producers
        self._groups = groups
        self._now_ms = now_ms
        self._limits = limits
        self.completion = Completion(state, producers, now_ms, limits)
        self.fold = self.completion.fold
        self._view = self.completion.view
        with self._turn():
            self.completion.put_right()

    # What producers ask for

    def begin(
        self, transactional_id: str, timeout_ms: int, expected: ProducerIdAndEpoch | None = None
    ) -> ProducerSession:
        """Take over a transactional id: whoever had it is fenced, and its transaction aborted.

        ``expected``: who the producer was, if it only wants to go on after an error.
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
        self, transactional_id: str, who: ProducerIdAndEpoch, places: Iterable[TopicPartition]
    ) -> PartitionResults:
        """Let a transaction touch partitions; if one is refused, none is added."""
        with self._state.lock:
            was = self._own(transactional_id, who)
            refused: dict[TopicPartition, MainstemError] = {}
            found: list[PartitionId] = []
            for place in places:
                try:
                    found.append(self._state.at(*place))
                except MainstemError as error:
                    refused[place] = error
            known = self.fold.parts.get(transactional_id, {})
            changes = [] if refused else self._ongoing(transactional_id, was)
            if not refused:
                changes += [
                    TransactionChange(PartKey(transactional_id, *at), Part(was.producer_id))
                    for at in dict.fromkeys(found)
                    if at not in known
                ]
            return PartitionResults(self.completion.write(changes), refused)

    def add_group(self, transactional_id: str, who: ProducerIdAndEpoch, group: str) -> Durable:
        """Let a transaction move cursors of a group."""
        check_group(group)
        with self._state.lock:
            return self.completion.write(
                self._enlist(transactional_id, self._own(transactional_id, who), group)
            )

    def commit_cursors(
        self,
        transactional_id: str,
        who: ProducerIdAndEpoch,
        group: str,
        member: Membership,
        cursors: Mapping[TopicPartition, Cursor],
        *,
        joins: bool = False,
    ) -> PartitionResults:
        """Move cursors of a group when the transaction commits, and not if it does not.

        ``joins``: under the newer rules the group need not have been added before.
        """
        check_group(group)
        with self._state.lock:
            self._groups.check_commit(group, member, transactional=True)
            was = self._own(transactional_id, who)
            if not joins and group not in self.fold.enlisted.get(transactional_id, ()):
                raise NotInTransaction(
                    transactional_id, was.phase, f"used to move cursors of {group!r}, not added"
                )
            changes = self._enlist(transactional_id, was, group)
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
        who: ProducerIdAndEpoch,
        *,
        committed: bool,
        bumps: bool = False,
    ) -> ProducerSession:
        """Commit or abort; under the newer rules (``bumps``) the producer gets another epoch."""
        with self._turn():
            was = self.fold.transactions.get(transactional_id)
            now_ms = self._now_ms()
            value = epochs.end(transactional_id, was, who, committed, bumps, now_ms, self._next_id)
            # What was answered before is written again: once that is durable, so is the first.
            durable = self.completion.settle(transactional_id, value, committed=committed)
        return ProducerSession(value.producer_id, value.epoch, durable)

    # What they write; used under the lock

    def enter(
        self, topic: Topic, number: int, header: BatchHeader, *, joins: bool
    ) -> list[TransactionChange]:
        """Decide whether a batch may be written, and what must be written down with it.

        ``joins``: under the newer rules the partition need not have been added before.
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
        if not joins and at not in self.fold.parts.get(transactional_id, ()):
            deed = f"written to partition {number} of topic {topic.name!r}, which was not added"
            raise NotInTransaction(transactional_id, was.phase, deed)
        part = Part(producer_id, self._state.log.bounds(at).end)
        return [
            *self._ongoing(transactional_id, was),
            TransactionChange(PartKey(transactional_id, *at), part),
        ]

    def forget(self, partitions: Iterable[PartitionId]) -> None:
        """Forget partitions that are gone."""
        gone = list(partitions)
        self.completion.write(self.fold.forget_partitions(gone))
        for partition in gone:
            self._view.forget(partition)

    def check_cut(self, topic: str, partition: int, end: int) -> None:
        """Refuse to take back the end of a partition to within a transaction; takes the lock."""
        with self._state.lock:
            at = self._state.at(topic, partition)
            bounds = self._state.log.bounds(at)
            is_within = self._view.stable(at, bounds.tail) < bounds.tail or any(
                span.first_offset < end for span in self.fold.aborted(at, end, bounds.end)
            )
        if is_within:
            raise InvalidSetting(
                f"partition {partition} of topic {topic!r} holds events of transactions that end "
                f"after offset {end}, so its end cannot be taken back to there"
            )

    def cut(self, partition: PartitionId) -> None:
        """Forget the transactions that were taken back with the end of a partition."""
        bounds = self._state.log.bounds(partition)
        self.completion.write(self.fold.forget_aborted(partition, bounds.start, bounds.end))

    # What readers see

    def stable(self, topic: str, partition: int, tail: int | None = None) -> int:
        """Return the first offset that readers of committed events cannot see yet.

        ``tail``: where the partition ended for the others, if the caller has just looked.
        """
        with self._state.lock:
            at = self._state.at(topic, partition)
            if tail is None:
                tail = self._state.log.bounds(at).tail
            return self._view.stable(at, tail)

    def read_committed(self, topic: str, partition: int, offset: int, max_bytes: int) -> Committed:
        """Return whole record batches before the stable offset, and what is aborted in them."""
        return self.read_committed_at(self._state.at(topic, partition), offset, max_bytes)

    def read_committed_at(self, at: PartitionId, offset: int, max_bytes: int) -> Committed:
        """Return the same of a partition by its id, which is never that of another topic."""
        data = self._state.log.read(at, offset, max_bytes)
        with self._state.lock:
            return self._view.view(at, offset, data)

    def is_pending(self, group: str, topic: str, partition: int) -> bool:
        """Tell whether an ongoing transaction is going to move a cursor."""
        with self._state.lock:
            return self.fold.is_pending(group, self._state.at(topic, partition))

    def started_at(self, topic: str, partition: int) -> dict[int, int]:
        """Return where the ongoing transaction of each producer begins in a partition."""
        with self._state.lock:
            return dict(self.fold.open.get(self._state.at(topic, partition), {}))

    # Administration

    def describe(self, transactional_id: str) -> TransactionDescription:
        """Return a transactional id; raises UnknownTransaction."""
        with self._state.lock:
            found = self.fold.transactions.get(transactional_id)
            if found is None:
                raise UnknownTransaction(transactional_id)
            return self._described(transactional_id, found)

    def every(self) -> list[TransactionDescription]:
        """Return every transactional id, described."""
        with self._state.lock:
            return [self._described(*item) for item in sorted(self.fold.transactions.items())]

    def _described(self, transactional_id: str, found: Transaction) -> TransactionDescription:
        places = [
            (topic.name, at.number)
            for at in self.fold.parts.get(transactional_id, ())
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
        """Abort transactions that take too long, and forget what is no longer needed."""
        with self._turn():
            self.completion.expire()

    def next_deadline(self) -> int | None:
        """Return when ``tick`` should be called, as a time of day; None if never."""
        with self._state.lock:
            return self.completion.next_deadline()

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """Take the lock, and make the calls that were decided on without it."""
        with self._state.lock:
            yield
            calls, self.completion.calls = self.completion.calls, []
        make(calls)

    # Parts of decisions

    def _check_begin(self, transactional_id: str, timeout_ms: int) -> None:
        if not 0 < len(transactional_id) <= _MAX_ID_LENGTH:
            reason = f"it has {len(transactional_id)} characters, 1 to {_MAX_ID_LENGTH} are allowed"
            raise InvalidName("producer", transactional_id, reason)
        if not 0 < timeout_ms <= self._limits.max_timeout_ms:
            raise InvalidTransactionTimeout(timeout_ms, self._limits.max_timeout_ms)

    def _own(self, transactional_id: str, who: ProducerIdAndEpoch) -> Transaction:
        return epochs.check(transactional_id, self.fold.transactions.get(transactional_id), who)

    def _ongoing(self, transactional_id: str, was: Transaction) -> list[TransactionChange]:
        """Decide to open the transaction, unless it is."""
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

    def _enlist(
        self, transactional_id: str, was: Transaction, group: str
    ) -> list[TransactionChange]:
        changes = self._ongoing(transactional_id, was)
        if group not in self.fold.enlisted.get(transactional_id, ()):
            changes.append(TransactionChange(EnlistedKey(transactional_id, group), Enlisted()))
        return changes

    def _next_id(self) -> int:
        return self._producers.next_id().producer_id
