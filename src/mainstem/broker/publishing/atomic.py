"""Publishes to several topics, settles deliveries, sets definitions in one append: all or nothing.

How this works: everything is decided first. If a topic that limits its backlog has no room, the
whole publish waits or is refused. Otherwise all events, settlements and definitions are one append
of the log, which a crash keeps as a whole or not at all, and which becomes visible at once.
"""

from collections.abc import Callable, Mapping, Sequence
from operator import is_
from typing import NamedTuple

from mainstem.broker.definitions import Definitions, HeadChanges
from mainstem.broker.delays.delays import DelayedEvent, Delays
from mainstem.broker.publishing.batching import PartitionBatch, Published, runs
from mainstem.broker.publishing.overload import Gate, HeldPublish
from mainstem.broker.queues.queues import Queues, QueueSettlements
from mainstem.broker.state import OpenTopic, State
from mainstem.broker.topics.catalog import Topic
from mainstem.core.errors import UnknownPartition, UnknownTopic
from mainstem.core.event import Event
from mainstem.core.topic_settings import TopicSettings
from mainstem.log.commit.durable import AT_ONCE
from mainstem.log.port import Batches, Durable

Open = Callable[[str], OpenTopic]
_Part = tuple[OpenTopic, list[PartitionBatch]]


class TopicEvents(NamedTuple):
    """Events for one topic; without ``partition`` each event's key selects one (see ``runs``)."""

    topic: str
    events: Sequence[Event]
    partition: int | None = None


class PublishedAll(NamedTuple):
    """The positions of the published events, for each TopicEvents, and when all are durable."""

    published: list[Published]
    durable: Durable


class _Whole(NamedTuple):
    """Everything that one append contains."""

    parts: Sequence[_Part]
    delayed: Sequence[DelayedEvent]
    beside: Batches
    defined: HeadChanges | None


class _Built(NamedTuple):
    """Record batches that were built from ``events``, to be used again for equal events."""

    events: Sequence[Event]
    settings: TopicSettings
    made: list[PartitionBatch]


class AtomicPublish:
    """Publishes to several topics and settles deliveries atomically; never blocks."""

    def __init__(
        self,
        state: State,
        queues: Queues,
        delays: Delays,
        definitions: Definitions,
        open_topic: Open,
    ) -> None:
        self._state, self._now_ms = state, state.clocks.now_ms
        self._queues, self._delays, self._definitions = queues, delays, definitions
        self._open_topic = open_topic

    def publish_all(
        self,
        entries: Sequence[TopicEvents],
        settled: Sequence[QueueSettlements],
        held: HeldPublish | None,
        delayed: Sequence[DelayedEvent],
        defined: HeadChanges | None,
    ) -> PublishedAll | HeldPublish:
        """Append all events and settlements, or return a HeldPublish; raises with nothing done."""
        now_ms = self._now_ms()
        parts: list[_Part] = []
        last: _Built | None = None
        for entry in entries:
            topic, events, partition = entry
            opened = self._open_topic(topic)
            made = None if last is None else _shared(last, opened.topic, entry)
            if made is None:
                made = runs(opened.topic, events, partition, opened.turns, now_ms)
                last = _Built(events, opened.topic.settings, made)
            parts.append((opened, made))

        def append(beside: Batches) -> tuple[PublishedAll | HeldPublish, bool]:
            return self._append(_Whole(parts, delayed, beside, defined), held)

        return self._queues.settle_with(settled, append) if settled else append(())[0]

    def _append(
        self,
        whole: "_Whole",
        held: HeldPublish | None,
    ) -> tuple[PublishedAll | HeldPublish, bool]:
        parts, delayed, beside, defined = whole
        counts = _counts(parts)
        if not counts and defined is None:
            return self._write(parts, delayed, beside), True
        now_ms, definitions = self._now_ms(), self._definitions
        with self._state.lock:
            again = _admit(counts, now_ms, held) if counts else None
            if again is not None:
                return again, False
            decided = [] if defined is None else definitions.fold.change(*defined)
            published = self._write(parts, delayed, [*beside, *definitions.batches(decided)])
            definitions.apply(decided)
            for gate, by_partition in counts.items():
                gate.shed(by_partition, now_ms)
        definitions.tell(decided, published.durable)
        return published, True

    def _write(
        self, parts: Sequence[_Part], delayed: Sequence[DelayedEvent], beside: Batches
    ) -> PublishedAll:
        batches = [
            (opened.topic.partitions[run.partition], run.batch)
            for opened, made in parts
            for run in made
        ]
        try:
            is_empty = not (batches or delayed or beside)
            appended = None if is_empty else self._delays.append(batches, delayed, beside)
        except UnknownPartition as error:
            # The topic was deleted meanwhile; the log knows only topic ids.
            for opened, _ in parts:
                if opened.topic.id == error.topic:
                    raise UnknownTopic(opened.topic.name) from None
            raise
        durable = AT_ONCE if appended is None else appended.durable
        offsets = iter(() if appended is None else appended.offsets)
        published = [Published(made, [next(offsets) for _ in made], durable) for _, made in parts]
        return PublishedAll(published, durable)


def _shared(last: _Built, topic: Topic, entry: TopicEvents) -> list[PartitionBatch] | None:
    """Return the batches that were built for equal events, None if there are none.

    A message that goes to many queues is encoded once, and in memory once.
    """
    _, events, partition = entry
    if partition is None or not 0 <= partition < len(topic.partitions) or len(last.made) != 1:
        return None
    if len(events) != len(last.events) or not all(map(is_, events, last.events)):
        return None
    if topic.settings is not last.settings and topic.settings != last.settings:
        return None
    (first,) = last.made
    # The log writes offsets into the one batch, and stores it, for one partition after another.
    return [PartitionBatch(partition, first.batch, first.places)]


def _counts(parts: Sequence[_Part]) -> dict[Gate, dict[int, int]]:
    """Count the events per partition, for topics that limit their backlog."""
    counts: dict[Gate, dict[int, int]] = {}
    for opened, made in parts:
        if opened.gate is not None:
            of_topic = counts.setdefault(opened.gate, {})
            for run in made:
                of_topic[run.partition] = of_topic.get(run.partition, 0) + len(run.places)
    return counts


def _admit(
    counts: Mapping[Gate, Mapping[int, int]], now_ms: int, held: HeldPublish | None
) -> HeldPublish | None:
    """Check the backlog limits of all topics; the first full one holds or refuses the publish."""
    if held is not None:
        for gate in counts:
            gate.forget(held)
    for gate, by_partition in counts.items():
        if not gate.has_room(by_partition, now_ms):
            # ``held`` keeps its deadline, even if another gate holds it next.
            return gate.admit(by_partition, now_ms, held)
    if held is not None:
        next(iter(counts)).let_go(held, now_ms)
    return None
