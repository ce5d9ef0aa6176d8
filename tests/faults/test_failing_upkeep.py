"""Upkeep that fails: it goes on with the rest, costs nothing, and is tried again."""

import pytest
from tests.faults.disks import allow, append, batch, killed, opened, values
from tests.faults.lives import A0, COMPACTED, FSYNC, C
from tests.faults.simdisk import SimFiles

from mainstem.core.errors import MainstemError
from mainstem.log.disk import DiskLog
from mainstem.log.port import PartitionId


@pytest.fixture
def files() -> SimFiles:
    return SimFiles()


def compacted(log: DiskLog, partition: PartitionId = C) -> None:
    """Write what is worth compacting."""
    log.ensure(partition, "states", COMPACTED)
    for number in range(12):
        log.append([(partition, batch(b"%d" % number * 400, key=b"k"))])
        log.committer.commit()


def exhaust(files: SimFiles, kind: str, part: str) -> None:
    """Let what the log did not foresee happen at these operations."""

    def before(what: str, path: str) -> None:
        if what == kind and part in path:
            raise MemoryError

    files.before = before


def test_what_nobody_foresaw_does_not_end_upkeep(
    files: SimFiles, caplog: pytest.LogCaptureFixture
) -> None:
    log = opened(files)
    compacted(log)
    written = log.bounds(C).size_bytes
    exhaust(files, "grow", "-1.seg")

    log.upkeep._try_tick()

    assert isinstance(log.upkeep.last_error, MainstemError)
    assert "MemoryError" in caplog.text
    left = [name for name in files.names(f"partitions/{C.topic_id}-0") if "-1." in name]
    assert left == []
    allow(files)
    log.upkeep._try_tick()
    assert log.upkeep.last_error is None
    assert log.bounds(C).size_bytes < written


def test_what_nobody_foresaw_in_one_partition_does_not_stop_the_others(files: SimFiles) -> None:
    log = opened(files)
    compacted(log)
    compacted(log, A0)
    written = log.bounds(A0).size_bytes
    exhaust(files, "grow", C.topic_id)

    with pytest.raises(MemoryError):
        log.upkeep.tick()

    assert log.bounds(A0).size_bytes < written
    assert not log.upkeep.due


def test_a_checkpoint_that_ended_in_what_nobody_foresaw_loses_nothing(files: SimFiles) -> None:
    log = opened(files)
    log.ensure(A0, "orders", FSYNC)
    append(log, A0, b"first")
    exhaust(files, "sync", ".seg")
    with pytest.raises(MemoryError):
        log.upkeep.checkpoint()
    allow(files)

    log.upkeep.checkpoint()

    assert values(opened(killed(files)), A0) == [b"first"]
