"""Failing upkeep: other work continues, no event is lost, and it is retried."""

import errno

import pytest
from tests.faults.disk.disk_steps import allow, append, batch, killed, opened, refuse, values
from tests.faults.disk.random_workload import A0, COMPACTED, FSYNC, OPTIONS, B, C, D
from tests.faults.disk.simulated_disk import SimFiles

from mainstem.core.errors import MainstemError, StorageFull
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
    for _ in range(2):
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


def test_a_checkpoint_does_not_wait_until_all_partitions_are_compacted(files: SimFiles) -> None:
    log = opened(files)
    log.ensure(B, "orders", FSYNC)
    compacted(log, C)
    compacted(log, D)
    log.upkeep.checkpoint()
    order: list[str] = []

    def before(kind: str, path: str) -> None:
        if kind == "sync" and path.endswith("-1.seg"):
            if not order:
                for _ in range(OPTIONS.checkpoint_batches):
                    log.append([(B, batch(b"meanwhile"))])
            order.append(path.split("/")[1][0])
        elif kind == "rename" and path == "manifest":
            order.append("checkpoint")

    files.before = before
    log.upkeep.tick()

    assert order == ["c", "checkpoint", "d"]


def test_a_checkpoint_that_fails_keeps_no_partition_from_being_looked_after(
    files: SimFiles,
) -> None:
    log = opened(files)
    log.ensure(B, "orders", FSYNC)
    compacted(log, C)
    compacted(log, D)
    for _ in range(OPTIONS.checkpoint_batches):
        append(log, B, b"more")
    tries: list[str] = []

    def before(kind: str, path: str) -> None:
        if "manifest" in path:
            tries.append(path)
            raise OSError(errno.ENOSPC, "full")

    files.before = before
    with pytest.raises(StorageFull):
        log.upkeep.tick()

    assert len(tries) == 1
    for partition in (C, D):
        names = files.names(f"partitions/{partition.topic_id}-0")
        assert f"{0:020d}-0.seg" not in names


def test_closing_waits_for_one_partition_not_for_all(files: SimFiles) -> None:
    log = opened(files)
    compacted(log, C)
    compacted(log, D)

    def before(kind: str, path: str) -> None:
        if path.endswith("-1.seg"):
            log.upkeep.stop()

    files.before = before
    log.upkeep.tick()

    names = [path for path in files.names_of if path.endswith("-1.seg")]
    assert [path.split("/")[1][0] for path in names] == ["c"]


@pytest.mark.parametrize(
    ("kind", "path"),
    [("open", "manifest"), ("create", ".seg")],
    ids=["checkpoint", "compaction"],
)
def test_what_fails_is_tried_again_later_each_time(
    files: SimFiles, kind: str, path: str, caplog: pytest.LogCaptureFixture
) -> None:
    log = opened(files)
    compacted(log)
    log.ensure(B, "orders", FSYNC)
    for _ in range(OPTIONS.checkpoint_batches):
        append(log, B, b"more")
    rounds = 0
    tried: list[int] = []

    def before(what: str, where: str) -> None:
        if what == kind and path in where:
            tried.append(rounds)
            raise OSError(errno.ENOSPC, "full")

    files.before = before
    while rounds < 150:
        log.upkeep._try_tick()
        assert isinstance(log.upkeep.last_error, StorageFull)
        rounds += 1

    assert tried == [0, 2, 5, 10, 19, 36, 69, 134]
    assert caplog.text.count("no space left") == 1


def test_what_is_asked_for_by_hand_is_tried_at_once(files: SimFiles) -> None:
    log = opened(files)
    compacted(log)
    written = log.bounds(C).size_bytes
    refuse(files, "create", ".seg")
    for _ in range(3):
        log.upkeep._try_tick()
    allow(files)

    log.upkeep.tick()

    assert log.bounds(C).size_bytes < written
    log.upkeep._try_tick()
    assert log.upkeep.last_error is None
