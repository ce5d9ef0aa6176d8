"""Appends of idempotent and transactional producers: decide, append, apply.

How this works: all of this is done under the broker's lock, so that no two requests are checked
against the same old state. A batch is compared with its producer's sequence numbers. For a
duplicate, the result is its old offset. A new batch is appended, together with records that must be
stored with it (a snapshot, a transaction's partition), and then all of it is applied.

Batches that arrive together are decided one by one, and the new ones are one append. That append
ends before a batch that cannot be decided yet, as it does not directly follow the previous one in
the same partition. A batch that needs other records in its append ends it, too.
"""

from collections.abc import Iterable, Sequence
from functools import partial
from typing import NamedTuple

from mainstem.broker.producers.producers import Producers, ProducersChange
from mainstem.broker.producers.sequences import follows
from mainstem.broker.publishing.outcome import (
    AppendedBatch,
    AppendOutcome,
    AppendOutcomes,
    CheckedBatch,
    appended_batches,
    named,
)
from mainstem.broker.publishing.overload import Gate, HeldPublish
from mainstem.broker.state import OpenTopic, State
from mainstem.broker.topics.catalog import Topic
from mainstem.broker.transactions.records import TransactionChange
from mainstem.broker.transactions.transactions import Transactions
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

    def append_run(
        self,
        opened: OpenTopic,
        given: Sequence[CheckedBatch],
        held: HeldPublish | None = None,
        *,
        adds_partition: bool,
    ) -> AppendOutcomes:
        """Append as many of the batches as one append can hold, except duplicates; never blocks.

        Batches of one partition must be adjacent. Returns the outcomes of the first batches, at
        least one; call again with the other batches. In a topic with a backlog limit the caller
        passes one batch at a time, which may be held.
        """
        outcomes: list[AppendOutcome | None] = []
        new: list[CheckedBatch] = []
        beside = _NOTHING
        with self._state.lock:
            now = self._open(opened.topic.name)
            into = now.topic
            # A limit that was set meanwhile applies to later calls.
            gate = None if opened.gate is None else now.gate
            for each in given:
                number, _, header, _, _ = each
                if header.producer_id < 0:
                    break
                if new and new[-1].number == number:
                    # The producer's state does not include the previous batch of this run yet.
                    if not follows(header, new[-1].header):
                        break
                else:
                    decided = self._decided(into, each, adds_partition)
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
            if not new:
                return _filled(outcomes, ()), None
            made, hold = self._append_new(gate, held, into, new, beside)
        return _filled(outcomes, made), hold

    def _decided(
        self, topic: Topic, given: CheckedBatch, adds_partition: bool
    ) -> AppendOutcome | _Beside:
        try:
            return self._decide(topic, given, adds_partition)
        except MainstemError as error:
            return named(topic, error)

    def _decide(
        self, topic: Topic, given: CheckedBatch, adds_partition: bool
    ) -> AppendedBatch | _Beside:
        """Check a batch: return a duplicate's old position, or records to append with a new one."""
        number, _, header, appended_ms, _ = given
        if number >= len(topic.partitions):
            raise UnknownPartition(topic.name, number, len(topic.partitions))
        touched = self._transactions.enter(topic, number, header, adds_partition=adds_partition)
        known = self._producers.at(topic, number).decide(header)
        if known is not None:
            start = self._state.log.bounds(topic.partitions[number]).start
            return AppendedBatch(*known, header.count, start, appended_ms)
        begun = self._producers.begin(topic, number)
        return _Beside(begun, touched) if begun or touched else _NOTHING

    def _append_new(
        self,
        gate: Gate | None,
        held: HeldPublish | None,
        topic: Topic,
        new: Sequence[CheckedBatch],
        beside: _Beside,
    ) -> AppendOutcomes:
        """Append new batches; return their outcomes, or only the error of the first."""
        try:
            if gate is None:
                appended = self._append(topic, new, beside)
            else:
                counts = {new[0].number: new[0].header.count}
                append = partial(self._append, topic, new, beside)
                within = gate.append(counts, self._now_ms(), held, append)
                if isinstance(within, HeldPublish):
                    return [], within
                appended = within
        except MainstemError as error:
            return [named(topic, error)], None
        return appended_batches(new, appended), None

    def _append(self, topic: Topic, new: Sequence[CheckedBatch], beside: _Beside) -> Appended:
        """Append new batches and the records ``beside`` them, and update the producers' state."""
        producers, completion = self._producers, self._transactions.completion
        partitions = topic.partitions
        batches = [(partitions[number], batch) for number, batch, _, _, _ in new]
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
            (partitions[number], header, offset)
            for (number, _, header, _, _), offset in zip(new, appended.offsets, strict=False)
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
