"""Record batches that arrived one behind the other, appended in as few writes as can be.

How this works: each batch stands for itself, and is checked, appended or refused as if it had come
alone. But those of one partition are given to the log at once, which writes them at once. The log,
or what is known of an idempotent producer, may end such a run early; what follows is the next run.
"""

from collections.abc import Sequence
from typing import NamedTuple

from mainstem.broker.producing import Producing
from mainstem.broker.state import OpenTopic
from mainstem.broker.topics import Topic
from mainstem.core.batch import BatchHeader, check_header
from mainstem.core.errors import MainstemError, UnknownPartition, UnknownTopic
from mainstem.log.port import Appended, Durable, Log, PartitionId, WritableBatch


class Arrived(NamedTuple):
    """A batch that is in its partition, and when it is as durable as its topic says."""

    offset: int
    durable: Durable
    events: int
    start: int
    """Where its partition starts."""
    appended_ms: int = -1
    """The time that its topic gave to it, -1 if it keeps its own."""


Outcome = Arrived | MainstemError


class _Run:
    """The batches of one partition, their headers, and their places among all that arrived."""

    __slots__ = ("batches", "headers", "places")

    def __init__(self) -> None:
        self.batches: list[WritableBatch] = []
        self.headers: list[BatchHeader] = []
        self.places: list[int] = []


class Arrivals:
    """Appends what arrived for topics that take everything, at once and as it is."""

    def __init__(self, log: Log, producing: Producing) -> None:
        self._log = log
        self._producing = producing

    def append(
        self, opened: OpenTopic, batches: Sequence[tuple[int, WritableBatch]], *, joins: bool
    ) -> list[Outcome]:
        """Append batches to partitions by number; return what became of each."""
        topic = opened.topic
        if len(batches) == 1:
            return [self._append_one(topic, *batches[0], joins)]
        outcomes: list[Outcome] = []
        runs: dict[int, _Run] = {}
        for number, batch in batches:
            try:
                header = _checked(topic, number, batch)
            except MainstemError as error:
                outcomes.append(error)
                continue
            run = runs.get(number)
            if run is None:
                run = runs[number] = _Run()
            run.batches.append(batch)
            run.headers.append(header)
            run.places.append(len(outcomes))
            outcomes.append(_UNDECIDED)
        for number, run in runs.items():
            self._append_all(topic, number, run, outcomes, joins)
        return outcomes

    def _append_one(self, topic: Topic, number: int, batch: WritableBatch, joins: bool) -> Outcome:
        try:
            header = _checked(topic, number, batch)
            appended = self._append_some(topic, number, (batch,), (header,), joins)
        except MainstemError as error:
            return _refusal(topic, error)
        return Arrived(appended.offsets[0], appended.durable, header.count, appended.start)

    def _append_all(
        self, topic: Topic, number: int, run: _Run, outcomes: list[Outcome], joins: bool
    ) -> None:
        at = 0
        while at < len(run.places):
            batches, headers = run.batches[at:], run.headers[at:]
            try:
                appended = self._append_some(topic, number, batches, headers, joins)
            except MainstemError as error:
                outcomes[run.places[at]] = _refusal(topic, error)
                at += 1
            else:
                durable, start = appended.durable, appended.start
                for offset, header in zip(appended.offsets, headers, strict=False):
                    outcomes[run.places[at]] = Arrived(offset, durable, header.count, start)
                    at += 1

    def _append_some(
        self,
        topic: Topic,
        number: int,
        batches: Sequence[WritableBatch],
        headers: Sequence[BatchHeader],
        joins: bool,
    ) -> Appended:
        """Append the first batches to a partition: at least one."""
        if headers[0].producer_id >= 0:
            return self._producing.append_run(topic.name, number, batches, headers, joins=joins)
        partition = topic.partitions[number]
        given: list[tuple[PartitionId, WritableBatch]] = []
        for batch, header in zip(batches, headers, strict=True):
            if header.producer_id >= 0:
                break
            given.append((partition, batch))
        return self._log.append(given, together=False)


def _checked(topic: Topic, number: int, batch: WritableBatch) -> BatchHeader:
    if not 0 <= number < len(topic.partitions):
        raise UnknownPartition(topic.name, number, len(topic.partitions))
    return check_header(batch, max_bytes=topic.settings.max_batch_bytes, topic=topic.name)


def _refusal(topic: Topic, error: MainstemError) -> MainstemError:
    if isinstance(error, UnknownPartition) and error.topic != topic.name:
        # The log knows ids only: the topic was deleted meanwhile.
        return UnknownTopic(topic.name)
    return error


_UNDECIDED = MainstemError("a batch that was neither appended nor refused")
