"""Appends of idempotent and transactional producers: decide, append, apply.

How this works: all of this is done under the broker's lock, so that no two requests are checked
against the same old state. A batch is compared with its producer's sequence numbers. For a
duplicate, the result is its old offset. A new batch is appended, together with records that must be
stored with it (a snapshot, a transaction's partition), and then all of it is applied.

Batches that arrive together are decided one by one, and the new ones are one append. The run ends
before a batch that cannot be decided yet, because it does not directly follow one before it in the
same partition, and at one that needs other records in its append.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from mainstem.broker.producers.producers import Producers, ProducersChange
from mainstem.broker.producers.sequences import follows
from mainstem.broker.publishing.batching import PartitionBatch, Published
from mainstem.broker.publishing.outcome import (
    AppendedBatch,
    AppendOutcome,
    CheckedBatch,
    appended_batches,
)
from mainstem.broker.publishing.overload import HeldPublish
from mainstem.broker.state import OpenTopic, State
from mainstem.broker.topics.catalog import Topic
from mainstem.broker.transactions.records import TransactionChange
from mainstem.broker.transactions.transactions import Transactions
from mainstem.core.batch import BatchHeader
from mainstem.core.errors import MainstemError, UnknownPartition, UnknownTopic
from mainstem.log.port import Appended


class _Beside(NamedTuple):
    """Records that must be in the same append as a producer's batch."""

    begun: list[ProducersChange]
    touched: list[TransactionChange]


_NOTHING = _Beside([], [])


class IdempotentAppends:
    """Appends the batches of idempotent producers."""

    def __init__(self, state: State, producers: Producers, transactions: Transactions) -> None:
        self._state = state
        self._producers = producers
        self._transactions = transactions
        self._now_ms = state.clocks.now_ms

    def append(
        self,
        topic: str,
        run: PartitionBatch,
        header: BatchHeader,
        held: HeldPublish | None,
        *,
        adds_partition: bool,
    ) -> Published | HeldPublish:
        """Append a batch, unless it is a duplicate; never blocks.

        ``adds_partition``: adds the partition to the batch's transaction, if it is not in it yet.
        Raises OutOfOrderSequence, InvalidProducerEpoch, UnknownProducer, InvalidTransactionState
        or Overloaded; then nothing was appended.
        """
        now_ms = self._now_ms()
        number = run.partition
        with self._state.lock:
            opened = self._open(topic)
            decided = self._decide(opened.topic, number, header, adds_partition)
            if isinstance(decided, AppendedBatch):
                return Published([run], [decided.offset], decided.durable)
            counts = {number: len(run.places)}
            if opened.gate is not None:
                again = opened.gate.admit(counts, now_ms, held)
                if again is not None:
                    return again
            appended = self._append(
                opened.topic, [CheckedBatch(number, run.batch, header)], decided
            )
            if opened.gate is not None:
                opened.gate.shed(counts, now_ms)
        return Published([run], appended.offsets, appended.durable)

    def append_run(
        self, topic: str, given: Sequence[CheckedBatch], *, adds_partition: bool
    ) -> list[AppendOutcome]:
        """Append as many of the batches as one append can hold; the topic has no backlog limit.

        Batches of one partition must be adjacent. Returns the outcomes of the first batches, at
        least one; call again with the other batches.
        """
        outcomes: list[AppendOutcome | None] = []
        new: list[CheckedBatch] = []
        beside = _NOTHING
        with self._state.lock:
            into = self._open(topic).topic
            for each in given:
                number, _, header, _ = each
                if header.producer_id < 0:
                    break
                if new and new[-1].number == number:
                    # The producer's state does not include the previous batch of this run yet.
                    if not follows(header, new[-1].header):
                        break
                else:
                    decided = self._decided(into, number, header, adds_partition)
                    if not isinstance(decided, _Beside):
                        outcomes.append(decided)
                        continue
                    if decided is not _NOTHING and new:
                        break
                    beside = decided
                new.append(each)
                outcomes.append(None)
                if beside is not _NOTHING:
                    break
            return _filled(outcomes, self._append_new(into, new, beside) if new else ())

    def _decided(
        self, topic: Topic, number: int, header: BatchHeader, adds_partition: bool
    ) -> AppendOutcome | _Beside:
        try:
            return self._decide(topic, number, header, adds_partition)
        except MainstemError as error:
            return error

    def _decide(
        self, topic: Topic, number: int, header: BatchHeader, adds_partition: bool
    ) -> AppendedBatch | _Beside:
        """Check a batch: return a duplicate's old position, or records to append with a new one."""
        if number >= len(topic.partitions):
            raise UnknownPartition(topic.name, number, len(topic.partitions))
        touched = self._transactions.enter(topic, number, header, adds_partition=adds_partition)
        known = self._producers.at(topic, number).decide(header)
        if known is not None:
            start = self._state.log.bounds(topic.partitions[number]).start
            return AppendedBatch(*known, header.count, start)
        begun = self._producers.begin(topic, number)
        return _Beside(begun, touched) if begun or touched else _NOTHING

    def _append_new(
        self, topic: Topic, new: Sequence[CheckedBatch], beside: _Beside
    ) -> list[AppendOutcome]:
        """Append new batches; return their outcomes, or only the error of the first."""
        try:
            return appended_batches(new, self._append(topic, new, beside))
        except MainstemError as error:
            return [error]

    def _append(self, topic: Topic, new: Sequence[CheckedBatch], beside: _Beside) -> Appended:
        """Append new batches and the records ``beside`` them, and update the producers' state."""
        producers, completion = self._producers, self._transactions.completion
        partitions = topic.partitions
        batches = [(partitions[each.number], each.batch) for each in new]
        if beside is _NOTHING:
            appended = self._state.log.append(batches, together=False)
        else:
            now_ms = self._now_ms()
            batches += producers.batches(beside.begun, now_ms)
            batches += completion.batches(beside.touched, now_ms)
            appended = self._state.log.append(batches)
            del appended.offsets[len(new) :], appended.starts[len(new) :]
            completion.appended(beside.touched)
            producers.begun(beside.begun)
        written = [
            (partitions[each.number], each.header, offset)
            for each, offset in zip(new, appended.offsets, strict=False)
        ]
        producers.appended(written, appended.durable)
        return appended

    def _open(self, topic: str) -> OpenTopic:
        opened = self._state.opened.get(topic)
        if opened is None:
            raise UnknownTopic(topic)
        return opened


def _filled(
    outcomes: Iterable[AppendOutcome | None], new: Iterable[AppendOutcome]
) -> list[AppendOutcome]:
    """Fill in the outcomes of new batches (None); stop at the first that was not appended."""
    left = iter(new)
    filled: list[AppendOutcome] = []
    for outcome in outcomes:
        each = next(left, None) if outcome is None else outcome
        if each is None:
            break
        filled.append(each)
    return filled
