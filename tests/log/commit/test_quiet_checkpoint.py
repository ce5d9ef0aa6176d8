"""The disk space of the write-ahead log is given back after a while without writes."""

from pathlib import Path

import pytest
from tests.log.log_directory import ORDERS, Clock, append, open_log, stored

from mainstem.core.topic_settings import TopicSettings
from mainstem.log.commit.checkpoint import QUIET_MS
from mainstem.log.disk import DiskLog

STEP = 4 * 1024
VALUE = b"x" * 1024


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def log(tmp_path: Path, clock: Clock) -> DiskLog:
    log = open_log(tmp_path, clock, wal_step_bytes=STEP, checkpoint_wal_bytes=64 * STEP)
    log.ensure(ORDERS, "orders", TopicSettings())
    return log


def used(path: Path) -> int:
    return sum(each.stat().st_size for each in (path / "wal").iterdir())


def write(log: DiskLog, count: int) -> None:
    for _ in range(count):
        append(log, ORDERS, VALUE)


def test_space_is_given_back_when_nothing_is_written(
    log: DiskLog, tmp_path: Path, clock: Clock
) -> None:
    write(log, 400)
    log.upkeep.tick()
    write(log, 40)
    log.upkeep.tick()
    assert used(tmp_path) > 64 * STEP

    clock.now_ms += QUIET_MS
    log.upkeep.tick()

    assert used(tmp_path) < 4 * STEP
    write(log, 1)
    assert len(stored(log, ORDERS)) == 441
    log.close()


def test_space_is_kept_for_a_log_that_is_written_to(
    log: DiskLog, tmp_path: Path, clock: Clock
) -> None:
    write(log, 400)
    for _ in range(5):
        log.upkeep.tick()
        write(log, 10)
        clock.now_ms += QUIET_MS

    assert used(tmp_path) > 64 * STEP
    log.close()


def test_a_small_log_is_left_alone(log: DiskLog, tmp_path: Path, clock: Clock) -> None:
    write(log, 2)
    log.upkeep.tick()
    before = sorted((tmp_path / "wal").iterdir())

    clock.now_ms += 2 * QUIET_MS
    log.upkeep.tick()

    assert sorted((tmp_path / "wal").iterdir()) == before
    log.close()
