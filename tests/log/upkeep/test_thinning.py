"""Thinning on disk: when it happens, and what cancels it."""

from pathlib import Path

import pytest
from tests.faults.disk.disk_steps import opened
from tests.faults.disk.simulated_disk import SimFiles
from tests.log.log_directory import ORDERS, SMALL, append, fill, open_log, stored

from mainstem.log.disk import DiskLog

VALUES = [b"value %04d " % number * 10 for number in range(100)]
LAST = len(VALUES) - 1


@pytest.fixture
def log(files: SimFiles) -> DiskLog:
    log = opened(files)
    log.ensure(ORDERS, "orders", SMALL)
    fill(log, ORDERS, VALUES)
    return log


def offsets(log: DiskLog) -> list[int]:
    return [offset for offset, _ in stored(log, ORDERS)]


def segments(files: SimFiles) -> int:
    return sum(path.endswith(".seg") for path in files.image().names)


def test_what_is_needed_again_before_upkeep_stays(log: DiskLog) -> None:
    log.thin(ORDERS, LAST, [0])
    log.thin(ORDERS, 0, [])

    log.upkeep.tick()

    assert offsets(log) == list(range(len(VALUES)))


def test_what_is_needed_again_while_segments_are_rewritten_stays(
    log: DiskLog, files: SimFiles
) -> None:
    def before(kind: str, path: str) -> None:
        if kind == "sync" and path.endswith("-1.seg"):
            log.thin(ORDERS, 10, [0])

    log.thin(ORDERS, LAST, [0])
    files.before = before
    log.upkeep.tick()
    files.before = lambda kind, path: None

    assert offsets(log) == list(range(len(VALUES)))
    log.upkeep.tick()
    assert offsets(log)[:1] == [0]
    assert set(range(10, len(VALUES))) <= set(offsets(log))


def test_more_that_goes_while_segments_are_rewritten_does_not_hinder_it(
    log: DiskLog, files: SimFiles
) -> None:
    def before(kind: str, path: str) -> None:
        if kind == "sync" and path.endswith("-1.seg"):
            log.thin(ORDERS, LAST, [])

    log.thin(ORDERS, LAST - 20, [0])
    files.before = before

    log.upkeep.tick()

    assert offsets(log)[0] == 0
    assert len(offsets(log)) < len(VALUES) / 2


def test_truncation_gives_offsets_to_other_events_which_are_needed(log: DiskLog) -> None:
    log.thin(ORDERS, LAST, [0])
    log.cut(ORDERS, end=50)
    fill(log, ORDERS, VALUES[50:])

    log.upkeep.tick()

    assert offsets(log) == list(range(len(VALUES)))


@pytest.mark.parametrize(("share", "is_closed"), [(0.5, True), (0.1, False)])
def test_the_last_segment_is_closed_early_if_it_is_large(
    log: DiskLog, share: float, is_closed: bool
) -> None:
    other = ORDERS._replace(number=1)
    size = log.bounds(ORDERS).size_bytes
    log.ensure(other, "orders", SMALL.altered(segment_bytes=round(size / share)))
    fill(log, other, VALUES)

    log.thin(other, LAST, [0])
    log.upkeep.tick()

    assert log.bounds(other).size_bytes == size / 50 if is_closed else size


def test_segments_of_which_nothing_is_needed_are_removed_with_their_files(
    log: DiskLog, files: SimFiles
) -> None:
    before = segments(files)

    log.thin(ORDERS, LAST, [0])
    log.upkeep.tick()

    assert segments(files) <= 3 < before
    assert log.bounds(ORDERS).size_bytes < 3 * len(VALUES[0]) * 2


def test_nothing_is_rewritten_again_for_the_same_events(log: DiskLog, files: SimFiles) -> None:
    log.thin(ORDERS, LAST, range(0, len(VALUES), 3))
    log.upkeep.tick()
    log.upkeep.tick()
    operations = len(files.trace)

    log.upkeep.tick()

    assert len(files.trace) == operations


def test_a_thinned_partition_is_the_same_after_it_was_opened_again(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    log.ensure(ORDERS, "orders", SMALL)
    fill(log, ORDERS, VALUES)
    log.thin(ORDERS, LAST, [3, 40])
    log.upkeep.tick()
    kept = stored(log, ORDERS)
    log.close()

    again = open_log(tmp_path)

    assert again.recovery.clean
    assert stored(again, ORDERS) == kept
    append(again, ORDERS, b"more")
    assert stored(again, ORDERS) == [*kept, (LAST + 1, b"more")]
    again.thin(ORDERS, LAST, [40])
    again.upkeep.tick()
    assert next(offset for offset, _ in stored(again, ORDERS)) == 40
    again.close()
