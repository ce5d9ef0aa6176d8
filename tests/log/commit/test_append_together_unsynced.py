"""Batches for several ``disk`` partitions are visible at once, without a sync."""

import pytest
from tests.faults.disk.disk_steps import opened
from tests.faults.disk.simulated_disk import SimFiles, Sync
from tests.laws.log_implementations import Calls, all_events, batch_of

from mainstem.core.topic_settings import Durability, TopicSettings
from mainstem.log.disk import DiskLog
from mainstem.log.port import Appended, PartitionId

FIRST, SECOND, SYNCED, MEMORY = (PartitionId(f"{number:032x}", 0) for number in range(4))
EVENT = [(0, b"event")]


@pytest.fixture
def log(files: SimFiles) -> DiskLog:
    log = opened(files)
    for each, durability in (
        (FIRST, Durability.DISK),
        (SECOND, Durability.DISK),
        (SYNCED, Durability.FSYNC),
        (MEMORY, Durability.MEMORY),
    ):
        log.ensure(each, "queue", TopicSettings(durability=durability))
    log.committer.commit()
    # The first append of all notes durably that the log is in use.
    append(log, MEMORY, FIRST)
    log.cut(FIRST, end=0)
    log.cut(MEMORY, end=0)
    return log


def append(log: DiskLog, *partitions: PartitionId) -> Appended:
    return log.append([(each, batch_of(b"event")) for each in partitions])


def test_they_are_there_without_a_sync_and_survive_kill_9(log: DiskLog, files: SimFiles) -> None:
    wake = Calls()
    log.watch(SECOND, 0, wake)
    operations = len(files.trace)

    appended = append(log, FIRST, SECOND, MEMORY)

    assert appended.durable.done
    assert wake.count == 1
    assert [all_events(log, each) for each in (FIRST, SECOND, MEMORY)] == [EVENT] * 3
    assert not [each for each in files.trace[operations:] if isinstance(each, Sync)]
    again = opened(SimFiles(files.image()))
    assert [all_events(again, each) for each in (FIRST, SECOND)] == [EVENT] * 2


def test_with_a_synced_partition_all_of_them_wait(log: DiskLog) -> None:
    appended = append(log, FIRST, SYNCED)

    assert not appended.durable.done
    assert not all_events(log, FIRST)
    log.committer.commit()
    assert all_events(log, FIRST) == EVENT


def test_behind_batches_that_wait_they_wait_too(log: DiskLog) -> None:
    append(log, FIRST, SYNCED)

    appended = append(log, FIRST, SECOND)

    assert not appended.durable.done
    assert not all_events(log, SECOND)
    log.committer.commit()
    assert appended.durable.done
    assert all_events(log, FIRST) == [(0, b"event"), (1, b"event")]
    assert all_events(log, SECOND) == EVENT
