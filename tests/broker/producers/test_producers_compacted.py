"""Idempotent producers of a compacted topic over a restart, after their events were compacted."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.broker.brokers import Clock, append, new_broker

from mainstem.broker.broker import Broker
from mainstem.core.batch import batches, read_header
from mainstem.core.event import Event
from mainstem.core.records import build, events
from mainstem.core.topic_settings import TopicSettings
from mainstem.log.disk import DiskLog
from mainstem.log.upkeep.compaction import EMPTY_MS

SETTINGS = TopicSettings(compact=True, segment_bytes=64 * 1024)


class Place:
    """A broker on a disk, with a topic that is compacted when it is told to."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.clock = Clock()
        self.age_ms = 0
        """How long ago events happened when they are written."""
        self._open()
        self.broker.create_topic("t", SETTINGS)

    def _open(self) -> None:
        self.log = DiskLog.open(self._directory, now_ms=self.clock)
        self.broker: Broker = new_broker(self.log, self.clock)

    def reopen(self) -> None:
        self.log.close()
        self._open()

    def write(self, producer_id: int, sequence: int, key: bytes, size: int = 1) -> int:
        """Write a batch of one event; return its offset."""
        batch = build(
            [Event(b"v" * size, key)],
            now_ms=self.clock() - self.age_ms,
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=sequence,
        )
        published = append(self.broker, "t", 0, batch)
        published.durable.wait()
        return published.offset

    def fill(self, producer_id: int, first: int) -> None:
        """Write enough to close a segment."""
        for sequence in range(first, first + 5):
            self.write(producer_id, sequence, b"filler", 40_000)

    def compact(self) -> None:
        self.log.upkeep.tick()

    def batches(self) -> list[memoryview]:
        return list(batches(self.broker.read("t", 0, 0, 1 << 24).tobytes()))

    def left(self) -> list[tuple[int, int, int]]:
        """Return producer, sequence and number of events of each batch."""
        headers = [read_header(batch) for batch in self.batches()]
        return [(each.producer_id, each.base_sequence, each.count) for each in headers]


@pytest.fixture(params=["now", "long ago"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    """Producer 1 has written to a key that producer 2 has written to since."""
    place = Place(tmp_path / "log")
    if request.param == "long ago":
        place.age_ms = 10 * SETTINGS.tombstone_ms
    place.write(1, 0, b"a")
    place.write(1, 1, b"k")
    place.write(2, 0, b"k")
    place.fill(2, 1)
    place.compact()
    assert (1, 1, 1) not in place.left()
    yield place
    place.log.close()


def test_what_comes_next_is_taken(place: Place) -> None:
    place.reopen()

    assert place.write(1, 2, b"b") == 8


def test_what_comes_again_is_known(place: Place) -> None:
    place.reopen()

    assert place.write(1, 1, b"k") == 1


def test_what_is_left_of_a_producer_is_one_batch_without_events(place: Place) -> None:
    left = place.left()

    assert left[:3] == [(1, 0, 1), (1, 1, 0), (2, 0, 1)]
    read = [event for batch in place.batches() for event in events(batch)]
    assert [event.key for event in read[:2]] == [b"a", b"k"]


def test_it_goes_once_the_producer_has_written_more(place: Place) -> None:
    place.write(1, 2, b"b")
    place.fill(2, 6)

    place.compact()

    assert (1, 1, 0) not in place.left()


def test_it_stays_a_while_whenever_its_events_happened(place: Place) -> None:
    for first in (6, 11):
        place.clock.now_ms += EMPTY_MS // 3
        place.fill(2, first)
        place.compact()

    assert (1, 1, 0) in place.left()
    place.reopen()
    assert place.write(1, 1, b"k") == 1


def test_it_goes_a_while_after_its_events_went(place: Place) -> None:
    for first in (6, 11):
        place.clock.now_ms += EMPTY_MS // 2 + 1
        place.fill(2, first)
        place.compact()

    assert (1, 1, 0) not in place.left()
