"""Overload policies: events beyond the backlog are dropped, refused or held, and counted."""

import threading

import pytest
from tests.broker.brokers import NOW_MS, Clock, new_broker, publish, read_all, values
from tests.broker.producers.idempotent_producers import Works

from mainstem.broker.broker import Broker
from mainstem.broker.groups.classic.coordinator import Membership
from mainstem.broker.groups.cursors import Cursor
from mainstem.broker.publishing.outcome import AppendedBatch
from mainstem.broker.publishing.overload import LIVE_MS, HeldPublish
from mainstem.core.errors import Overloaded, UnknownPartition, UnknownTopic
from mainstem.core.event import Event
from mainstem.core.records import build
from mainstem.core.topic_settings import Overload, TopicSettings


def limited(
    overload: Overload, max_backlog: int = 3, hold_ms: int = 60_000
) -> tuple[Broker, Clock]:
    clock = Clock()
    broker = new_broker(clock=clock)
    settings = TopicSettings(overload=overload, max_backlog=max_backlog, hold_ms=hold_ms)
    broker.create_topic("orders", settings)
    return broker, clock


def full(overload: Overload) -> tuple[Broker, Clock]:
    """Return a broker whose topic has as many events as it may have."""
    broker, clock = limited(overload)
    publish(broker, "orders", b"a", b"b", b"c")
    return broker, clock


def commit(broker: Broker, offset: int, group: str = "billing") -> None:
    broker.commit(group, {("orders", 0): offset})


def test_without_a_limit_nothing_is_counted_and_nothing_stops() -> None:
    broker = new_broker()
    broker.create_topic("orders")

    publish(broker, "orders", *[b"x"] * 1_000)

    assert broker.counters("orders") == {"dropped": 0, "refused": 0, "held": 0, "held_ms": 0}


def test_dropping_the_newest_refuses_and_counts_what_does_not_fit() -> None:
    broker, _ = limited(Overload.DROP_NEWEST)
    publish(broker, "orders", b"a", b"b")

    with pytest.raises(Overloaded, match="max_backlog of 3") as refused:
        publish(broker, "orders", b"c", b"d")
    publish(broker, "orders", b"e")

    assert refused.value.retriable
    assert values(read_all(broker, "orders")) == [b"a", b"b", b"e"]
    assert broker.counters("orders")["refused"] == 2


def test_the_slowest_live_cursor_makes_room() -> None:
    broker, _ = full(Overload.DROP_NEWEST)
    commit(broker, 3, "quick")
    commit(broker, 1, "slow")

    publish(broker, "orders", b"d")
    with pytest.raises(Overloaded):
        publish(broker, "orders", b"e")

    commit(broker, 2, "slow")
    publish(broker, "orders", b"e")


def test_a_cursor_that_is_unset_holds_nobody_up_and_misses_nothing() -> None:
    broker, _ = limited(Overload.DROP_OLDEST)
    unset = {("orders", 0): Cursor(-2, NOW_MS)}
    broker.classic.commit("gave-up", Membership(), unset)
    commit(broker, 0)
    publish(broker, "orders", *[b"x"] * 3)
    commit(broker, 3)
    publish(broker, "orders", *[b"x"] * 6)

    (lag,) = broker.lag("gave-up")

    assert (lag.cursor, lag.lag, lag.missed) == (None, lag.tail - lag.start, 0)
    assert broker.counters("orders")["dropped"] == 3


def test_a_batch_larger_than_the_limit_passes_when_all_is_read() -> None:
    broker, _ = limited(Overload.DROP_NEWEST)

    publish(broker, "orders", *[b"x"] * 10)

    with pytest.raises(Overloaded):
        publish(broker, "orders", b"y")
    commit(broker, 10)
    publish(broker, "orders", *[b"y"] * 5)


def test_partitions_are_full_each_for_itself_but_a_publish_is_all_or_nothing() -> None:
    broker, _ = limited(Overload.DROP_NEWEST)
    broker.alter_topic("orders", partitions=2)
    publish(broker, "orders", b"a", b"b", b"c", partition=0)
    publish(broker, "orders", b"d", partition=1)
    keyed = [Event(b"x", b"%d" % number) for number in range(8)]

    with pytest.raises(Overloaded, match="partition 0"):
        broker.publish("orders", keyed)

    assert broker.bounds("orders", 1).end == 1
    assert broker.counters("orders")["refused"] == 8


def test_a_cursor_that_was_silent_for_a_day_no_longer_counts() -> None:
    broker, clock = full(Overload.DROP_NEWEST)
    commit(broker, 1, "gone")
    commit(broker, 3, "here")

    with pytest.raises(Overloaded):
        publish(broker, "orders", b"d", b"e")
    clock.now_ms += LIVE_MS
    commit(broker, 3, "here")

    publish(broker, "orders", b"d", b"e", b"f")


def test_a_reader_that_waits_at_the_tail_of_a_quiet_topic_is_not_silent() -> None:
    broker, clock = full(Overload.DROP_NEWEST)
    commit(broker, 3)
    clock.now_ms += LIVE_MS * 3

    publish(broker, "orders", b"d")
    publish(broker, "orders", b"e")

    assert broker.bounds("orders", 0).end == 5


def test_the_cursor_of_a_group_with_members_is_live_however_long_it_is_silent() -> None:
    broker, clock = limited(Overload.DROP_NEWEST)
    member = broker.join("billing", ["orders"], lambda: None)
    publish(broker, "orders", b"a", b"b", b"c")
    (share,) = member.assignment().owned
    member.commit({share: 2})
    clock.now_ms += LIVE_MS * 3

    publish(broker, "orders", b"d", b"e")

    with pytest.raises(Overloaded):
        publish(broker, "orders", b"f")


def test_dropping_the_oldest_moves_the_start_and_counts_what_each_reader_missed() -> None:
    broker, _ = limited(Overload.DROP_OLDEST)
    publish(broker, "orders", b"a", b"b", b"c")
    commit(broker, 1, "slow")
    commit(broker, 3, "quick")

    publish(broker, "orders", b"d", b"e")

    assert values(read_all(broker, "orders")) == [b"c", b"d", b"e"]
    assert broker.counters("orders")["dropped"] == 1
    missed = {name: broker.lag(name)[0].missed for name in ("slow", "quick")}
    assert missed == {"slow": 1, "quick": 0}
    assert broker.lag("slow")[0].lag == 3


def test_what_was_missed_stays_counted_when_the_reader_goes_on() -> None:
    broker, _ = limited(Overload.DROP_OLDEST)
    publish(broker, "orders", b"a")
    commit(broker, 0)
    publish(broker, "orders", *[b"x"] * 9)

    commit(broker, 10)
    publish(broker, "orders", *[b"x"] * 5)

    assert broker.bounds("orders", 0).start == 12
    assert broker.lag("billing")[0].missed == 7 + 2
    assert broker.counters("orders")["dropped"] == 7 + 2


def test_nothing_is_dropped_that_no_live_reader_has_to_read() -> None:
    broker, _ = limited(Overload.DROP_OLDEST)
    publish(broker, "orders", b"a", b"b", b"c")

    commit(broker, 3)
    publish(broker, "orders", b"d", b"e")

    assert broker.bounds("orders", 0).start == 0
    assert broker.counters("orders")["dropped"] == 0


def test_a_large_backlog_is_cut_in_steps_and_stays_near_its_limit() -> None:
    broker, _ = limited(Overload.DROP_OLDEST, max_backlog=640)

    for _ in range(2_000):
        publish(broker, "orders", b"x")
        bounds = broker.bounds("orders", 0)
        assert bounds.end - bounds.start <= 650


def test_backpressure_holds_the_producer_until_a_reader_makes_room() -> None:
    broker, clock = limited(Overload.BACKPRESSURE)
    publish(broker, "orders", b"a", b"b", b"c")
    held = broker.try_publish("orders", [Event(b"d")])
    assert isinstance(held, HeldPublish)
    assert held.until_ms == clock() + 60_000

    producer = threading.Thread(target=publish, args=(broker, "orders", b"e"))
    producer.start()
    told = threading.Event()
    held.room.then(lambda _: told.set())
    clock.now_ms += 250
    commit(broker, 2)
    producer.join(30)

    assert told.wait(30)
    assert not isinstance(broker.try_publish("orders", [Event(b"d")], held=held), HeldPublish)
    assert sorted(map(str, values(read_all(broker, "orders"))))[-2:] == ["b'd'", "b'e'"]
    counters = broker.counters("orders")
    assert counters["refused"] == 0
    assert 1 <= counters["held"] <= 2
    assert 250 <= counters["held_ms"] <= 500


def test_a_producer_held_for_too_long_is_refused_and_counted() -> None:
    broker, clock = limited(Overload.BACKPRESSURE, hold_ms=500)
    publish(broker, "orders", b"a", b"b", b"c")

    held = broker.try_publish("orders", [Event(b"d")])
    assert isinstance(held, HeldPublish)
    clock.now_ms += 500

    with pytest.raises(Overloaded, match="held for 500 ms"):
        broker.try_publish("orders", [Event(b"d")], held=held)
    assert broker.counters("orders") == {"dropped": 0, "refused": 1, "held": 1, "held_ms": 500}


def test_a_publish_that_waits_ends_with_a_refusal_when_its_time_is_over() -> None:
    broker, _ = limited(Overload.BACKPRESSURE, hold_ms=1)
    publish(broker, "orders", b"a", b"b", b"c")

    with pytest.raises(Overloaded):
        publish(broker, "orders", b"d")

    assert broker.counters("orders")["refused"] == 1


@pytest.mark.parametrize("deed", ["trim", "raise", "unlimit", "delete group", "delete topic"])
def test_whatever_makes_room_lets_the_held_try_again(deed: str) -> None:
    broker, _ = limited(Overload.BACKPRESSURE)
    publish(broker, "orders", b"a", b"b", b"c")
    commit(broker, 0)
    held = broker.try_publish("orders", [Event(b"d")])
    assert isinstance(held, HeldPublish)

    match deed:
        case "trim":
            broker.trim("orders", 0, 2)
        case "raise":
            broker.alter_topic("orders", max_backlog=9)
        case "unlimit":
            broker.alter_topic("orders", max_backlog=None, overload="buffer")
        case "delete group":
            broker.delete_group("billing")
        case _:
            broker.delete_topic("orders")

    assert held.room.done
    if deed == "delete topic":
        with pytest.raises(UnknownTopic):
            broker.try_publish("orders", [Event(b"d")], held=held)
    elif deed != "delete group":
        assert not isinstance(broker.try_publish("orders", [Event(b"d")], held=held), HeldPublish)


def batch(*values: bytes) -> bytearray:
    return build([Event(value) for value in values], now_ms=0)


@pytest.mark.parametrize("producer_id", [-1, 7])
def test_a_batch_that_is_held_keeps_back_those_behind_it(producer_id: int) -> None:
    broker, clock = limited(Overload.BACKPRESSURE)
    commit(broker, 0)

    def one(sequence: int) -> tuple[int, bytearray]:
        return 0, build(
            [Event(b"%d" % sequence)],
            now_ms=0,
            producer_id=producer_id,
            producer_epoch=min(producer_id, 0),
            base_sequence=sequence if producer_id >= 0 else -1,
        )

    given = [one(sequence) for sequence in range(5)]
    outcomes, held = broker.append_batches("orders", given)

    assert [each.offset for each in outcomes if isinstance(each, AppendedBatch)] == [0, 1, 2]
    assert held is not None
    clock.now_ms += 500
    commit(broker, 1)
    assert held.room.done
    outcomes, again = broker.append_batches("orders", [one(3), one(4)], held)
    assert [each.offset for each in outcomes if isinstance(each, AppendedBatch)] == [3]
    # It comes after one that had room, so it has not waited yet.
    assert again is not None
    assert again.since_ms == clock.now_ms
    counters = {"dropped": 0, "refused": 0, "held": 2, "held_ms": 500}
    assert broker.counters("orders") == counters


def test_every_batch_is_refused_or_appended_on_its_own() -> None:
    broker, _ = limited(Overload.DROP_NEWEST)

    given = [(0, batch(b"a", b"b")), (0, batch(b"c", b"d")), (7, batch(b"e")), (0, batch(b"f"))]
    outcomes, held = broker.append_batches("orders", given)

    assert held is None
    kinds = [type(each) for each in outcomes]
    assert kinds == [AppendedBatch, Overloaded, UnknownPartition, AppendedBatch]
    assert values(read_all(broker, "orders")) == [b"a", b"b", b"f"]


def test_a_batch_that_drops_the_oldest_events_tells_where_the_log_starts_then() -> None:
    broker, _ = limited(Overload.DROP_OLDEST)

    given = [(0, batch(b"%d" % number)) for number in range(5)]
    outcomes, _ = broker.append_batches("orders", given)

    starts = [each.start for each in outcomes if isinstance(each, AppendedBatch)]
    assert starts == [0, 0, 0, 1, 2]


def test_the_held_leave_nothing_behind() -> None:
    broker, clock = limited(Overload.BACKPRESSURE, hold_ms=10)
    publish(broker, "orders", b"a", b"b", b"c")

    for _ in range(100):
        held = broker.admit("orders", 0, 1)
        assert held is not None
        again = broker.admit("orders", 0, 1, held)
        assert again is not None
        clock.now_ms += 10
        with pytest.raises(Overloaded):
            broker.admit("orders", 0, 1, again)

    gate = broker._state.gates[broker.topic("orders").id]
    assert gate._waiting == set()
    assert broker.counters("orders")["held"] == 100


def test_dropping_the_oldest_forgets_no_producer() -> None:
    works = Works(settings=TopicSettings(overload=Overload.DROP_OLDEST, max_backlog=10))
    first = works.offset(7, 0)
    for sequence in range(100):
        works.offset(8, sequence)
    assert works.broker.bounds("t", 0).start > first

    for each in (works, works.restarted()):
        # Sent again, as its answer was lost: it was there once, and is not written again.
        assert each.offset(7, 0) == first
        assert each.broker.bounds("t", 0).end == 101
