"""A queue with a long backlog: publishing and consuming do as much as with an empty one."""

import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from time import perf_counter

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
    """Publish and consume for a while; return reads and looks at the log, and the seconds."""
    reads, looks, began = log.reads, log.looks, perf_counter()
    for _ in range(ROUNDS):
        publish(desk, log)
        acquired = desk.acquire(AT_ONCE, max_bytes=1 << 30)
        assert len(acquired) == AT_ONCE
        desk.ack(*acquired)
        log.committer.commit()
    return log.reads - reads, log.looks - looks, perf_counter() - began


def test_a_long_backlog_costs_neither_memory_nor_time(
    log: CountingLog, record_property: Callable[[str, object], None]
) -> None:
    desk = Desk(log, Clock())
    turn_over(desk, log)
    empty = turn_over(desk, log)
    if not LONG:
        tracemalloc.start()
    try:
        began = perf_counter()
        for number in range(WAITING // AT_ONCE):
            publish(desk, log)
            if number % 100 == 99:
                log.upkeep.tick()
        seconds = perf_counter() - began
        grown = tracemalloc.get_traced_memory()[0] if not LONG else 0
    finally:
        tracemalloc.stop()

    full = turn_over(desk, log)

    record_property("publish_seconds", round(seconds, 1))
    record_property("seconds_empty", round(empty[2], 2))
    record_property("seconds_full", round(full[2], 2))
    record_property("bytes_of_memory", grown)
    # With a backlog a read finds more than was just published, so there are no more of them.
    assert full[0] <= empty[0] * 1.2
    assert full[1] <= empty[1] * 1.2
    assert grown < WAITING * 10
    assert log.bounds(desk.broker.topic("orders").partitions[0]).end >= WAITING
