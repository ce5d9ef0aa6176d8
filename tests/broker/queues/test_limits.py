"""Limits on the waiting events of a queue: time to live, length, bytes; and dead-letter routes."""

from collections.abc import Sequence

import pytest
from tests.broker.brokers import read_all
from tests.broker.queues.queue_consumers import Desk

from mainstem.broker.door import Cause, DeadEvent, RoutedEvent
from mainstem.broker.queues import lock_expiry
from mainstem.broker.queues.limits import MAX_AT_ONCE
from mainstem.broker.queues.records import Outcome
from mainstem.core.event import Event


@pytest.fixture(autouse=True)
def looks_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let queues be looked at as soon as they have got more."""
    monkeypatch.setattr(lock_expiry, "LOOK_MS", 0)


def dead(desk: Desk) -> list[bytes | None]:
    """Return the values of dead letters."""
    if not desk.broker.topics("orders.dead"):
        return []
    return [each.value for each in read_all(desk.broker, "orders.dead")]


def ticked(desk: Desk, passed_ms: int = 0) -> int | None:
    """Let time pass, as a node does; return how long it may wait now."""
    desk.clock.now_ms += passed_ms
    desk.queues.registry.tick()
    return desk.queues.registry.next_wait_ms()


def expiring(value: bytes, ttl_ms: int) -> Event:
    return Event(value, headers=(("expiration", b"%d" % ttl_ms),))


def test_what_nobody_takes_in_its_time_is_dead_though_nobody_consumes() -> None:
    desk = Desk(ttl_ms=1_000)
    assert ticked(desk) is None
    desk.publish(b"1")
    assert ticked(desk) == 1_000
    desk.clock.now_ms += 400
    desk.publish(b"2")

    assert ticked(desk, 599) == 1
    assert dead(desk) == []
    assert ticked(desk, 1) == 400
    assert dead(desk) == [b"1"]
    assert ticked(desk, 400) is None
    assert dead(desk) == [b"1", b"2"]
    assert desk.values() == []


def test_nor_is_it_delivered_if_time_has_passed_and_nothing_ticked() -> None:
    desk = Desk(ttl_ms=1_000)
    desk.publish(b"1")
    desk.clock.now_ms += 1_000
    desk.publish(b"2")

    assert desk.values() == [b"2"]
    assert dead(desk) == [b"1"]


def test_who_watches_without_a_look_does_not_wait_for_what_is_there() -> None:
    desk = Desk(ttl_ms=1_000)
    desk.publish(b"1")
    desk.queues.watch("orders", "emails", lambda: None)()
    desk.clock.now_ms += 1_500

    assert desk.values() == []


def test_what_is_out_does_not_expire_and_what_is_given_back_does() -> None:
    desk = Desk(ttl_ms=1_000, lock_ms=60_000)
    desk.publish(b"1")
    (delivery,) = desk.acquire()
    ticked(desk, 5_000)
    assert dead(desk) == []

    desk.nack(delivery)

    ticked(desk)
    assert dead(desk) == [b"1"]


def test_events_have_times_of_their_own_and_expire_at_the_head() -> None:
    desk = Desk(ttl_header="expiration", ttl_ms=10_000)
    desk.broker.publish("orders", [expiring(b"late", 5_000), expiring(b"soon", 100)])

    assert ticked(desk, 100) == 4_900
    assert dead(desk) == []
    ticked(desk, 4_900)
    assert dead(desk) == [b"late", b"soon"]


def test_the_oldest_events_beyond_the_length_are_dead() -> None:
    desk = Desk(max_length=2)
    desk.publish(b"1")
    (out,) = desk.acquire()
    desk.publish(b"2", b"3", b"4")

    ticked(desk)

    assert dead(desk) == [b"2"]
    assert desk.queues.show("orders", "emails").windows[0].unsettled == 3
    desk.nack(out)
    ticked(desk)
    assert dead(desk) == [b"2", b"1"]
    assert desk.values() == [b"3", b"4"]


def test_and_those_beyond_the_bytes() -> None:
    desk = Desk(max_bytes=10)
    desk.publish(b"12345", b"67890")
    ticked(desk)
    assert dead(desk) == []

    desk.publish(b"x")
    ticked(desk)

    assert dead(desk) == [b"12345"]
    desk.ack(*desk.acquire(2))
    desk.publish(b"1234567890")
    assert desk.values() == [b"1234567890"]


def test_many_are_taken_out_in_turns() -> None:
    desk = Desk(max_length=1)
    desk.publish(*[b""] * (2 * MAX_AT_ONCE + 1))

    assert ticked(desk) == 0
    assert len(dead(desk)) == MAX_AT_ONCE
    ticked(desk)
    assert len(dead(desk)) == 2 * MAX_AT_ONCE
    assert ticked(desk) is None


def test_limits_hold_again_after_a_restart() -> None:
    desk = Desk(ttl_ms=1_000)
    desk.publish(b"1")
    after = desk.restarted()

    assert after.queues.registry.next_wait_ms() == 0
    ticked(after, 1_000)

    assert dead(after) == [b"1"]


@pytest.mark.parametrize(
    ("ttl_ms", "max_length", "cause"), [(0, None, Cause.EXPIRED), (None, 0, Cause.LENGTH)]
)
def test_dead_events_go_where_a_router_says(
    ttl_ms: int | None, max_length: int | None, cause: Cause
) -> None:
    desk = Desk(dead_letter_route="dlx", ttl_ms=ttl_ms, max_length=max_length)
    desk.broker.create_topic("elsewhere")
    desk.publish(b"1")
    ticked(desk)
    assert desk.queues.show("orders", "emails").windows[0].unsettled == 1, "nobody knows the route"
    seen: list[tuple[str, DeadEvent]] = []

    def router(route: str, found: DeadEvent) -> Sequence[RoutedEvent]:
        seen.append((route, found))
        return [RoutedEvent("elsewhere", 0, Event(b"routed"))]

    desk.queues.route_dead_letters(router)
    desk.queues.show("orders", "emails")

    ((route, found),) = seen
    assert (route, found.topic, found.queue, found.event.value) == ("dlx", "orders", "emails", b"1")
    assert found.cause is cause
    assert [each.value for each in read_all(desk.broker, "elsewhere")] == [b"routed"]
    assert desk.queues.show("orders", "emails").windows[0].unsettled == 0


def test_what_a_router_drops_is_settled_and_gone() -> None:
    desk = Desk(dead_letter_route="dlx", max_length=0)
    desk.queues.route_dead_letters(lambda route, found: [])
    desk.publish(b"1")

    ticked(desk)

    assert desk.queues.show("orders", "emails").windows[0].unsettled == 0
    assert dead(desk) == []


def test_a_queue_is_not_looked_at_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock_expiry, "LOOK_MS", 50)
    desk = Desk(max_length=1)
    desk.publish(b"1", b"2")
    ticked(desk, 50)
    assert dead(desk) == [b"1"]

    desk.publish(b"3")
    assert ticked(desk) == 50
    assert dead(desk) == [b"1"]
    ticked(desk, 50)
    assert dead(desk) == [b"1", b"2"]


def test_what_cannot_be_routed_is_tried_again_but_not_at_once() -> None:
    desk = Desk(dead_letter_route="dlx", max_length=0)
    desk.publish(*[b""] * (MAX_AT_ONCE + 1))

    assert ticked(desk) == lock_expiry.RETRY_MS
    desk.queues.route_dead_letters(lambda route, found: [])
    ticked(desk, lock_expiry.RETRY_MS)
    ticked(desk)

    assert desk.queues.show("orders", "emails").windows[0].unsettled == 0


def test_the_bytes_that_wait_are_those_that_were_never_delivered() -> None:
    desk = Desk()
    desk.publish(b"1", b"22", b"333")
    first, second = desk.acquire(2)
    desk.settle(Outcome.ACK, first)
    desk.settle(Outcome.NACK, second)
    counted = [desk.queues.waiting_bytes("orders", "emails")]
    desk.publish(b"4444")
    counted.append(desk.queues.waiting_bytes("orders", "emails"))

    again = desk.restarted().queues.waiting_bytes("orders", "emails")

    assert [*counted, again] == [3, 7, 7]
