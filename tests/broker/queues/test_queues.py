"""Queues: events are shared one by one, each is settled once, and failed ones are redelivered."""

import pytest
from msgspec.structs import replace
from tests.broker.queues.queue_consumers import LOCK_MS, Desk

from mainstem.broker.queues.records import Order, Outcome, Settlement
from mainstem.core.errors import StaleDelivery, UnknownPartition


def test_owners_share_the_events_one_by_one() -> None:
    desk = Desk()
    desk.publish(b"1", b"2", b"3")

    assert desk.values(1, "ann") == [b"1"]
    assert desk.values(1, "bob") == [b"2"]
    assert desk.values(5, "ann") == [b"3"]
    assert desk.values(5, "bob") == []


def test_what_is_acked_never_comes_again_and_what_is_nacked_comes_first() -> None:
    desk = Desk()
    desk.publish(b"1", b"2", b"3")
    first, second = desk.acquire(2)

    desk.ack(second)
    desk.nack(first)

    assert desk.values() == [b"1", b"3"]


def test_deliveries_are_counted() -> None:
    desk = Desk()
    desk.publish(b"1")

    counts = []
    for _ in range(3):
        (delivery,) = desk.acquire()
        counts.append(delivery.count)
        desk.nack(delivery)

    assert counts == [1, 2, 3]


def test_a_release_does_not_count() -> None:
    desk = Desk(max_deliveries=1)
    desk.publish(b"1")

    for _ in range(3):
        (delivery,) = desk.acquire()
        assert delivery.count == 1
        desk.settle(Outcome.RELEASE, delivery)


def test_what_is_not_settled_in_time_goes_to_another() -> None:
    desk = Desk()
    desk.publish(b"1")
    (late,) = desk.acquire(owner="ann")

    desk.clock.now_ms += LOCK_MS - 1
    assert desk.values(owner="bob") == []
    desk.clock.now_ms += 1
    (again,) = desk.acquire(owner="bob")

    assert again.count == 2
    with pytest.raises(StaleDelivery, match="not settled in time"):
        desk.ack(late, owner="ann")
    desk.ack(again, owner="bob")


def test_a_renewed_delivery_is_kept() -> None:
    desk = Desk()
    desk.publish(b"1")
    (delivery,) = desk.acquire()
    place = Settlement(0, 0, lease=delivery.lease)

    desk.clock.now_ms += LOCK_MS - 1
    assert desk.queues.renew("orders", "emails", "ann", [place]) == {}
    desk.clock.now_ms += LOCK_MS - 1

    assert desk.values(owner="bob") == []
    desk.clock.now_ms += 1
    refused = desk.queues.renew("orders", "emails", "ann", [place])
    assert isinstance(refused[0], StaleDelivery)


def test_a_delivery_is_settled_once() -> None:
    desk = Desk()
    desk.publish(b"1", b"2")
    first, second = desk.acquire(2)
    desk.ack(first)

    with pytest.raises(StaleDelivery, match="it is settled"):
        desk.ack(first)
    with pytest.raises(StaleDelivery, match="orders"):
        desk.ack(second, owner="bob")
    with pytest.raises(StaleDelivery, match="already"):
        desk.ack(second, second)


def test_an_old_delivery_of_the_same_owner_is_told_from_the_new_one() -> None:
    desk = Desk()
    desk.publish(b"1")
    (old,) = desk.acquire()
    desk.settle(Outcome.RELEASE, old)
    (new,) = desk.acquire()

    with pytest.raises(StaleDelivery):
        desk.ack(old)
    desk.ack(new)


def test_what_is_refused_does_not_keep_the_rest_from_being_settled() -> None:
    desk = Desk()
    desk.publish(b"1", b"2")
    desk.acquire(2)

    settled = desk.queues.settle(
        "orders", "emails", "ann", [Settlement(0, 0), Settlement(0, 7), Settlement(0, 1)]
    )

    assert [type(error) for error in settled.refused.values()] == [StaleDelivery]
    assert list(settled.refused) == [1]
    assert desk.queues.show("orders", "emails").windows[0].start == 2
    with pytest.raises(UnknownPartition):
        desk.queues.settle("orders", "emails", "ann", [Settlement(7, 0)])


def test_a_nack_can_wait() -> None:
    desk = Desk()
    desk.publish(b"1", b"2")
    first, _ = desk.acquire(2)

    desk.nack(first, delay_ms=500)
    assert desk.values() == []
    assert desk.queues.wait_ms("orders", "emails") == 500

    desk.clock.now_ms += 500
    assert desk.values() == [b"1"]


def test_no_more_is_out_than_the_cap_and_the_credit_allow() -> None:
    desk = Desk(partitions=2, max_unsettled=3)
    for partition in (0, 1):
        desk.publish(*(b"%d" % number for number in range(9)), partition=partition)

    assert len(desk.acquire(100, "ann", credit=2)) == 2
    assert desk.acquire(100, "ann", credit=2) == []
    taken = desk.acquire(100, "bob")
    assert len(taken) == 4
    assert desk.acquire(100, "bob") == []

    desk.ack(taken[0], owner="bob")
    assert len(desk.acquire(100, "bob")) == 1


def test_bytes_bound_what_is_acquired_but_never_keep_an_event_back() -> None:
    desk = Desk()
    desk.publish(b"x" * 10, b"y" * 10, b"z" * 10)

    assert len(desk.acquire(9, max_bytes=1)) == 1
    assert len(desk.acquire(9, max_bytes=20)) == 2


def test_an_event_waits_for_the_earlier_ones_of_its_key() -> None:
    desk = Desk(order=Order.KEY)
    desk.publish(b"a1", b"a2", key=b"a")
    desk.publish(b"b1", key=b"b")
    desk.publish(b"n1", b"n2")
    desk.publish(b"a3", key=b"a")

    taken = desk.acquire(100)
    assert [each.event.value for each in taken] == [b"a1", b"b1", b"n1", b"n2"]
    desk.nack(taken[0])
    (again,) = desk.acquire(100)
    assert again.event.value == b"a1"
    desk.ack(again)

    assert desk.values() == [b"a2"]


def test_the_order_of_keys_survives_a_crash() -> None:
    desk = Desk(order=Order.KEY)
    desk.publish(b"a1", b"a2", key=b"a" * 1_000)
    desk.publish(b"b1", key=b"b")
    desk.ack(desk.acquire(100)[1])

    again = desk.restarted()

    (first,) = again.acquire(100)
    assert (first.event.value, first.count) == (b"a1", 2)
    again.ack(first)
    assert again.values() == [b"a2"]


def test_events_that_are_gone_when_keys_come_to_matter_again_are_settled() -> None:
    desk = Desk(order=Order.KEY)
    for number in range(6):
        desk.publish(b"%d" % number, key=b"k%d" % (number % 2))
    out = desk.acquire(2)
    desk.broker.trim("orders", 0, 1)

    now = desk.queues.created_with("orders", "emails")
    assert now is not None
    desk.queues.create("orders", "emails", replace(now, lock_ms=LOCK_MS + 1))
    desk.publish(b"6", key=b"other")

    assert desk.values(owner="bob") == [b"2", b"6"], "1 of the second key is still out"
    desk.ack(out[1])
    assert desk.values(owner="bob") == [b"3"]


def test_of_a_queue_with_priorities_the_highest_partition_comes_first() -> None:
    desk = Desk(partitions=3, order=Order.PRIORITY)
    desk.publish(b"low", partition=0)
    desk.publish(b"high", b"high again", partition=2)
    desk.publish(b"middle", partition=1)

    assert [desk.values(count=1) for _ in range(2)] == [[b"high"], [b"high again"]]
    desk.publish(b"high at last", partition=2)
    assert desk.values() == [b"high at last", b"middle", b"low"]
