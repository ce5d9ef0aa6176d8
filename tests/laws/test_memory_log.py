"""What only the log in memory does: it bounds its memory by itself, and says when it is full."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.laws.log_implementations import (
    FIRST,
    SECOND,
    all_events,
    append,
    batch_of,
    events_in,
    open_partitions,
)

from mainstem.core.batch import seal
from mainstem.core.errors import StorageFull
from mainstem.core.event import Event
from mainstem.core.records import build
from mainstem.core.topic_settings import TopicSettings
from mainstem.log.memory import MemoryLog, MemoryPartition


def test_retention_by_size_drops_the_oldest_batches() -> None:
    log = MemoryLog()
    size = len(batch_of(b"0000"))
    open_partitions(log, FIRST, settings=TopicSettings(retention_bytes=size * 3))

    for number in range(5_000):
        append(log, FIRST, b"%04d" % number)

    assert log.bounds(FIRST)[:4] == (4_997, 5_000, 5_000, size * 3)
    assert all_events(log, FIRST) == [(4_997, b"4997"), (4_998, b"4998"), (4_999, b"4999")]


def test_the_newest_batch_stays_however_small_the_retention() -> None:
    log = MemoryLog()
    open_partitions(log, FIRST, settings=TopicSettings(retention_bytes=1))

    append(log, FIRST, b"a")
    append(log, FIRST, b"b")

    assert all_events(log, FIRST) == [(1, b"b")]


def test_retention_by_time_drops_what_is_too_old_at_upkeep() -> None:
    now_ms = 1_000
    log = MemoryLog(now_ms=lambda: now_ms)
    open_partitions(log, FIRST, settings=TopicSettings(retention_ms=100))
    for time in (1_000, 1_050, 1_200):
        log.append([(FIRST, batch_of(b"%d" % time, timestamps_ms=[time]))])

    now_ms = 1_120
    log.upkeep()
    assert all_events(log, FIRST) == [(1, b"1050"), (2, b"1200")]

    now_ms = 2_000
    log.upkeep()
    assert log.bounds(FIRST)[:4] == (3, 3, 3, 0)
    assert append(log, FIRST, b"next") == 3


def timeless(value: bytes) -> bytearray:
    """Return a batch without a time, as Kafka's producers may send it."""
    batch = batch_of(value)
    struct.pack_into(">qq", batch, 27, -1, -1)
    seal(batch)
    return batch


def test_what_has_no_time_is_as_old_as_its_append() -> None:
    now_ms = 1_000_000
    log = MemoryLog(now_ms=lambda: now_ms)
    open_partitions(log, FIRST, settings=TopicSettings(retention_ms=1_000))
    lasted: list[tuple[int, int]] = []

    for step in range(40):
        log.append([(FIRST, timeless(b"%d" % step))])
        log.upkeep()
        lasted.append((log.bounds(FIRST).start, step))
        now_ms += 100

    # Each goes at the first look after its 1,000 ms.
    assert lasted == [(max(0, step - 10), step) for step in range(40)]


def test_what_comes_where_the_end_was_cut_is_not_as_old_as_what_went() -> None:
    now_ms = 1_000_000
    log = MemoryLog(now_ms=lambda: now_ms)
    open_partitions(log, FIRST, settings=TopicSettings(retention_ms=1_000))
    log.append([(FIRST, timeless(b"a"))])
    log.append([(FIRST, timeless(b"b"))])
    log.upkeep()
    log.cut(FIRST, end=1)

    now_ms += 600
    log.append([(FIRST, timeless(b"c"))])
    log.upkeep()
    now_ms += 600
    log.upkeep()

    assert all_events(log, FIRST) == [(1, b"c")]


def test_looks_at_what_has_no_time_take_no_room_for_long() -> None:
    now_ms = 1_000_000
    partition = MemoryPartition("here", TopicSettings(retention_ms=100_000))

    for _ in range(1_000):
        partition.append(timeless(b"a"))
        partition.advance(partition.end)
        partition.expire(now_ms)
        now_ms += 200

    assert len(partition._looks) <= 102
    assert 495 <= partition.start <= 500


def test_a_time_is_found_after_the_batch_with_the_latest_time_was_dropped() -> None:
    log = MemoryLog()
    size = len(batch_of(b"a"))
    open_partitions(log, FIRST, settings=TopicSettings(retention_bytes=size * 2))

    for value, time in ((b"a", 900), (b"b", 100), (b"c", 200)):
        log.append([(FIRST, batch_of(value, timestamps_ms=[time]))])

    assert log.offset_at(FIRST, 150) == (2, 200)
    assert log.offset_at(FIRST, 300) is None


def test_a_full_log_refuses_and_changes_nothing() -> None:
    size = len(batch_of(b"a"))
    log = MemoryLog(max_bytes=size * 3)
    open_partitions(log)
    append(log, FIRST, b"a")
    append(log, FIRST, b"b")

    with pytest.raises(StorageFull, match="retention_bytes"):
        log.append([(FIRST, batch_of(b"c")), (SECOND, batch_of(b"d"))])

    assert log.bounds(FIRST).tail == 2
    assert log.bounds(SECOND).tail == 0
    log.cut(FIRST, start=1)
    log.append([(FIRST, batch_of(b"c")), (SECOND, batch_of(b"d"))])
    assert log.bounds(SECOND).tail == 1


def test_deleting_a_partition_gives_its_room_back() -> None:
    log = MemoryLog(max_bytes=len(batch_of(b"a")))
    open_partitions(log)
    append(log, FIRST, b"a")

    log.delete([FIRST])

    assert append(log, SECOND, b"b") == 0


def test_what_was_appended_but_not_shown_is_not_read_nor_dropped() -> None:
    size = len(batch_of(b"a"))
    partition = MemoryPartition("here", TopicSettings(retention_bytes=size))
    partition.append(batch_of(b"a"))
    partition.append(batch_of(b"b"))

    assert partition.bounds()[:3] == (0, 0, 2)
    assert partition.read(0, 1_000).length == 0

    partition.advance(1)
    assert partition.bounds()[:3] == (1, 1, 2)

    partition.advance(2)
    assert events_in(partition.read(1, 1_000)) == [(1, b"b")]


def keyed(*pairs: tuple[bytes, bytes | None], time: int = 1_000) -> bytearray:
    return build([Event(value, key, timestamp_ms=time) for key, value in pairs], now_ms=0)


compacted = TopicSettings(compact=True, segment_bytes=1_024, tombstone_ms=100)


def test_a_compacted_partition_keeps_the_latest_of_each_key_and_stays_small() -> None:
    log = MemoryLog()
    open_partitions(log, FIRST, settings=compacted)

    for number in range(2_000):
        log.append([(FIRST, keyed((b"key-%d" % (number % 3), b"%d" % number)))])

    bounds = log.bounds(FIRST)
    assert bounds[:3] == (0, 2_000, 2_000)
    assert bounds.size_bytes <= 2_048
    assert all_events(log, FIRST)[-3:] == [(n, b"%d" % n) for n in (1_997, 1_998, 1_999)]


def test_compaction_forgets_old_deletions_and_keeps_young_ones() -> None:
    log = MemoryLog()
    open_partitions(log, FIRST, settings=compacted)

    log.append([(FIRST, keyed((b"old", b"x"), (b"old", None), time=1_000))])
    log.append([(FIRST, keyed((b"young", b"x"), (b"young", None), time=1_950))])
    log.append([(FIRST, keyed((b"big", b"x" * 2_000), time=2_000))])

    assert [offset for offset, _ in all_events(log, FIRST)] == [3, 4]


def test_compaction_leaves_events_alone_until_they_are_old_enough() -> None:
    log = MemoryLog()
    open_partitions(log, FIRST, settings=compacted.altered(compact_after_ms=500))

    for time in range(0, 2_000, 100):
        log.append([(FIRST, keyed((b"key", b"x" * 100), time=time))])

    left = [offset for offset, _ in all_events(log, FIRST)]
    assert left[-5:] == [15, 16, 17, 18, 19]
    assert len(left) < 20


@pytest.mark.parametrize("after_ms", [0, 300])
@given(st.lists(st.tuples(st.integers(0, 4), st.integers(1, 300)), min_size=1, max_size=120))
def test_compaction_never_loses_the_latest_value_of_a_key(
    after_ms: int, writes: list[tuple[int, int]]
) -> None:
    log = MemoryLog()
    open_partitions(log, FIRST, settings=compacted.altered(compact_after_ms=after_ms))
    latest: dict[bytes, int] = {}

    for offset, (number, size) in enumerate(writes):
        key = b"key-%d" % number
        log.append([(FIRST, keyed((key, b"x" * size), time=offset * 50))])
        latest[key] = offset

    left = [offset for offset, _ in all_events(log, FIRST)]
    assert left == sorted(left)
    assert set(latest.values()) <= set(left)
    for offset in range(len(writes)):
        assert events_in(log.read(FIRST, offset, 1))[-1][0] >= offset
