"""Disk space of a queue in which one message is never acknowledged and all later ones are."""

from collections.abc import Callable
from pathlib import Path
from time import perf_counter

from tests.broker.brokers import Clock
from tests.broker.queues.queue_consumers import Desk
from tests.long_runs import LONG

from mainstem.core.event import Event
from mainstem.log.disk import DiskLog
from mainstem.log.options import Options

COUNT = 10_000_000 if LONG else 200_000
AT_ONCE = 1_000
LIMIT_BYTES = 64 * 1024 * 1024 if LONG else 1024 * 1024
SEGMENT_BYTES = 16 * 1024 * 1024 if LONG else 512 * 1024
"""With ``--long`` as for the queues of AMQP clients."""
OPTIONS = (
    Options(background=False)
    if LONG
    else Options(background=False, checkpoint_wal_bytes=1024 * 1024, wal_step_bytes=64 * 1024)
)
VALUE = b"x" * 100


def used_bytes(path: Path) -> int:
    return sum(each.stat().st_blocks * 512 for each in path.rglob("*"))


def test_the_disk_is_free_again_though_the_first_message_is_stuck(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    clock = Clock()
    log = DiskLog.open(tmp_path, now_ms=clock, options=OPTIONS)
    desk = Desk(log, clock, lock_ms=86_400_000)
    desk.broker.alter_topic("orders", delete_acked=True, segment_bytes=SEGMENT_BYTES)
    desk.publish(b"stuck")
    log.committer.commit()
    (stuck,) = desk.acquire()
    began, most = perf_counter(), 0

    for number in range(COUNT // AT_ONCE):
        desk.broker.publish("orders", [Event(VALUE)] * AT_ONCE, 0)
        log.committer.commit()
        desk.ack(*desk.acquire(AT_ONCE, max_bytes=1 << 30))
        if number % 20 == 19:
            desk.clock.now_ms += 1_000
            desk.broker.tick()
            log.upkeep.tick()
            most = max(most, used_bytes(tmp_path))
    for _ in range(30):
        desk.clock.now_ms += 1_000
        log.committer.commit()
        desk.broker.tick()
        log.upkeep.tick()

    used = used_bytes(tmp_path)
    record_property("events", COUNT)
    record_property("most_bytes", most)
    record_property("used_bytes", used)
    record_property("seconds", round(perf_counter() - began, 1))
    assert used < LIMIT_BYTES
    desk.nack(stuck)
    assert [each.event.value for each in desk.acquire()] == [b"stuck"]
    log.close()
