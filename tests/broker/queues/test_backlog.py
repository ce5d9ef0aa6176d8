"""A queue with a long backlog: publishing and consuming do as much as with an empty one.

With ``--long`` processor time and resident memory are judged, too.
"""

import os
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from time import perf_counter, process_time

import pytest
from tests.broker.brokers import Clock
from tests.broker.queues.queue_consumers import Desk
from tests.long_runs import LONG

from mainstem.core.event import Event
from mainstem.log.disk import DiskLog
from mainstem.log.options import Options
from mainstem.log.port import Bounds, PartitionId, Slice

WAITING = 10_000_000 if LONG else 100_000
AT_ONCE = 1_000
ROUNDS = 20
VALUE = b"x" * 100
TRIES = 5 if LONG else 1
MAX_GROWTH_BYTES = 64 * 1024 * 1024


class CountingLog(DiskLog):
    """Counts what a queue asks of its log."""

    reads = looks = 0

    def read(self, partition: PartitionId, offset: int, max_bytes: int) -> Slice:
        """Count."""
        self.reads += 1
        return super().read(partition, offset, max_bytes)

    def bounds(self, partition: PartitionId) -> Bounds:
        """Count."""
        self.looks += 1
        return super().bounds(partition)


@pytest.fixture
def log(tmp_path: Path) -> Iterator[CountingLog]:
    options = Options(background=False)
    log = CountingLog.open(tmp_path, now_ms=lambda: 0, options=options)
    assert isinstance(log, CountingLog)
    yield log
    log.close()


def publish(desk: Desk, log: CountingLog) -> None:
    desk.broker.publish("orders", [Event(VALUE)] * AT_ONCE, 0)
    log.committer.commit()


def turn_over(desk: Desk, log: CountingLog) -> tuple[int, int, float]:
    """Publish and consume for a while; return reads and looks at the log, and processor time."""
    reads, looks, began = log.reads, log.looks, process_time()
    for _ in range(ROUNDS):
        publish(desk, log)
        acquired = desk.acquire(AT_ONCE, max_bytes=1 << 30)
        assert len(acquired) == AT_ONCE
        desk.ack(*acquired)
        log.committer.commit()
    return log.reads - reads, log.looks - looks, process_time() - began


def least(desk: Desk, log: CountingLog) -> tuple[int, int, float]:
    """Turn over several times; return the least of each, as a busy machine takes longer."""
    reads, looks, seconds = zip(*(turn_over(desk, log) for _ in range(TRIES)), strict=True)
    return min(reads), min(looks), min(seconds)


def resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def test_a_long_backlog_costs_neither_memory_nor_time(
    log: CountingLog, record_property: Callable[[str, object], None]
) -> None:
    desk = Desk(log, Clock())
    turn_over(desk, log)
    empty = least(desk, log)
    resident = resident_bytes()
    if not LONG:
        tracemalloc.start()
    try:
        began = perf_counter()
        for number in range(WAITING // AT_ONCE):
            publish(desk, log)
            if number % 100 == 99:
                log.upkeep.tick()
        seconds = perf_counter() - began
        grown = tracemalloc.get_traced_memory()[0] if not LONG else resident_bytes() - resident
    finally:
        tracemalloc.stop()

    full = least(desk, log)

    record_property("publish_seconds", round(seconds, 1))
    record_property("cpu_seconds_empty", round(empty[2], 3))
    record_property("cpu_seconds_full", round(full[2], 3))
    record_property("bytes_of_memory", grown)
    # With a backlog a read finds more than was just published, so there are no more of them.
    assert full[0] <= empty[0] * 1.2
    assert full[1] <= empty[1] * 1.2
    assert grown < (MAX_GROWTH_BYTES if LONG else WAITING * 10)
    assert not LONG or full[2] <= empty[2] * 1.2
    assert log.bounds(desk.broker.topic("orders").partitions[0]).end >= WAITING
