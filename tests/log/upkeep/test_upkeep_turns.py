"""Upkeep of many partitions: in each round those that have changed, and some of the others."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.log.log_directory import SMALL, Clock, append, open_log

from mainstem.core.event import Event
from mainstem.log.disk import DiskLog
from mainstem.log.disk_partition import DiskPartition
from mainstem.log.port import PartitionId
from mainstem.log.upkeep import upkeep
from mainstem.log.upkeep.retention import Retention

AT_ONCE, COUNT = 4, 10
PARTITIONS = [PartitionId(f"{number:032x}", 0) for number in range(COUNT)]
SETTINGS = SMALL.altered(retention_ms=1_000)


@pytest.fixture
def looked(monkeypatch: pytest.MonkeyPatch) -> list[PartitionId]:
    """The partitions that upkeep looked at."""
    monkeypatch.setattr(upkeep, "IDLE_AT_ONCE", AT_ONCE)
    found: list[PartitionId] = []
    real = Retention.apply

    def apply(self: Retention, partition: DiskPartition, now_ms: int) -> None:
        found.append(partition.id)
        real(self, partition, now_ms)

    monkeypatch.setattr(Retention, "apply", apply)
    return found


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def log(tmp_path: Path, clock: Clock) -> Iterator[DiskLog]:
    log = open_log(tmp_path, clock)
    for each in PARTITIONS:
        log.ensure(each, "orders", SETTINGS)
    log.upkeep.tick()
    yield log
    log.close()


def round_of(log: DiskLog, looked: list[PartitionId]) -> list[PartitionId]:
    """Return the partitions that the next round looks at."""
    looked.clear()
    log.upkeep._try_tick()
    return sorted(looked)


def test_idle_partitions_take_turns(log: DiskLog, looked: list[PartitionId]) -> None:
    rounds = [round_of(log, looked) for _ in range(4)]

    assert rounds == [PARTITIONS[:4], PARTITIONS[4:8], PARTITIONS[8:], PARTITIONS[:4]]


def test_a_tick_by_hand_looks_at_all(log: DiskLog, looked: list[PartitionId]) -> None:
    looked.clear()
    log.upkeep.tick()

    assert sorted(looked) == PARTITIONS


def test_what_has_changed_is_looked_at_in_the_next_round(
    log: DiskLog, looked: list[PartitionId]
) -> None:
    append(log, PARTITIONS[5], b"one")
    log.thin(PARTITIONS[6], 0, ())
    log.ensure(PARTITIONS[7], "orders", SETTINGS.altered(retention_ms=2_000))
    assert round_of(log, looked) == PARTITIONS[:4] + PARTITIONS[5:8]

    assert round_of(log, looked) == PARTITIONS[4:8]
    assert round_of(log, looked) == PARTITIONS[8:]
    assert round_of(log, looked) == PARTITIONS[:4]


def test_an_event_that_gets_too_old_is_deleted_when_its_partition_has_its_turn(
    log: DiskLog, clock: Clock, looked: list[PartitionId]
) -> None:
    append(log, PARTITIONS[9], Event(b"old", timestamp_ms=clock.now_ms))
    round_of(log, looked)
    clock.now_ms += 5_000

    for _ in range(2):
        assert log.bounds(PARTITIONS[9]).start == 0
        log.upkeep._try_tick()

    assert log.bounds(PARTITIONS[9]).start == 1


def test_a_partition_that_fails_is_looked_at_until_it_succeeds(
    log: DiskLog, looked: list[PartitionId], monkeypatch: pytest.MonkeyPatch
) -> None:
    append(log, PARTITIONS[9], b"one")
    with monkeypatch.context() as patched:
        patched.setattr(Retention, "apply", lambda *_: 1 / 0)
        log.upkeep._try_tick()
        log.upkeep._try_tick()
        assert log.upkeep.last_error is not None

    assert PARTITIONS[9] in round_of(log, looked)
    assert log.upkeep.last_error is None
    assert PARTITIONS[9] not in round_of(log, looked)
