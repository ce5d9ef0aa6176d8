"""Appends the record batches of producers: the route of every produce request.

How this works: each batch is checked, rewritten if the topic's settings demand it, and appended,
refused, or held back by backpressure, as if it had come alone. But all batches are passed to the
log at once, which writes those of one partition in one write and commits all together. The log, or
the sequence numbers of an idempotent producer, may allow only the first of them in one append; the
remaining batches go into the next append. In a topic with a backlog limit each batch is an append
of its own, as the backlog decides about each; the first that is held back ends the call.
"""

from collections.abc import Sequence
from operator import itemgetter

from mainstem.broker.publishing.batching import check_events
from mainstem.broker.publishing.conversion import converted
from mainstem.broker.publishing.idempotent import IdempotentAppends
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
from mainstem.core.batch import BatchHeader, check_header
from mainstem.core.errors import MainstemError, UnknownPartition
from mainstem.core.topic_settings import Timestamps
from mainstem.log.port import PartitionId, WritableBatch

_NUMBER = itemgetter(0)


class BatchAppends:
    """Appends batches to topics, as the topics' settings demand; never blocks."""

    def __init__(self, state: State, idempotent: IdempotentAppends) -> None:
        self._log = state.log
        self._lock = state.lock
        self._now_ms = state.clocks.now_ms
        self._idempotent = idempotent

    def append(
        self,
        opened: OpenTopic,
        batches: Sequence[tuple[int, WritableBatch]],
        held: HeldPublish | None,
        *,
        adds_partition: bool,
    ) -> AppendOutcomes:
        """Append batches to partitions, given by number.

        ``held``: the HeldPublish that an earlier call returned for the first of these batches.
        """
        if opened.gate is not None:
            return self._append_in_turn(opened, opened.gate, batches, held, adds_partition)
        if len(batches) == 1:
            return [self._append_one(opened, *batches[0], adds_partition)], None
        outcomes: list[AppendOutcome] = []
        given: list[CheckedBatch] = []
        check = self._checked
        for number, batch in batches:
            try:
                checked, header, appended_ms = check(opened, number, batch)
            except MainstemError as error:
                outcomes.append(error)
                continue
            given.append(CheckedBatch(number, checked, header, appended_ms, len(outcomes)))
            outcomes.append(_UNDECIDED)
        # A stable sort: batches of one partition stay in order.
        given.sort(key=_NUMBER)
        at = 0
        while at < len(given):
            found = self._append_some(opened, given[at:] if at else given, adds_partition)
            for outcome in found:
                outcomes[given[at].place] = outcome
                at += 1
        return outcomes, None

    def _append_one(
        self, opened: OpenTopic, number: int, batch: WritableBatch, adds_partition: bool
    ) -> AppendOutcome:
        """Append a single batch: the common case, made fast."""
        topic = opened.topic
        try:
            batch, header, appended_ms = self._checked(opened, number, batch)
            if header.producer_id >= 0:
                given = (CheckedBatch(number, batch, header, appended_ms),)
                append_run = self._idempotent.append_run
                return append_run(opened, given, adds_partition=adds_partition)[0][0]
            appended = self._log.append(((topic.partitions[number], batch),))
        except MainstemError as error:
            return named(topic, error)
        return AppendedBatch(
            appended.offsets[0], appended.durable, header.count, appended.starts[0], appended_ms
        )

    def _append_some(
        self, opened: OpenTopic, given: Sequence[CheckedBatch], adds_partition: bool
    ) -> Sequence[AppendOutcome]:
        """Append as many leading batches as one append can hold; return their outcomes."""
        partitions = opened.topic.partitions
        plain: list[tuple[PartitionId, WritableBatch]] = []
        for number, batch, header, _, _ in given:
            if header.producer_id >= 0:
                break
            plain.append((partitions[number], batch))
        try:
            if plain:
                return appended_batches(given, self._log.append(plain, together=False))
            return self._idempotent.append_run(opened, given, adds_partition=adds_partition)[0]
        except MainstemError as error:
            return [named(opened.topic, error)]

    def _append_in_turn(
        self,
        opened: OpenTopic,
        gate: Gate,
        batches: Sequence[tuple[int, WritableBatch]],
        held: HeldPublish | None,
        adds_partition: bool,
    ) -> AppendOutcomes:
        """Append batches one by one within the backlog limit, until one is held."""
        topic = opened.topic
        outcomes: list[AppendOutcome] = []
        for number, batch in batches:
            try:
                given = CheckedBatch(number, *self._checked(opened, number, batch))
                if given.header.producer_id >= 0:
                    found, hold = self._idempotent.append_run(
                        opened, (given,), held, adds_partition=adds_partition
                    )
                else:
                    found, hold = self._append_within(topic, gate, given, held)
                if hold is not None:
                    return outcomes, hold
                (outcome,) = found
                if isinstance(outcome, AppendedBatch):
                    # Only now, as the limit may have dropped the oldest events.
                    start = self._log.bounds(topic.partitions[number]).start
                    outcome = outcome._replace(start=start)
                outcomes.append(outcome)
            except MainstemError as error:
                outcomes.append(named(topic, error))
            held = None
        return outcomes, None

    def _append_within(
        self, topic: Topic, gate: Gate, given: CheckedBatch, held: HeldPublish | None
    ) -> AppendOutcomes:
        """Append a batch without a producer id within the backlog limit."""
        batches = ((topic.partitions[given.number], given.batch),)
        counts = {given.number: given.header.count}
        with self._lock:
            appended = gate.append(counts, self._now_ms(), held, lambda: self._log.append(batches))
        if isinstance(appended, HeldPublish):
            return [], appended
        return appended_batches((given,), appended), None

    def _checked(
        self, opened: OpenTopic, number: int, batch: WritableBatch
    ) -> tuple[WritableBatch, BatchHeader, int]:
        """Check a batch; return it as the topic stores it, its header, and its append time."""
        topic = opened.topic
        if not 0 <= number < len(topic.partitions):
            raise UnknownPartition(topic.name, number, len(topic.partitions))
        settings = topic.settings
        header = check_header(batch, max_bytes=settings.max_batch_bytes, topic=topic.name)
        if opened.takes_as_sent:
            return batch, header, -1
        now_ms = self._now_ms()
        check_events(topic, batch, now_ms)
        appended_ms = now_ms if settings.timestamps is Timestamps.APPENDED else -1
        return converted(topic, batch, now_ms), header, appended_ms


_UNDECIDED = MainstemError("a batch that was neither appended nor refused")
