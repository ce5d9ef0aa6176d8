"""What thinning keeps, on disk as in memory."""

import pytest
from tests.laws.log_implementations import FIRST, OpenQuiet, all_events, batch_of, open_partitions

from mainstem.core.batch import place, seal
from mainstem.core.event import Event
from mainstem.core.records import build
from mainstem.core.topic_settings import TopicSettings
from mainstem.core.transaction_markers import build_marker

SETTINGS = TopicSettings(segment_bytes=1_024)
COUNT = 60
VALUES = [b"%03d" % number * 20 for number in range(COUNT)]


class Thinned:
    """A partition of a log, and the upkeep that thins it."""

    def __init__(self, open_quiet: OpenQuiet) -> None:
        self.log, self.commit, self.keep_up = open_quiet(lambda: 0)
        open_partitions(self.log, FIRST, settings=SETTINGS)

    def fill(self) -> None:
        for value in VALUES:
            self.log.append([(FIRST, batch_of(value))])
        self.commit()

    def thin(self, before: int, *but: int) -> None:
        self.log.thin(FIRST, before, but)
        self.keep_up()

    @property
    def offsets(self) -> list[int]:
        return [offset for offset, _ in all_events(self.log, FIRST)]


@pytest.fixture
def thinned(open_quiet: OpenQuiet) -> Thinned:
    return Thinned(open_quiet)


def test_needed_events_stay_and_the_space_of_the_others_is_freed(thinned: Thinned) -> None:
    thinned.fill()
    before = thinned.log.bounds(FIRST)

    thinned.thin(COUNT - 5, 0, 30)

    after = thinned.log.bounds(FIRST)
    found = all_events(thinned.log, FIRST)
    assert after[:3] == before[:3]
    assert after.size_bytes < before.size_bytes / 2
    assert {0, 30, *range(COUNT - 5, COUNT)} <= {offset for offset, _ in found}
    assert all(VALUES[offset] == value for offset, value in found)


def test_the_newest_event_stays_so_that_a_read_before_the_tail_finds_one(thinned: Thinned) -> None:
    thinned.fill()

    thinned.thin(COUNT, 0)

    assert thinned.offsets == [0, COUNT - 1]
    assert thinned.log.read(FIRST, 1, 1).length
    thinned.log.append([(FIRST, batch_of(b"more"))])
    thinned.commit()
    thinned.thin(COUNT, 0)
    assert thinned.offsets[0] == 0
    assert thinned.offsets[-1] == COUNT


def test_of_a_batch_only_the_needed_events_stay(thinned: Thinned) -> None:
    for _ in range(10):
        thinned.log.append([(FIRST, batch_of(*VALUES[:20]))])
    thinned.commit()

    thinned.thin(150, 3, 4, 77)

    left = [offset for offset in thinned.offsets if offset < 140]
    assert left == [3, 4, 77]


def test_events_are_found_by_time_after_others_before_them_are_gone(thinned: Thinned) -> None:
    for number, value in enumerate(VALUES):
        thinned.log.append([(FIRST, batch_of(value, timestamps_ms=[1_000 + number]))])
    thinned.commit()

    thinned.thin(40, 7)

    assert thinned.log.offset_at(FIRST, 1_007) == (7, 1_007)
    assert thinned.log.offset_at(FIRST, 1_050) == (50, 1_050)


def test_a_needed_transaction_marker_stays_and_others_go(thinned: Thinned) -> None:
    event = [Event(VALUES[0])]
    for _ in range(20):
        written = build(
            event, now_ms=0, producer_id=5, producer_epoch=0, base_sequence=0, transactional=True
        )
        thinned.log.append([(FIRST, written)])
        thinned.log.append([(FIRST, build_marker(5, 0, committed=False, now_ms=0))])
    thinned.fill()

    thinned.thin(40, 1)

    data = thinned.log.read(FIRST, 0, 1).tobytes()
    assert int.from_bytes(data[:8], "big") == 1
    after = thinned.log.read(FIRST, 2, 1).tobytes()
    assert int.from_bytes(after[:8], "big") >= 40 - 10


def test_a_batch_that_cannot_be_read_stays_whole(thinned: Thinned) -> None:
    for _ in range(10):
        broken = batch_of(*VALUES[:10])
        del broken[-1]
        place(broken, 0, 0)
        seal(broken)
        thinned.log.append([(FIRST, broken)])
    thinned.log.append([(FIRST, batch_of(b"whole"))])
    thinned.commit()

    thinned.thin(100, 0)

    assert thinned.log.read(FIRST, 0, 1).length == len(broken)
