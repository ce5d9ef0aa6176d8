"""Many partitions and segments: the cost per operation does not grow with their number."""

import sys
from types import FrameType

from tests.faults.disk.disk_steps import append, killed, opened
from tests.faults.disk.random_workload import RETAINED
from tests.faults.disk.simulated_disk import SimFiles
from tests.log.log_directory import ORDERS, SMALL

from mainstem.log.disk_partition import DiskPartition
from mainstem.log.port import PartitionId
from mainstem.log.recovery import recovery
from mainstem.log.segments.file_cache import FileCache
from mainstem.log.segments.segment import Segment


def lines_of_recovery(files: SimFiles) -> int:
    """Open a log, and return how many lines of the module recovery that took."""
    lines = 0

    def count(frame: FrameType, event: str, arg: object) -> object:
        nonlocal lines
        if frame.f_code.co_filename != recovery.__file__:
            return None
        lines += event == "line"
        return count

    before = sys.gettrace()
    sys.settrace(count)  # type: ignore[arg-type]
    try:
        opened(files)
    finally:
        sys.settrace(before)
    return lines


def with_gone_segments(partitions: int) -> SimFiles:
    """Return a disk after kill -9, on which each partition has lost a segment."""
    files = SimFiles()
    now = 0
    log = opened(files, lambda: now)
    for number in range(partitions):
        partition = PartitionId(f"{number:032x}", 0)
        log.ensure(partition, "retained", RETAINED)
        append(log, partition, b"old")
    log.upkeep.checkpoint()
    now = 20_000
    for partition in list(log._partitions):
        log.cut(partition, start=1)
    log.committer.commit()
    return killed(files)


def test_recovery_looks_for_gone_segments_of_a_partition_only_among_its_own() -> None:
    few = lines_of_recovery(with_gone_segments(50))

    many = lines_of_recovery(with_gone_segments(200))

    assert many < 5 * few


class Counted(Segment):
    """Says how often it was compared with another."""

    __slots__ = ()
    compared = 0

    def __eq__(self, other: object) -> bool:
        Counted.compared += 1
        return self is other

    __hash__ = Segment.__hash__


def test_replacing_segments_looks_at_each_once() -> None:
    files = SimFiles()
    file_cache = FileCache(files, 16)
    partition = DiskPartition(files, file_cache, ORDERS, "orders", SMALL)
    segments = [Counted(file_cache, partition.directory, base, 0, 0) for base in range(100)]
    partition.segments = list(segments)

    partition.replace(segments[:-1], [])

    assert partition.segments == segments[-1:]
    assert Counted.compared < 100
