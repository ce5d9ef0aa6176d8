"""What time brings to queues: only those are looked at to which it may bring something."""

import pytest
from tests.broker.queues.queue_consumers import LOCK_MS, Desk

from mainstem.broker.queues.live_queue import LiveQueue
from mainstem.broker.queues.records import Outcome, QueueSettings

MANY = 20


@pytest.fixture
def looked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of queues that were looked at for what time brings."""
    found: list[str] = []
    expire, wait_ms = LiveQueue.expire, LiveQueue.wait_ms

    def count_expire(live: LiveQueue, monotonic_ms: int, now_ms: int) -> bool:
        found.append(live.key.name)
        return expire(live, monotonic_ms, now_ms)

    def count_wait(live: LiveQueue, monotonic_ms: int, now_ms: int) -> int | None:
        found.append(live.key.name)
        return wait_ms(live, monotonic_ms, now_ms)

    monkeypatch.setattr(LiveQueue, "expire", count_expire)
    monkeypatch.setattr(LiveQueue, "wait_ms", count_wait)
    return found


def pass_time(desk: Desk, passed_ms: int = 0) -> int | None:
    desk.clock.now_ms += passed_ms
    desk.queues.tick()
    return desk.queues.next_wait_ms()


def test_queues_of_which_nothing_is_out_are_not_looked_at(looked: list[str]) -> None:
    desk = Desk()
    for number in range(MANY):
        desk.queues.create("orders", f"s{number}")
    desk.publish(b"1")
    assert len(desk.queues.every()) == MANY + 1
    pass_time(desk)
    looked.clear()

    assert pass_time(desk) is None
    assert looked == []
    (delivery,) = desk.acquire()
    looked.clear()
    assert pass_time(desk) == LOCK_MS
    assert looked == ["emails"] * 2
    desk.ack(delivery)
    pass_time(desk)
    looked.clear()

    assert pass_time(desk) is None
    assert looked == []


def test_time_brings_back_what_is_out_or_waits_also_after_there_was_nothing() -> None:
    desk = Desk()
    desk.publish(b"1")
    assert pass_time(desk) is None

    (delivery,) = desk.acquire()
    assert pass_time(desk) == LOCK_MS
    assert pass_time(desk, LOCK_MS) is None
    (delivery,) = desk.acquire()
    desk.settle(Outcome.NACK, delivery, delay_ms=5_000)
    assert pass_time(desk) == 5_000

    assert pass_time(desk, 5_000) is None
    assert desk.values() == [b"1"]


def test_what_has_come_too_often_for_other_settings_is_buried_with_time() -> None:
    desk = Desk(max_deliveries=3)
    desk.publish(b"1")
    for _ in range(2):
        desk.nack(*desk.acquire())
    assert pass_time(desk) is None

    desk.queues.create("orders", "emails", QueueSettings(max_deliveries=2))
    pass_time(desk)

    assert desk.broker.bounds("orders.dead", 0).tail == 1


def test_time_brings_nothing_to_a_queue_that_is_gone(looked: list[str]) -> None:
    desk = Desk()
    desk.publish(b"1")
    desk.acquire()

    desk.queues.delete("orders", "emails")
    looked.clear()

    assert pass_time(desk, LOCK_MS) is None
    assert looked == []
