"""Retention, compaction and checkpoints: what they remove and keep, and recovery afterwards."""

from pathlib import Path

import pytest
from tests.log.log_directory import ORDERS, PAYMENTS, SMALL, Clock, append, fill, open_log, stored

from mainstem.core.batch import batches, read_header
from mainstem.core.errors import OffsetOutOfRange, UnknownPartition
from mainstem.core.event import Event
from mainstem.core.records import build, events
from mainstem.core.topic_settings import Durability, TopicSettings
from mainstem.log.disk import DiskLog

VALUES = [b"value %04d " % number * 10 for number in range(100)]


def seg_files(path: Path) -> list[str]:
    return sorted(each.name for each in (path / "partitions").glob("*/*.seg"))


def test_retention_by_size_drops_whole_segments_from_the_start(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    log.ensure(ORDERS, "orders", SMALL.altered(retention_bytes=6000))
    fill(log, ORDERS, VALUES)
    before = seg_files(tmp_path)

    log.upkeep.tick()

    start, tail, _, size, _ = log.bounds(ORDERS)
    assert 0 < start < tail == len(VALUES)
    assert 6000 <= size < 6000 + 2048
    assert stored(log, ORDERS) == list(enumerate(VALUES))[start:]
    assert len(seg_files(tmp_path)) < len(before)
    with pytest.raises(OffsetOutOfRange):
        log.read(ORDERS, start - 1, 1000)
    log.close()


def test_retention_by_time_goes_by_the_newest_event_of_a_segment(tmp_path: Path) -> None:
    clock = Clock()
    log = open_log(tmp_path, clock)
    log.ensure(ORDERS, "orders", SMALL.altered(retention_ms=1000))
    for number, value in enumerate(VALUES):
        append(log, ORDERS, Event(value, timestamp_ms=clock.now_ms + number * 100))
    clock.now_ms += 5000

    log.upkeep.tick()

    kept = stored(log, ORDERS)
    oldest_that_must_stay = 40
    assert kept[-1][0] == len(VALUES) - 1
    assert 0 < kept[0][0] <= oldest_that_must_stay
    log.close()


@pytest.mark.parametrize("segment_ms", [500, None])
def test_an_idle_segment_is_closed_so_that_retention_may_reach_it(
    tmp_path: Path, segment_ms: int | None
) -> None:
    clock = Clock()
    log = open_log(tmp_path, clock)
    log.ensure(ORDERS, "orders", SMALL.altered(retention_ms=1000, segment_ms=segment_ms))
    append(log, ORDERS, Event(b"old", timestamp_ms=clock.now_ms))
    clock.now_ms += 5000

    log.upkeep.tick()

    assert log.bounds(ORDERS)[:3] == (1, 1, 1)
    append(log, ORDERS, b"new")
    assert stored(log, ORDERS) == [(1, b"new")]
    log.close()


def keyed(log: DiskLog, rounds: int, keys: int) -> None:
    for number in range(rounds):
        key = b"%d" % (number % keys)
        append(log, ORDERS, Event(b"%d" % number * 20, key=key, timestamp_ms=number))


def everything(log: DiskLog) -> list[Event]:
    found: list[Event] = []
    offset, tail = log.bounds(ORDERS)[:2]
    while offset < tail:
        data = log.read(ORDERS, offset, 500).tobytes()
        for batch in batches(data):
            found += events(batch)
            offset = read_header(batch).last_offset + 1
    return found


def latest(log: DiskLog) -> dict[bytes | None, tuple[int, bytes | None]]:
    return {event.key: (event.offset, event.value) for event in everything(log)}


def test_compaction_keeps_the_latest_of_each_key_at_its_offset(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    log.ensure(ORDERS, "orders", TopicSettings(compact=True, segment_bytes=2048))
    keyed(log, 200, 9)
    before, size = latest(log), log.bounds(ORDERS).size_bytes

    log.upkeep.tick()

    assert latest(log) == before
    assert log.bounds(ORDERS).size_bytes < size / 3
    assert log.bounds(ORDERS)[:2] == (0, 200)
    log.close()
    log = open_log(tmp_path)
    assert latest(log) == before
    log.close()


def test_compaction_leaves_events_alone_until_they_are_old_enough(tmp_path: Path) -> None:
    clock = Clock(now_ms=1_100)
    log = open_log(tmp_path, clock)
    log.ensure(
        ORDERS, "orders", TopicSettings(compact=True, segment_bytes=2048, compact_after_ms=1_000)
    )
    keyed(log, 200, 9)
    size = log.bounds(ORDERS).size_bytes

    log.upkeep.tick()
    young = [event.offset for event in everything(log) if (event.offset or 0) >= 101]
    old = log.bounds(ORDERS).size_bytes
    clock.now_ms += 100
    log.upkeep.tick()

    assert young == list(range(101, 200))
    assert log.bounds(ORDERS).size_bytes < old < size
    log.close()


def test_compaction_waits_for_its_share_or_for_an_age(tmp_path: Path) -> None:
    clock = Clock()
    log = open_log(tmp_path, clock)
    settings = TopicSettings(compact=True, segment_bytes=2048, compact_share=1.0)
    log.ensure(ORDERS, "orders", settings)
    keyed(log, 200, 200)
    log.upkeep.tick()
    keyed(log, 200, 9)
    size = log.bounds(ORDERS).size_bytes

    log.upkeep.tick()
    without_an_age = log.bounds(ORDERS).size_bytes
    log.ensure(ORDERS, "orders", settings.altered(compact_within_ms=1_000))
    log.upkeep.tick()
    before_the_age = log.bounds(ORDERS).size_bytes
    clock.now_ms += 1_000
    log.upkeep.tick()

    assert without_an_age == before_the_age == size
    assert len(everything(log)) == 200
    log.close()


def test_compaction_survives_a_crash_right_after_it(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    log.ensure(ORDERS, "orders", TopicSettings(compact=True, segment_bytes=2048))
    keyed(log, 200, 9)
    before = latest(log)
    log.upkeep.tick()
    keyed(log, 3, 9)
    after = latest(log)
    log.committer.commit()
    log._files.unlock()

    recovered = open_log(tmp_path)

    assert not recovered.recovery.clean
    assert recovered.recovery.findings == []
    assert latest(recovered) == after != before
    recovered.close()


def test_a_tombstone_is_kept_for_a_while_and_then_forgotten(tmp_path: Path) -> None:
    clock = Clock()
    log = open_log(tmp_path, clock)
    log.ensure(ORDERS, "orders", TopicSettings(compact=True, segment_bytes=2048, tombstone_ms=1000))
    append(log, ORDERS, Event(b"there", key=b"gone", timestamp_ms=clock.now_ms))
    append(log, ORDERS, Event(None, key=b"gone", timestamp_ms=clock.now_ms))
    for number in range(60):
        append(log, ORDERS, Event(b"x" * 90, key=b"%d" % number, timestamp_ms=clock.now_ms))

    log.upkeep.tick()
    assert latest(log)[b"gone"] == (1, None)
    clock.now_ms += 2000
    for number in range(100):
        append(log, ORDERS, Event(b"y" * 90, key=b"%d" % number, timestamp_ms=clock.now_ms))
    log.upkeep.tick()

    assert b"gone" not in latest(log)
    log.close()


def test_a_checkpoint_leaves_nothing_for_recovery(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    log.ensure(ORDERS, "orders", SMALL)
    log.ensure(PAYMENTS, "payments", TopicSettings())
    fill(log, ORDERS, VALUES)
    fill(log, PAYMENTS, VALUES[:5])
    log.upkeep.checkpoint()
    log._files.unlock()

    recovered = open_log(tmp_path)

    assert recovered.recovery.clean
    assert stored(recovered, ORDERS) == list(enumerate(VALUES))
    assert stored(recovered, PAYMENTS) == list(enumerate(VALUES[:5]))
    recovered.close()


def test_after_a_crash_only_what_came_after_the_checkpoint_is_read(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    log.ensure(ORDERS, "orders", SMALL)
    fill(log, ORDERS, VALUES)
    log.upkeep.checkpoint()
    append(log, ORDERS, b"after")
    log._files.unlock()

    recovered = open_log(tmp_path)

    assert recovered.recovery.scanned_bytes < 200
    assert stored(recovered, ORDERS)[-1] == (len(VALUES), b"after")
    assert recovered.bounds(ORDERS).epoch == 1
    recovered.close()


def test_a_deleted_topic_leaves_no_files(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    log.ensure(ORDERS, "orders", SMALL)
    fill(log, ORDERS, VALUES)

    log.delete([ORDERS])
    log.upkeep.tick()

    assert list((tmp_path / "partitions").iterdir()) == []
    with pytest.raises(UnknownPartition):
        log.bounds(ORDERS)
    log.close()


def test_write_ahead_files_are_used_again_not_piled_up(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    log.ensure(PAYMENTS, "payments", TopicSettings())
    for value in VALUES[:20]:
        append(log, PAYMENTS, value)
        log.upkeep.checkpoint()

    assert len(list((tmp_path / "wal").iterdir())) <= 2
    assert stored(log, PAYMENTS) == list(enumerate(VALUES[:20]))
    log.close()


def test_fsync_events_are_visible_only_after_the_commit(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    log.ensure(PAYMENTS, "payments", TopicSettings(durability=Durability.FSYNC))

    appended = log.append([(PAYMENTS, build([Event(b"v")], now_ms=0))])

    assert not appended.durable.done
    assert log.bounds(PAYMENTS)[:3] == (0, 0, 1)
    log.committer.commit()
    assert appended.durable.done
    assert stored(log, PAYMENTS) == [(0, b"v")]
    log.close()
