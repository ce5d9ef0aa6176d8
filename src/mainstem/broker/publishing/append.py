"""Appends record batches that arrived together, in as few writes as possible.

How this works: each batch is checked, appended or refused on its own, as if it had come alone. But
all are passed to the log at once, which writes those of one partition in one write and commits all
together. The log, or the sequence numbers of an idempotent producer, may allow only the first of
them in one append; the remaining batches are the next append.
"""

from collections.abc import Sequence
from operator import itemgetter

from mainstem.broker.publishing.idempotent import IdempotentAppends
from mainstem.broker.publishing.outcome import (
    AppendedBatch,
    AppendOutcome,
    CheckedBatch,
    appended_batches,
)
from mainstem.broker.state import OpenTopic
from mainstem.broker.topics.catalog import Topic
from mainstem.core.batch import BatchHeader, check_header
from mainstem.core.errors import MainstemError, UnknownPartition, UnknownTopic
from mainstem.log.port import Log, PartitionId, WritableBatch

_NUMBER = itemgetter(0)


class BatchAppends:
    """Appends batches to topics without backlog limit, deep checks or rewriting."""

    def __init__(self, log: Log, idempotent: IdempotentAppends) -> None:
        self._log = log
        self._idempotent = idempotent

    def append(
        self,
        opened: OpenTopic,
        batches: Sequence[tuple[int, WritableBatch]],
        *,
        adds_partition: bool,
    ) -> list[AppendOutcome]:
        """Append batches to partitions, given by number; return an outcome for each batch."""
        topic = opened.topic
        if len(batches) == 1:
            return [self._append_one(topic, *batches[0], adds_partition)]
        outcomes: list[AppendOutcome] = []
        given: list[CheckedBatch] = []
        for number, batch in batches:
            try:
                header = _checked(topic, number, batch)
            except MainstemError as error:
                outcomes.append(error)
                continue
            given.append(CheckedBatch(number, batch, header, len(outcomes)))
            outcomes.append(_UNDECIDED)
        # A stable sort: batches of one partition stay in order.
        given.sort(key=_NUMBER)
        at = 0
        while at < len(given):
            try:
                found = self._append_some(topic, given[at:] if at else given, adds_partition)
            except MainstemError as error:
                found = [error]
            for outcome in found:
                outcomes[given[at].place] = _named(topic, outcome)
                at += 1
        return outcomes

    def _append_one(
        self, topic: Topic, number: int, batch: WritableBatch, adds_partition: bool
    ) -> AppendOutcome:
        """Append a single batch: the common case, made fast."""
        try:
            header = _checked(topic, number, batch)
            if header.producer_id >= 0:
                given = (CheckedBatch(number, batch, header),)
                return _named(
                    topic,
                    self._idempotent.append_run(topic.name, given, adds_partition=adds_partition)[
                        0
                    ],
                )
            appended = self._log.append(((topic.partitions[number], batch),))
        except MainstemError as error:
            return _named(topic, error)
        return AppendedBatch(
            appended.offsets[0], appended.durable, header.count, appended.starts[0]
        )

    def _append_some(
        self, topic: Topic, given: Sequence[CheckedBatch], adds_partition: bool
    ) -> Sequence[AppendOutcome]:
        """Append as many leading batches as one append can hold; return their outcomes."""
        partitions = topic.partitions
        plain: list[tuple[PartitionId, WritableBatch]] = []
        for number, batch, header, _ in given:
            if header.producer_id >= 0:
                break
            plain.append((partitions[number], batch))
        if not plain:
            return self._idempotent.append_run(topic.name, given, adds_partition=adds_partition)
        return appended_batches(given, self._log.append(plain, together=False))


def _checked(topic: Topic, number: int, batch: WritableBatch) -> BatchHeader:
    if not 0 <= number < len(topic.partitions):
        raise UnknownPartition(topic.name, number, len(topic.partitions))
    return check_header(batch, max_bytes=topic.settings.max_batch_bytes, topic=topic.name)


def _named(topic: Topic, outcome: AppendOutcome) -> AppendOutcome:
    if isinstance(outcome, UnknownPartition) and outcome.topic != topic.name:
        # The topic was deleted meanwhile; the log knows only topic ids.
        return UnknownTopic(topic.name)
    return outcome


_UNDECIDED = MainstemError("a batch that was neither appended nor refused")
