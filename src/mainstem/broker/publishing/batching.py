"""Builds record batches from events: chooses partitions, and splits by size."""

from collections.abc import Iterator, Sequence
from itertools import repeat

import msgspec

from mainstem.broker.publishing.conversion import converted
from mainstem.broker.topics.catalog import Topic
from mainstem.core.batch import HEADER_SIZE
from mainstem.core.errors import EventTooLarge, InvalidEvent, UnknownPartition, UntimelyEvent
from mainstem.core.event import NO_TIMESTAMP, Event, Position
from mainstem.core.partitioner import Turns, partition_for
from mainstem.core.records import build, build_one, check_records
from mainstem.log.port import Durable, WritableBatch

_RECORD_BYTES = 36
"""The largest overhead of a record without headers: seven numbers and a byte."""
_HEADER_BYTES = 10


class PartitionBatch(msgspec.Struct, frozen=True):
    """A record batch for one partition, and the indexes of its events."""

    partition: int
    batch: WritableBatch
    places: Sequence[int]


class Published(msgspec.Struct, frozen=True):
    """The positions of published events.

    ``durable`` is done when their topic's durability is reached.
    """

    runs: Sequence[PartitionBatch]
    offsets: Sequence[int]
    """The first offset of each record batch."""
    durable: Durable

    @property
    def position(self) -> Position:
        """The position of the first event."""
        return Position(self.runs[0].partition, self.offsets[0])

    @property
    def count(self) -> int:
        """The number of events."""
        return sum(len(run.places) for run in self.runs)

    @property
    def positions(self) -> list[Position]:
        """The position of each event, in the order in which the events were published."""
        if len(self.runs) == 1:
            # One after the other, as they were given.
            base = self.offsets[0]
            numbers = range(base, base + self.count)
            return list(map(Position, repeat(self.runs[0].partition), numbers))
        found = [Position(-1, -1)] * self.count
        for run, base in zip(self.runs, self.offsets, strict=True):
            for delta, place in enumerate(run.places):
                found[place] = Position(run.partition, base + delta)
        return found


_FIRST = range(1)


def runs(
    topic: Topic, events: Sequence[Event], partition: int | None, turns: Turns, now_ms: int
) -> list[PartitionBatch]:
    """Build record batches of events for ``partition``; if it is None, keys select partitions.

    All events without a key go to one partition, the next in turn.
    """
    if topic.settings.compact:
        _check_keys(topic, events)
    if topic.settings.bounds_times:
        _check_times(topic, [event.timestamp_ms for event in events], now_ms)
    count = len(topic.partitions)
    if partition is not None:
        if not 0 <= partition < count:
            raise UnknownPartition(topic.name, partition, count)
    elif count == 1:
        partition = 0
    elif len(events) == 1:
        key = events[0].key
        partition = turns.next(count) if key is None else partition_for(key, count)
    else:
        return _spread(topic, events, turns, now_ms)
    if len(events) == 1:
        return [PartitionBatch(partition, _one(topic, events[0], now_ms), _FIRST)]
    return list(_split(topic, partition, events, range(len(events)), now_ms))


def check_events(topic: Topic, batch: WritableBatch, now_ms: int) -> None:
    """Check the events of a producer's batch, if the topic's settings demand it."""
    settings = topic.settings
    if settings.deep:
        times = check_records(batch, needs_keys=settings.compact)
        if settings.bounds_times:
            _check_times(topic, times, now_ms)


def _spread(
    topic: Topic, events: Sequence[Event], turns: Turns, now_ms: int
) -> list[PartitionBatch]:
    """Group events by their key's partition; those without a key go to the next one in turn."""
    count = len(topic.partitions)
    places: dict[int, list[int]] = {}
    sticky = -1
    for place, event in enumerate(events):
        if event.key is not None:
            partition = partition_for(event.key, count)
        else:
            sticky = turns.next(count) if sticky < 0 else sticky
            partition = sticky
        places.setdefault(partition, []).append(place)
    return [
        run
        for partition, chosen in places.items()
        for run in _split(topic, partition, events, chosen, now_ms)
    ]


def _split(
    topic: Topic, partition: int, events: Sequence[Event], places: Sequence[int], now_ms: int
) -> Iterator[PartitionBatch]:
    """Split the events of one partition into batches within the topic's limit."""
    limit = topic.settings.max_batch_bytes - HEADER_SIZE
    first, size = 0, 0
    for at, place in enumerate(places):
        more = _most_bytes(events[place])
        if size and size + more > limit:
            yield _run(topic, partition, events, places[first:at], now_ms)
            first, size = at, 0
        size += more
    if first < len(places):
        yield _run(topic, partition, events, places[first:], now_ms)


def _run(
    topic: Topic, partition: int, events: Sequence[Event], places: Sequence[int], now_ms: int
) -> PartitionBatch:
    if len(places) == 1:
        return PartitionBatch(partition, _one(topic, events[places[0]], now_ms), places)
    batch = build([events[place] for place in places], now_ms=now_ms)
    if not topic.settings.verbatim:
        return PartitionBatch(partition, converted(topic, batch, now_ms), places)
    return PartitionBatch(partition, batch, places)


def _one(topic: Topic, event: Event, now_ms: int) -> WritableBatch:
    batch = build_one(event, now_ms)
    if len(batch) > topic.settings.max_batch_bytes:
        raise EventTooLarge(topic.name, len(batch), topic.settings.max_batch_bytes)
    return batch if topic.settings.verbatim else converted(topic, batch, now_ms)


def _most_bytes(event: Event) -> int:
    size = _RECORD_BYTES + len(event.key or b"") + len(event.value or b"")
    for name, value in event.headers:
        # A character takes at most four bytes.
        size += _HEADER_BYTES + 4 * len(name) + len(value or b"")
    return size


def _check_times(topic: Topic, times: Sequence[int], now_ms: int) -> None:
    """Refuse events whose timestamps are out of range; accept those without one."""
    ahead_ms, behind_ms = topic.settings.max_ahead_ms, topic.settings.max_behind_ms
    untimely = [
        place
        for place, timestamp_ms in enumerate(times)
        if timestamp_ms != NO_TIMESTAMP
        and (
            (ahead_ms is not None and timestamp_ms - now_ms > ahead_ms)
            or (behind_ms is not None and now_ms - timestamp_ms > behind_ms)
        )
    ]
    if untimely:
        raise UntimelyEvent(topic.name, untimely, times[untimely[0]], now_ms)


def _check_keys(topic: Topic, events: Sequence[Event]) -> None:
    for event in events:
        if event.key is None:
            raise InvalidEvent(
                f"topic {topic.name!r} is compacted by key, and this event has none: give it one"
            )
