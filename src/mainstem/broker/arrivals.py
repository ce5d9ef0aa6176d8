"""Record batches that arrived one behind the other, appended in as few writes as can be.

How this works: each batch stands for itself, and is checked, appended or refused as if it had come
alone. But they are given to the log at once, which writes those of one partition in one go and
commits all in one. The log, or what is known of an idempotent producer, may end such a run early;
what follows is the next run.
"""

from collections.abc import Sequence
from operator import itemgetter
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


class _Given(NamedTuple):
    """A batch that may be appended, and its place among all that arrived."""

    number: int
    batch: WritableBatch
    header: BatchHeader
    place: int


_NUMBER = itemgetter(0)


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
        outcomes: list[Outcome] = []
        given: list[_Given] = []
        for number, batch in batches:
            try:
                header = _checked(topic, number, batch)
            except MainstemError as error:
                outcomes.append(error)
                continue
            given.append(_Given(number, batch, header, len(outcomes)))
            outcomes.append(_UNDECIDED)
        # Those of one partition stay in the order in which they came.
        given.sort(key=_NUMBER)
        at = 0
        while at < len(given):
            try:
                appended = self._append_some(topic, given[at:] if at else given, joins)
            except MainstemError as error:
                outcomes[given[at].place] = _refusal(topic, error)
                at += 1
                continue
            durable = appended.durable
            for offset, start in zip(appended.offsets, appended.starts, strict=True):
                _, _, header, place = given[at]
                outcomes[place] = Arrived(offset, durable, header.count, start)
                at += 1
        return outcomes

    def _append_some(self, topic: Topic, given: Sequence[_Given], joins: bool) -> Appended:
        """Append the first batches: at least one."""
        number, _, header, _ = given[0]
        if header.producer_id >= 0:
            same = [each for each in given if each.number == number]
            batches, headers = [each.batch for each in same], [each.header for each in same]
            return self._producing.append_run(topic.name, number, batches, headers, joins=joins)
        partitions = topic.partitions
        plain: list[tuple[PartitionId, WritableBatch]] = []
        for number, batch, header, _ in given:
            if header.producer_id >= 0:
                break
            plain.append((partitions[number], batch))
        return self._log.append(plain, together=False)


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
