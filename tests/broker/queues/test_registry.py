"""Timers of queues: only queues with a passed deadline are checked."""

import pytest
from tests.broker.queues.queue_consumers import LOCK_MS, Desk

from mainstem.broker.broker import Broker
from mainstem.broker.queues.live_queue import LiveQueue
from mainstem.broker.queues.records import Outcome, QueueSettings, Settlement
from mainstem.core.event import Event

MANY = 20


@pytest.fixture
def looked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of queues that were looked at for what time brings."""
    found: list[str] = []
    expire, deadlines = LiveQueue.expire, LiveQueue.deadlines

    def count_expire(live: LiveQueue, monotonic_ms: int, now_ms: int) -> bool:
        found.append(live.key.name)
        return expire(live, monotonic_ms, now_ms)

    def count_deadlines(live: LiveQueue) -> tuple[int | None, int | None, bool]:
        found.append(live.key.name)
        return deadlines(live)

    monkeypatch.setattr(LiveQueue, "expire", count_expire)
    monkeypatch.setattr(LiveQueue, "deadlines", count_deadlines)
    return found


def pass_time(desk: Desk, passed_ms: int = 0) -> int | None:
    desk.clock.now_ms += passed_ms
    desk.queues.registry.tick()
    return desk.queues.registry.next_wait_ms()


def test_only_queues_to_which_time_brings_something_are_looked_at(looked: list[str]) -> None:
    desk = Desk()
    for number in range(MANY):
        desk.queues.create("orders", f"s{number}", QueueSettings(lock_ms=LOCK_MS))
    desk.publish(b"1")
    assert len(desk.queues.every()) == MANY + 1
    for number in range(MANY):
        desk.acquire(name=f"s{number}")
    desk.clock.now_ms += 1
    desk.acquire()
    pass_time(desk)
    looked.clear()

    assert pass_time(desk) == LOCK_MS - 1
    assert looked == []
    assert pass_time(desk, LOCK_MS - 1) == 1
    assert "emails" not in looked
    looked.clear()
    pass_time(desk, 1)
    assert set(looked) == {"emails"}


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


def test_leases_of_an_earlier_process_do_not_hold() -> None:
    desk = Desk()
    desk.publish(b"1", b"2")
    first = {each.lease for each in desk.acquire(2)}

    after = desk.restarted()

    assert first.isdisjoint(each.lease for each in after.acquire(2))


def test_what_was_handed_out_before_is_told_to_come_again_also_if_that_did_not_count() -> None:
    desk = Desk()
    desk.publish(b"1", b"2")
    (delivery,) = desk.acquire()
    assert not delivery.redelivered
    desk.settle(Outcome.RELEASE, delivery)

    again, fresh = desk.acquire(2)

    assert (again.count, again.redelivered) == (1, True)
    assert (fresh.count, fresh.redelivered) == (1, False)


@pytest.mark.parametrize("crashed", [True, False])
def test_what_may_have_been_out_in_a_crash_is_told_to_come_again(crashed: bool) -> None:
    desk = Desk(max_unsettled=2)
    desk.publish(b"1", b"2", b"3")
    desk.acquire()
    desk.broker.close()
    broker = Broker(desk.log, desk.clock, crashed=crashed)
    broker.publish("orders", [Event(b"4")])

    found = []
    for _ in range(4):
        (delivery,) = broker.queues.acquire("orders", "emails", "ann")
        found.append(delivery.redelivered)
        broker.queues.settle("orders", "emails", "ann", [Settlement(0, delivery.event.offset)])

    assert found == [crashed, crashed, False, False]


@pytest.mark.parametrize("crashes_first", [True, False])
def test_a_crash_after_which_the_log_looks_clean_is_noticed(crashes_first: bool) -> None:
    desk = Desk(max_unsettled=2)
    desk.publish(b"1", b"2")
    desk.acquire()
    # Its log has nothing to recover, since all was in a checkpoint.
    again = Broker(desk.log, desk.clock, crashed=crashes_first)
    if crashes_first:
        # What this one does not see is still not known when it has stopped as it should.
        again.close()
        again = Broker(desk.log, desk.clock)

    (delivery,) = again.queues.acquire("orders", "emails", "ann")

    assert delivery.redelivered


def test_once_all_that_was_unsure_is_settled_a_stop_leaves_nothing_unsure() -> None:
    desk = Desk(max_unsettled=2)
    desk.publish(b"1", b"2")
    desk.acquire()
    again = Broker(desk.log, desk.clock, crashed=True)
    for each in again.queues.acquire("orders", "emails", "ann", max_events=2):
        again.queues.settle("orders", "emails", "ann", [Settlement(0, each.event.offset)])
    again.publish("orders", [Event(b"3")])
    again.close()

    last = Broker(desk.log, desk.clock)

    (delivery,) = last.queues.acquire("orders", "emails", "ann")
    assert not delivery.redelivered
