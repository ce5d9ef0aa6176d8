"""Completion of transactions: each change of a transaction's state is one append.

The end of a transaction consists of the markers in all its partitions, the records of its state,
and the cursors that it moves. All are one append, so a crash leaves all of them or none. After a
restart nothing is to be completed; the broker only checks that the log still holds the
transactions' events.
"""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Annotated

import msgspec

from mainstem.broker.callbacks import Callback
from mainstem.broker.deadlines import Deadlines
from mainstem.broker.groups.cursors import CursorChange, CursorKey
from mainstem.broker.journal import TRANSACTIONS, Journal
from mainstem.broker.producers.producers import Producers
from mainstem.broker.state import State
from mainstem.broker.transactions import epochs
from mainstem.broker.transactions.read_committed import CommittedView
from mainstem.broker.transactions.records import (
    Aborted,
    AbortedKey,
    AddedPartition,
    Transaction,
    TransactionChange,
    TransactionFold,
    TransactionKey,
    TransactionPhase,
    TransactionRecordKey,
    TransactionRecordValue,
)
from mainstem.core.batch import read_header
from mainstem.core.errors import MainstemError, StorageFull
from mainstem.core.setting_types import PositiveInt
from mainstem.core.transaction_markers import build_marker
from mainstem.log.port import Batches, Durable, PartitionId, WritableBatch

LOOK_MS = 10_000
_AGAIN_MS = 1_000


class TransactionLimits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Limits of transactions, with their defaults."""

    max_timeout_ms: Annotated[
        PositiveInt, "Milliseconds: the longest timeout of a transaction."
    ] = 900_000
    expire_ms: Annotated[
        PositiveInt, "Milliseconds that a transactional id is remembered without a transaction."
    ] = 604_800_000
    max_ids: Annotated[PositiveInt, "Transactional ids that are remembered; more are refused."] = (
        100_000
    )


class Completion:
    """Changes the state of all transactions, and stores it; used under the broker's lock."""

    def __init__(self, state: State, producers: Producers, limits: TransactionLimits) -> None:
        self._state, self._log = state, state.log
        self._producers = producers
        self._now_ms = state.clocks.now_ms
        self._limits = limits
        self.fold = TransactionFold()
        self.view = CommittedView(state.log, self.fold)
        self.calls: list[Callback] = []
        """Callbacks to be called after the lock is released."""
        self._deadlines = Deadlines[str](state.alarm)
        self._looked_ms = self._now_ms()
        self._journal = Journal[TransactionRecordKey, TransactionRecordValue](
            state.log, TRANSACTIONS, TransactionRecordKey, TransactionRecordValue
        )
        self._journal.replay(lambda key, value: self.fold.apply(TransactionChange(key, value)))

    def batches(self, changes: Sequence[TransactionChange], now_ms: int) -> Batches:
        """Encode changes as record batches, which the caller appends together with others."""
        return self._journal.batches(changes, now_ms)

    def appended(self, changes: Iterable[TransactionChange]) -> None:
        """Apply changes whose record batches the caller has appended."""
        for change in changes:
            self.fold.apply(change)
            if isinstance(change.key, TransactionKey):
                self._set_deadline(change.key.id)

    def write(self, changes: Sequence[TransactionChange]) -> Durable:
        """Append and apply changes."""
        durable = self._journal.append(changes, self._now_ms())
        self.appended(changes)
        return durable

    def settle(self, transactional_id: str, value: Transaction, *, committed: bool) -> Durable:
        """Store ``value`` as a transactional id's state; end its ongoing transaction, if any.

        ``committed``: whether that transaction is committed, not aborted.
        """
        was = self.fold.transactions.get(transactional_id)
        changes = [TransactionChange(TransactionKey(transactional_id), value)]
        if was is None or was.phase is not TransactionPhase.ONGOING:
            return self.write(changes)
        now_ms = self._now_ms()
        changes += self.fold.touched(transactional_id)
        partitions = self._written(transactional_id)
        # If this bumps the epoch, the markers carry the new one.
        is_same = (value.producer_id, value.epoch) == (was.producer_id, was.epoch)
        epoch = was.epoch if is_same else min(was.epoch + 1, epochs.MAX_EPOCH)
        markers: list[tuple[PartitionId, WritableBatch]] = [
            (at, build_marker(was.producer_id, epoch, committed=committed, now_ms=now_ms))
            for at in partitions
        ]
        if not committed:
            changes += [self._aborted(at, added) for at, added in partitions.items()]
        moves = self._moves(transactional_id, now_ms) if committed else []
        records = self._journal.batches(changes, now_ms)
        cursors = self._state.cursor_batches(moves, now_ms)
        appended = self._log.append([*markers, *records, *cursors])
        self.appended(changes)
        for move in moves:
            self._state.apply_cursor(move)
        for (at, marker), offset in zip(markers, appended.offsets[: len(markers)], strict=True):
            self._producers.marked(at, read_header(marker), offset)
            self.view.ends(at, partitions[at].first_offset, offset)
        moved = [PartitionId(move.key.topic_id, move.key.partition) for move in moves]
        self.calls += self._state.make_room(moved)
        return appended.durable

    def expire(self) -> None:
        """Abort timed-out transactions and expire unused ids, a bounded number per call."""
        now_ms = self._now_ms()
        for transactional_id in self._deadlines.due(now_ms):
            try:
                self._expire(transactional_id, now_ms)
            except MainstemError:
                # Try again later, when there may be disk space.
                self._deadlines.set(transactional_id, now_ms + _AGAIN_MS)
        if now_ms - self._looked_ms >= LOOK_MS:
            self._looked_ms = now_ms
            with suppress(MainstemError):
                self.write(self._aborted_and_gone())

    def next_deadline(self) -> int | None:
        """Return when ``expire`` is next due, in wall-clock ms; None if never."""
        due_ms = self._deadlines.next()
        if not self.fold.with_aborted():
            return due_ms
        look_ms = self._looked_ms + LOOK_MS
        return look_ms if due_ms is None else min(due_ms, look_ms)

    def put_right(self) -> None:
        """After a restart: drop deleted partitions, and abort transactions that lost events."""
        fold = self.fold
        known = {at for partitions in fold.partitions.values() for at in partitions}
        known |= {at for cursors in fold.pending.values() for _, at in cursors}
        known |= set(fold.with_aborted())
        changes = fold.forget_partitions(at for at in known if not self._has_topic(at))
        changes += self._aborted_and_gone()
        try:
            self.write(changes)
        except StorageFull:
            # A full disk must not prevent the start; the next start tries again.
            self.appended(changes)
        for transactional_id, found in list(fold.transactions.items()):
            self._set_deadline(transactional_id)
            partitions = fold.partitions.get(transactional_id, {}).values()
            with_events = [added for added in partitions if added.first_offset >= 0]
            if len(with_events) == len(self._written(transactional_id)):
                continue
            with suppress(StorageFull):
                # On a full disk the transaction is aborted at its timeout instead.
                self.settle(
                    transactional_id, epochs.abort_timed_out(found, self._now_ms()), committed=False
                )

    def _expire(self, transactional_id: str, now_ms: int) -> None:
        found = self.fold.transactions.get(transactional_id)
        if found is None:
            return
        if found.phase is TransactionPhase.ONGOING:
            self.settle(transactional_id, epochs.abort_timed_out(found, now_ms), committed=False)
        else:
            self.write([TransactionChange(TransactionKey(transactional_id), None)])

    def _aborted_and_gone(self) -> list[TransactionChange]:
        """Return the changes that delete aborted transactions whose events left the log."""
        changes: list[TransactionChange] = []
        for partition in self.fold.with_aborted():
            if self._has_topic(partition):
                bounds = self._log.bounds(partition)
                changes += self.fold.forget_aborted(partition, bounds.start, bounds.end)
        return changes

    def _written(self, transactional_id: str) -> dict[PartitionId, AddedPartition]:
        """Return the partitions in which the log holds events of a transaction."""
        return {
            at: added
            for at, added in self.fold.partitions.get(transactional_id, {}).items()
            if added.first_offset >= 0
            and self._has_topic(at)
            and added.first_offset < self._log.bounds(at).end
        }

    def _aborted(self, at: PartitionId, added: AddedPartition) -> TransactionChange:
        end = self._log.bounds(at).end
        ongoing = self.fold.open.get(at, {})
        others = [first for each, first in ongoing.items() if each != added.producer_id]
        value = Aborted(added.producer_id, added.first_offset, min([end, *others]))
        return TransactionChange(AbortedKey(*at, end), value)

    def _moves(self, transactional_id: str, now_ms: int) -> list[CursorChange]:
        """Return the changes that commit a transaction's offsets, except in deleted topics."""
        return [
            CursorChange(
                CursorKey(group, *at), msgspec.structs.replace(cursor, committed_ms=now_ms)
            )
            for (group, at), cursor in self.fold.pending.get(transactional_id, {}).items()
            if self._has_topic(at)
        ]

    def _has_topic(self, at: PartitionId) -> bool:
        return self._state.topics.by_id(at.topic_id) is not None

    def _set_deadline(self, transactional_id: str) -> None:
        found = self.fold.transactions.get(transactional_id)
        if found is None:
            self._deadlines.clear(transactional_id)
        elif found.phase is TransactionPhase.ONGOING:
            self._deadlines.set(transactional_id, found.started_ms + found.timeout_ms)
        else:
            self._deadlines.set(transactional_id, found.changed_ms + self._limits.expire_ms)
        if self.fold.with_aborted():
            self._state.alarm()
