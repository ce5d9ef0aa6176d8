"""Topics that delete what was acknowledged: whole segments, once nobody needs them any more."""

import pytest
from tests.broker.queues.queue_consumers import Desk
from tests.faults.disk_steps import opened
from tests.faults.simulated_disk import SimFiles

from mainstem.broker.queues.acked_events import INTERVAL_MS, LIVE_MS
from mainstem.broker.queues.records import Settlement
from mainstem.log.disk import DiskLog

COUNT = 40
VALUE = b"x" * 100


@pytest.fixture
def desk() -> Desk:
    found = Desk(opened(SimFiles()), lock_ms=60_000)
    found.broker.alter_topic("orders", delete_acked=True, segment_bytes=1024)
    return found


def publish(desk: Desk) -> None:
    for _ in range(COUNT):
        desk.publish(VALUE)
    commit(desk)


def commit(desk: Desk) -> None:
    assert isinstance(desk.log, DiskLog)
    desk.log.committer.commit()


def look(desk: Desk) -> int:
    """Let a moment pass; return where the topic begins now."""
    commit(desk)
    desk.clock.now_ms += INTERVAL_MS
    desk.broker.tick()
    return desk.broker.bounds("orders", 0).start


def test_what_every_queue_has_settled_is_deleted(desk: Desk) -> None:
    desk.queues.create("orders", "sms")
    publish(desk)
    desk.ack(*desk.acquire(COUNT))
    assert look(desk) == 0

    sms = desk.queues.acquire("orders", "sms", "ann", max_events=COUNT)
    said = [Settlement(0, each.event.offset, lease=each.lease) for each in sms]
    desk.queues.settle("orders", "sms", "ann", said)

    assert look(desk) == COUNT
    assert desk.broker.bounds("orders", 0).size_bytes < COUNT * len(VALUE)
    desk.publish(b"more")
    commit(desk)
    assert desk.values() == [b"more"]


def test_one_that_is_stuck_keeps_what_is_behind_it(desk: Desk) -> None:
    publish(desk)
    stuck, *others = desk.acquire(COUNT)
    desk.ack(*others)
    assert look(desk) == 0

    desk.ack(stuck)
    assert look(desk) == COUNT


def test_a_live_group_keeps_what_it_has_not_read(desk: Desk) -> None:
    publish(desk)
    desk.broker.commit("readers", {("orders", 0): 1})
    desk.ack(*desk.acquire(COUNT))
    assert look(desk) == 0

    desk.clock.now_ms += LIVE_MS
    desk.publish(VALUE)
    commit(desk)
    desk.ack(*desk.acquire())

    assert look(desk) == COUNT + 1


def test_nothing_is_deleted_where_that_is_not_set() -> None:
    desk = Desk(opened(SimFiles()))
    publish(desk)
    desk.ack(*desk.acquire(COUNT))

    assert look(desk) == 0
    assert desk.broker.wait_ms() != 0
