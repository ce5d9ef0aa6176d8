"""Queues: start offsets, restarts, wake-ups of consumers, and locks."""

import pytest
from tests.broker.brokers import publish, read_all, values
from tests.broker.queues.queue_consumers import LOCK_MS, Desk
from tests.broker.transactions.transactional_producers import Bank

from mainstem.broker.publishing.batching import Published
from mainstem.broker.publishing.overload import HeldPublish
from mainstem.broker.queues.records import (
    Delivery,
    Order,
    Outcome,
    QueueSettings,
    Settlement,
    WindowChange,
    WindowSet,
)
from mainstem.core.errors import (
    InvalidName,
    InvalidSetting,
    OffsetOutOfRange,
    Overloaded,
    StaleDelivery,
    UnknownPartition,
    UnknownQueue,
    UnknownTopic,
)
from mainstem.core.event import Event
from mainstem.core.topic_settings import TopicSettings
from mainstem.log.port import PartitionId


def test_after_a_crash_what_was_out_comes_again_and_nothing_else() -> None:
    desk = Desk()
    desk.publish(b"1", b"2", b"3", b"4", b"5")
    first, second, third = desk.acquire(3)
    desk.ack(second)
    desk.nack(third, delay_ms=500)

    again = desk.restarted()

    assert again.queues.fold == desk.queues.fold
    with pytest.raises(StaleDelivery):
        again.ack(first)
    taken = again.acquire(100)
    assert [(each.event.value, each.count) for each in taken] == [
        (b"1", 2),
        (b"4", 1),
        (b"5", 1),
    ]
    again.clock.now_ms += 500
    assert again.values() == [b"3"]


def test_reading_writes_nothing_and_many_settlements_write_once() -> None:
    desk = Desk()
    desk.publish(*(b"%d" % number for number in range(100)))
    journal = PartitionId(desk.broker.topic("__mainstem_subscriptions").id, 0)
    # The first use of any queue is noted.
    desk.acquire(0)
    before = desk.log.bounds(journal).end

    taken = desk.acquire(100)
    assert desk.log.bounds(journal).end == before
    desk.ack(*taken[::2])

    assert desk.log.bounds(journal).end == before + 1


def test_what_may_have_been_out_in_a_crash_counts_before_it_is_handed_out_again() -> None:
    desk = Desk(max_deliveries=3, max_unsettled=2)
    desk.publish(b"1", b"2", b"3")

    def counts(limit: int) -> list[tuple[bytes | None, int]]:
        taken = desk.queues.acquire("orders", "emails", "ann", max_events=limit, noted=True)
        return [(each.event.value, each.count) for each in taken]

    assert counts(1) == [(b"1", 1)]
    desk = desk.restarted()
    assert counts(1) == [(b"1", 2)]
    desk = desk.restarted()
    assert counts(2) == [(b"1", 3), (b"2", 1)]
    desk = desk.restarted()
    assert counts(2) == [(b"2", 2), (b"3", 1)], "it was delivered three times"


def test_once_all_that_may_have_been_out_came_again_reading_writes_nothing() -> None:
    desk = Desk(max_unsettled=2)
    desk.publish(b"1", b"2", b"3")
    journal = PartitionId(desk.broker.topic("__mainstem_subscriptions").id, 0)
    for _ in range(2):
        desk.ack(*desk.queues.acquire("orders", "emails", "ann", noted=True))
    before = desk.log.bounds(journal).end

    assert len(desk.queues.acquire("orders", "emails", "ann", noted=True)) == 1

    assert desk.log.bounds(journal).end == before


def test_queues_and_groups_stand_side_by_side() -> None:
    desk = Desk()
    desk.publish(b"1", b"2")
    desk.queues.create("orders", "audit")
    desk.ack(*desk.acquire(2))

    assert desk.values(name="audit") == [b"1", b"2"]
    assert desk.broker.groups() == []


def test_a_queue_begins_where_it_is_told() -> None:
    desk = Desk()
    desk.publish(b"1", b"2", b"3")

    desk.queues.create("orders", "late", starts={0: 2})
    desk.queues.create("orders", "late", starts={0: 0})

    assert desk.values(name="late") == [b"3"]


def test_partitions_that_come_later_are_read_from_their_beginning() -> None:
    desk = Desk()
    desk.values()
    woken: list[None] = []
    desk.queues.watch("orders", "emails", lambda: woken.append(None))

    desk.broker.alter_topic("orders", partitions=2)
    desk.publish(b"new", partition=1)

    assert woken
    assert desk.values() == [b"new"]


def test_events_of_a_transaction_are_delivered_when_it_has_committed() -> None:
    bank = Bank()
    bank.broker.queues.create("t", "s")

    def taken() -> list[bytes | None]:
        found = bank.broker.queues.acquire("t", "s", "ann", max_events=100)
        return [each.event.value for each in found]

    for committed in (True, False):
        teller = bank.begin()
        teller.add(0)
        teller.write(b"in it")
        publish(bank.broker, "t", b"after", partition=0)
        assert taken() == []
        teller.end(committed=committed)
        assert taken() == ([b"in it", b"after"] if committed else [b"after"])

    (window, _) = bank.broker.queues.show("t", "s").windows
    assert window.next == window.tail


def trimmed_desk() -> tuple[Desk, Delivery]:
    """Return a queue of ten events, of which retention has deleted five; the first is out."""
    desk = Desk()
    desk.publish(*(b"%d" % number for number in range(10)))
    held, given_back = desk.acquire(2)
    desk.settle(Outcome.RELEASE, given_back)
    desk.broker.trim("orders", 0, 5)
    return desk, held


def test_what_retention_deletes_before_it_is_settled_is_counted_as_missed() -> None:
    desk, held = trimmed_desk()

    assert desk.values(1) == [b"5"]
    assert desk.queues.show("orders", "emails").windows[0].missed == 4
    desk.nack(held)
    assert desk.values(1) == [b"6"]
    assert desk.queues.show("orders", "emails").windows[0].missed == 5


def test_what_retention_deleted_is_shown_as_missed_before_anybody_asks_for_more() -> None:
    desk, _ = trimmed_desk()

    for state in (desk.queues.show("orders", "emails"), *desk.queues.every()):
        (window,) = state.windows
        assert (window.next, window.out, window.waiting, window.missed) == (5, 1, 0, 4)
        assert window.unsettled == 6


def test_what_compaction_took_away_is_settled() -> None:
    desk = Desk()
    desk.broker.create_topic("table", TopicSettings(compact=True, segment_bytes=1024))
    desk.queues.create("table", "s")
    desk.broker.publish("table", [Event(b"first", b"k")])
    (first,) = desk.queues.acquire("table", "s", "ann")

    for number in range(100):
        desk.broker.publish("table", [Event(b"%d" % number * 30, b"k")])
    desk.log.upkeep()  # type: ignore[attr-defined]
    desk.queues.leave("table", "s", "ann")
    rest = desk.queues.acquire("table", "s", "ann", max_events=1_000)

    assert first.event.offset == 0
    assert 0 < rest[0].event.offset < rest[-1].event.offset == 100
    assert desk.queues.show("table", "s").windows[0].missed == 0


def test_peeking_goes_on_behind_what_compaction_took_away() -> None:
    desk = Desk()
    desk.broker.create_topic("table", TopicSettings(compact=True, segment_bytes=1024))
    desk.queues.create("table", "s")
    for value in (b"old", b"older", b"kept"):
        desk.broker.publish("table", [Event(value, b"other" if value == b"kept" else b"k")])
    assert len(desk.queues.acquire("table", "s", "ann", max_events=3)) == 3
    for number in range(100):
        desk.broker.publish("table", [Event(b"%d" % number * 30, b"k")])
    desk.log.upkeep()  # type: ignore[attr-defined]

    (first,) = desk.queues.peek("table", "s", 1)

    assert first.event.value == b"kept"


def test_events_that_were_taken_back_are_not_taken_for_settled() -> None:
    desk = Desk()
    desk.publish(b"1", b"2", b"3")
    desk.ack(*desk.acquire(3))

    desk.broker.truncate("orders", 0, 1)
    desk.publish(b"other")

    assert desk.values() == [b"other"]


def test_closing_gives_back_what_is_out_without_counting_it() -> None:
    desk = Desk(max_deliveries=1)
    desk.publish(b"1", b"2")
    desk.acquire(2, "ann")

    desk.queues.leave("orders", "emails", "ann")

    assert [each.count for each in desk.acquire(2, "bob")] == [1, 1]


def test_who_waits_is_woken_by_what_is_published_and_by_what_is_given_back() -> None:
    desk = Desk()
    woken: list[str] = []
    desk.values()
    unwatch = desk.queues.watch("orders", "emails", lambda: woken.append("more"))
    desk.publish(b"1")
    unwatch()
    assert woken == ["more"]

    (delivery,) = desk.acquire()
    desk.values()
    desk.queues.watch("orders", "emails", lambda: woken.append("again"))
    desk.nack(delivery)

    assert woken == ["more", "again"]


def test_a_watch_can_be_taken_back() -> None:
    desk = Desk()
    woken: list[None] = []
    desk.values()

    desk.queues.watch("orders", "emails", lambda: woken.append(None))()
    desk.publish(b"1")

    assert woken == []


def test_who_waits_is_woken_when_time_gives_something_back() -> None:
    desk = Desk()
    desk.publish(b"1")
    desk.values()
    woken: list[None] = []
    desk.queues.watch("orders", "emails", lambda: woken.append(None))

    assert desk.broker.wait_ms() == LOCK_MS
    desk.clock.now_ms += LOCK_MS
    desk.broker.tick()

    assert woken == [None]


def test_who_waits_is_woken_also_if_another_comes_before_the_clock_is_looked_at() -> None:
    desk = Desk()
    desk.publish(b"1", b"2")
    desk.values()
    woken: list[None] = []
    desk.queues.watch("orders", "emails", lambda: woken.append(None))

    desk.clock.now_ms += LOCK_MS
    assert len(desk.acquire(1, "bob")) == 1

    assert woken == [None]


def test_a_queue_goes_with_its_topic() -> None:
    desk = Desk()
    desk.publish(b"1")
    desk.acquire()

    desk.broker.delete_topic("orders")

    assert desk.queues.every() == []
    desk.broker.create_topic("orders")
    with pytest.raises(UnknownQueue):
        desk.acquire()
    assert desk.restarted().queues.fold == desk.queues.fold


def test_a_queue_can_be_deleted_and_begun_anew() -> None:
    desk = Desk()
    desk.publish(b"1")
    desk.ack(*desk.acquire())

    desk.queues.delete("orders", "emails")

    with pytest.raises(UnknownQueue):
        desk.acquire()
    desk.queues.create("orders", "emails")
    assert desk.values() == [b"1"]


def test_settings_can_be_changed_while_events_are_out() -> None:
    desk = Desk()
    desk.publish(b"1")
    (delivery,) = desk.acquire()

    desk.queues.create("orders", "emails", QueueSettings(max_deliveries=1))
    desk.nack(delivery)

    assert values(read_all(desk.broker, "orders.dead")) == [b"1"]
    assert desk.restarted().queues.settings("orders", "emails") == QueueSettings(max_deliveries=1)


def test_what_means_nothing_is_refused() -> None:
    desk = Desk()

    with pytest.raises(InvalidSetting, match="lock_ms"):
        desk.queues.create("orders", "x", QueueSettings(lock_ms=0))
    with pytest.raises(InvalidName):
        desk.queues.create("orders", "")
    with pytest.raises(UnknownTopic):
        desk.queues.create("nothing", "x")
    with pytest.raises(InvalidName, match="itself"):
        desk.queues.create("__mainstem_topics", "has no dead letters")


def test_how_it_stands_is_shown() -> None:
    desk = Desk()
    desk.publish(b"1", b"2", b"3", b"4")
    _, second, _ = desk.acquire(3)
    desk.ack(second)

    state = desk.queues.show("orders", "emails")

    assert (state.topic, state.name, state.owners) == ("orders", "emails", {"ann": 2})
    (window,) = state.windows
    assert (window.start, window.next, window.tail, window.out) == (0, 3, 4, 2)
    assert window.unsettled == 3


def test_a_topic_that_limits_its_backlog_waits_for_its_queues() -> None:
    desk = Desk()
    limits = {"max_backlog": 2, "overload": "drop=newest"}
    desk.publish(b"1", b"2")
    desk.broker.alter_topic("orders", **limits)
    with pytest.raises(Overloaded):
        desk.publish(b"3")

    desk.ack(*desk.acquire(1))
    desk.publish(b"3")

    again = desk.restarted()
    with pytest.raises(Overloaded):
        again.publish(b"4")
    again.ack(*again.acquire(1))
    again.publish(b"4")


def test_a_producer_that_is_held_goes_on_when_something_is_settled() -> None:
    desk = Desk()
    desk.broker.alter_topic("orders", max_backlog=1, overload="backpressure")
    desk.publish(b"1")
    held = desk.broker.try_publish("orders", [Event(b"2")])
    assert isinstance(held, HeldPublish)

    desk.ack(*desk.acquire(1))

    assert held.room.done
    assert isinstance(desk.broker.try_publish("orders", [Event(b"2")], held=held), Published)


def test_room_is_made_without_taking_windows_together_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    taken: list[WindowChange] = []

    def count(change: WindowChange, to: WindowSet) -> WindowSet:
        taken.append(change)
        return applied(change, to)

    applied = WindowChange.applied
    monkeypatch.setattr(WindowChange, "applied", count)
    desk = Desk()
    desk.broker.alter_topic("orders", max_backlog=100, overload="drop=newest")
    desk.publish(*[b"x"] * 100)
    first, *others = desk.acquire(100)

    for each in others[:50]:
        desk.ack(each)
    with pytest.raises(Overloaded):
        desk.publish(b"over")
    desk.ack(first)
    desk.publish(*[b"x"] * 51)

    with pytest.raises(Overloaded):
        desk.publish(b"over")
    assert taken == []


def test_a_queue_that_is_deleted_holds_nobody_up() -> None:
    desk = Desk()
    desk.queues.create("orders", "fast")
    desk.broker.alter_topic("orders", max_backlog=1, overload="drop=newest")
    desk.publish(b"1")
    (delivery,) = desk.acquire(name="fast")
    desk.queues.settle("orders", "fast", "ann", [Settlement(0, delivery.event.offset)])
    with pytest.raises(Overloaded):
        desk.publish(b"2")

    desk.queues.delete("orders", "emails")

    desk.publish(b"2")


def test_a_queue_can_be_moved_forward_and_back() -> None:
    desk = Desk()
    desk.publish(b"1", b"2", b"3")
    first, _ = desk.acquire(2)

    desk.queues.seek("orders", "emails", {0: 2})
    assert desk.values() == [b"3"]
    with pytest.raises(StaleDelivery):
        desk.ack(first)

    desk.queues.seek("orders", "emails", {0: 0})
    assert desk.restarted().values() == [b"1", b"2", b"3"]
    with pytest.raises(OffsetOutOfRange):
        desk.queues.seek("orders", "emails", {0: 4})
    with pytest.raises(UnknownPartition):
        desk.queues.seek("orders", "emails", {1: 0})


def test_a_partition_without_anything_new_is_not_read_again() -> None:
    desk = Desk()
    desk.publish(b"1")
    (delivery,) = desk.acquire(5)
    assert desk.values() == []

    desk.settle(Outcome.RELEASE, delivery)
    assert desk.values() == [b"1"]
    desk.publish(b"2")
    assert desk.values() == [b"2"]


def test_the_order_can_be_changed_while_events_are_out() -> None:
    desk = Desk(order=Order.KEY)
    desk.publish(b"1", b"2", b"3", key=b"k")
    (first,) = desk.acquire(5)

    desk.queues.create("orders", "emails", QueueSettings(order=Order.NONE))
    second, third = desk.acquire(5)
    assert [second.event.value, third.event.value] == [b"2", b"3"]

    desk.queues.create("orders", "emails", QueueSettings(order=Order.KEY))
    desk.nack(second, third)
    assert desk.values() == []
    desk.ack(first)
    assert desk.values() == [b"2"]


def test_who_watches_is_told_of_each_queue_that_is_deleted_also_with_its_topic() -> None:
    desk = Desk()
    replaced, told = list[str](), list[str]()
    desk.queues.watch_deletions("somebody", replaced.append)
    desk.queues.watch_deletions("somebody", told.append)
    desk.queues.create("orders", "bills")

    desk.queues.delete("orders", "bills")
    first = list(told)
    desk.broker.delete_topic("orders")

    assert (first, told, replaced) == (["bills"], ["bills", "emails"], [])
