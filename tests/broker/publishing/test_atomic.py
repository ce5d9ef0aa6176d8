"""Publishing to several topics and settling deliveries atomically."""

from random import Random

import pytest
from tests.broker.brokers import Clock, FullLog, new_broker, publish, read_all, values
from tests.broker.queues.queue_consumers import Desk
from tests.faults.disk.crash_checks import open_on
from tests.faults.disk.crash_states import crashes
from tests.faults.disk.simulated_disk import SimFiles, blank

from mainstem.broker.broker import Broker
from mainstem.broker.definitions import HeadChanges
from mainstem.broker.publishing.atomic import PublishedAll, TopicEvents
from mainstem.broker.publishing.overload import HeldPublish
from mainstem.broker.queues.queues import QueueSettlements
from mainstem.broker.queues.records import Delivery, Outcome, Settlement
from mainstem.core.errors import (
    EventTooLarge,
    InvalidEvent,
    InvalidSetting,
    Overloaded,
    StaleDelivery,
    StorageFull,
    UnknownQueue,
    UnknownTopic,
)
from mainstem.core.event import Event, Position
from mainstem.core.topic_settings import Overload, TopicSettings

TWO = [TopicEvents("a", [Event(b"1"), Event(b"2")]), TopicEvents("b", [Event(b"3")])]


def two_topics(settings: TopicSettings | None = None, clock: Clock | None = None) -> Broker:
    broker = new_broker(clock=clock)
    broker.create_topic("a")
    broker.create_topic("b", settings or TopicSettings())
    return broker


def done(answer: PublishedAll | HeldPublish) -> PublishedAll:
    assert isinstance(answer, PublishedAll)
    answer.durable.wait(30)
    return answer


def settle(
    *deliveries: Delivery, outcome: Outcome = Outcome.ACK, owner: str = "ann"
) -> QueueSettlements:
    return QueueSettlements(
        "orders",
        "emails",
        owner,
        [
            Settlement(each.event.partition, each.event.offset, outcome, each.lease)
            for each in deliveries
        ],
    )


def contents(broker: Broker) -> dict[str, list[bytes | None]]:
    return {topic.name: values(read_all(broker, topic.name)) for topic in broker.topics()}


def test_events_of_several_topics_are_published_and_each_has_its_position() -> None:
    broker = two_topics()

    published = done(
        broker.publish_all([*TWO, TopicEvents("a", [Event(b"4")]), TopicEvents("b", [])])
    ).published

    assert contents(broker) == {"a": [b"1", b"2", b"4"], "b": [b"3"]}
    assert [each.positions for each in published] == [
        [Position(0, 0), Position(0, 1)],
        [Position(0, 0)],
        [Position(0, 2)],
        [],
    ]


def test_the_same_events_for_several_topics_are_stored_in_each_as_its_settings_ask() -> None:
    broker = new_broker()
    small = TopicSettings(max_batch_bytes=1024)
    for name, settings in (("a", TopicSettings()), ("b", TopicSettings()), ("c", small)):
        broker.create_topic(name, settings)
    publish(broker, "b", b"before")
    large, tiny = [Event(b"x" * 1024)], [Event(b"1")]

    done(broker.publish_all([TopicEvents(name, tiny, 0) for name in "abc"]))
    with pytest.raises(EventTooLarge):
        broker.publish_all([TopicEvents(name, large, 0) for name in "abc"])

    assert contents(broker) == {"a": [b"1"], "b": [b"before", b"1"], "c": [b"1"]}
    assert [each.offset for each in read_all(broker, "b")] == [0, 1]


def test_nothing_to_publish_is_durable_at_once() -> None:
    assert done(new_broker().publish_all([])).published == []


@pytest.mark.parametrize(
    ("entry", "error"),
    [
        (TopicEvents("nothing", [Event(b"")]), UnknownTopic),
        (TopicEvents("state", [Event(b"without a key")]), InvalidEvent),
        (TopicEvents("a", [Event(b"x" * 2_000_000)]), EventTooLarge),
    ],
)
def test_if_one_is_refused_none_is_published(entry: TopicEvents, error: type[Exception]) -> None:
    broker = two_topics()
    broker.create_topic("state", TopicSettings(compact=True))

    with pytest.raises(error):
        broker.publish_all([*TWO, entry])

    assert contents(broker) == {"a": [], "b": [], "state": []}


def test_one_full_topic_refuses_all_of_it() -> None:
    broker = two_topics(TopicSettings(overload=Overload.DROP_NEWEST, max_backlog=1))
    publish(broker, "b", b"before")

    with pytest.raises(Overloaded):
        broker.publish_all(TWO)

    assert contents(broker) == {"a": [], "b": [b"before"]}


def test_events_of_one_request_count_together_against_a_topics_limit() -> None:
    broker = two_topics(TopicSettings(overload=Overload.DROP_NEWEST, max_backlog=2))
    publish(broker, "b", b"before")

    with pytest.raises(Overloaded):
        broker.publish_all(
            [
                TopicEvents("b", [Event(b"1")]),
                TopicEvents("a", [Event(b"2")]),
                TopicEvents("b", [Event(b"3")]),
            ]
        )

    assert contents(broker) == {"a": [], "b": [b"before"]}


def test_one_topic_that_holds_its_producers_holds_all_of_it() -> None:
    broker = two_topics(TopicSettings(overload=Overload.BACKPRESSURE, max_backlog=1))
    publish(broker, "b", b"before")

    held = broker.publish_all(TWO)
    assert isinstance(held, HeldPublish)
    assert contents(broker) == {"a": [], "b": [b"before"]}
    broker.commit("readers", {("b", 0): 1})

    assert held.room.done
    done(broker.publish_all(TWO, held=held))
    assert contents(broker) == {"a": [b"1", b"2"], "b": [b"before", b"3"]}
    assert broker.counters("b")["held"] == 1


def test_two_topics_in_turn_do_not_hold_longer_than_the_first_says() -> None:
    clock = Clock()
    full = TopicSettings(overload=Overload.BACKPRESSURE, max_backlog=1, hold_ms=1_000)
    broker = new_broker(clock=clock)
    for topic in ("a", "b"):
        broker.create_topic(topic, full)
        publish(broker, topic, b"before")
    first = broker.publish_all(TWO)
    assert isinstance(first, HeldPublish)

    clock.now_ms += 900
    broker.commit("readers", {("a", 0): 1})
    second = broker.publish_all(TWO, held=first)
    assert isinstance(second, HeldPublish)
    assert second.until_ms == first.until_ms
    clock.now_ms += 200

    with pytest.raises(Overloaded):
        broker.publish_all(TWO, held=second)


def test_the_oldest_is_dropped_where_the_topic_says_so() -> None:
    broker = two_topics(TopicSettings(overload=Overload.DROP_OLDEST, max_backlog=1))
    publish(broker, "b", b"before")

    done(broker.publish_all(TWO))

    assert contents(broker) == {"a": [b"1", b"2"], "b": [b"3"]}


def test_deliveries_are_settled_with_what_is_published() -> None:
    desk = Desk()
    desk.broker.create_topic("invoices")
    desk.publish(b"a", b"b", b"c")
    first, second, third = desk.acquire(3)

    done(
        desk.broker.publish_all(
            [TopicEvents("invoices", [Event(b"of a")])],
            [settle(first), settle(second, outcome=Outcome.RELEASE)],
        )
    )

    assert values(read_all(desk.broker, "invoices")) == [b"of a"]
    assert desk.values(owner="bob") == [b"b"]
    with pytest.raises(StaleDelivery):
        desk.ack(first)
    desk.ack(third)


def test_settlements_alone_are_settled() -> None:
    desk = Desk()
    desk.publish(b"a")
    (delivery,) = desk.acquire()

    done(desk.broker.publish_all([], [settle(delivery)]))

    assert desk.restarted().values() == []


def test_who_waits_for_the_queue_is_woken_by_what_comes_back() -> None:
    desk = Desk()
    desk.publish(b"a")
    (delivery,) = desk.acquire()
    assert desk.values(owner="bob") == []
    woken: list[bool] = []
    desk.queues.watch("orders", "emails", lambda: woken.append(True))

    done(desk.broker.publish_all([], [settle(delivery, outcome=Outcome.RELEASE)]))

    assert woken


def test_a_stale_delivery_refuses_all_of_it() -> None:
    desk = Desk()
    desk.publish(b"a", b"b")
    stale, fresh = desk.acquire(2)
    desk.ack(stale)

    with pytest.raises(StaleDelivery):
        desk.broker.publish_all(
            [TopicEvents("orders", [Event(b"c")])], [settle(fresh), settle(stale)]
        )

    assert values(read_all(desk.broker, "orders")) == [b"a", b"b"]
    assert desk.restarted().values() == [b"b"]


def test_the_same_delivery_cannot_be_settled_twice_in_one_request() -> None:
    desk = Desk()
    desk.publish(b"a")
    (delivery,) = desk.acquire()

    with pytest.raises(StaleDelivery, match="the same request"):
        desk.broker.publish_all([], [settle(delivery), settle(delivery)])
    with pytest.raises(UnknownQueue):
        desk.broker.publish_all([], [QueueSettlements("orders", "nothing", "ann", [])])

    desk.ack(delivery)


def test_while_a_topic_is_full_nothing_is_settled_either() -> None:
    desk = Desk()
    limit = TopicSettings(overload=Overload.BACKPRESSURE, max_backlog=1)
    desk.broker.create_topic("invoices", limit)
    desk.publish(b"a")
    publish(desk.broker, "invoices", b"before")
    (delivery,) = desk.acquire()
    entries, settled = [TopicEvents("invoices", [Event(b"of a")])], [settle(delivery)]

    held = desk.broker.publish_all(entries, settled)
    assert isinstance(held, HeldPublish)
    assert desk.restarted().values() == [b"a"]
    desk.broker.commit("readers", {("invoices", 0): 1})
    done(desk.broker.publish_all(entries, settled, held))

    assert desk.restarted().values() == []


def test_a_queue_that_a_full_topic_waits_for_makes_room_in_the_next_request() -> None:
    desk = Desk()
    desk.broker.alter_topic("orders", overload=Overload.BACKPRESSURE, max_backlog=1)
    desk.publish(b"a")
    (delivery,) = desk.acquire()
    held = desk.broker.publish_all([TopicEvents("orders", [Event(b"b")])])
    assert isinstance(held, HeldPublish)

    done(desk.broker.publish_all([], [settle(delivery)]))

    assert held.room.done
    done(desk.broker.publish_all([TopicEvents("orders", [Event(b"b")])], held=held))


def test_a_rejected_delivery_has_its_dead_letter_in_the_same_append() -> None:
    desk = Desk()
    desk.publish(b"a")
    (delivery,) = desk.acquire()

    done(desk.broker.publish_all([], [settle(delivery, outcome=Outcome.REJECT)]))

    assert values(read_all(desk.broker, "orders.dead")) == [b"a"]
    assert desk.queues.show("orders", "emails").dead == 1


def test_a_full_disk_refuses_all_of_it() -> None:
    log = FullLog()
    desk = Desk(log)
    desk.publish(b"a")
    (delivery,) = desk.acquire()
    log.is_full = True

    with pytest.raises(StorageFull):
        desk.broker.publish_all([TopicEvents("orders", [Event(b"b")])], [settle(delivery)])
    log.is_full = False

    assert values(read_all(desk.broker, "orders")) == [b"a"]
    desk.ack(delivery)


@pytest.mark.parametrize("durability", ["fsync", "disk"])
def test_a_crash_leaves_all_of_it_or_nothing(durability: str) -> None:
    files = SimFiles()
    log = open_on(files)
    desk = Desk(log)
    settings = TopicSettings(durability=durability)  # type: ignore[arg-type]
    for topic in ("invoices", "bills"):
        desk.broker.create_topic(topic, settings)
    desk.publish(b"a")
    log.committer.commit()
    (delivery,) = desk.acquire()
    first = len(files.trace)

    answer = desk.broker.publish_all(
        [TopicEvents("invoices", [Event(b"of a")]), TopicEvents("bills", [Event(b"for a")])],
        [settle(delivery)],
        defined=HeadChanges("sources", {("position", "shop"): b"7"}),
    )
    assert isinstance(answer, PublishedAll)
    log.committer.commit()
    assert answer.durable.done
    done_at = len(files.trace)

    seen: set[bool] = set()
    for crash in crashes(blank(), files.trace, Random(7), first=first):
        again = Desk(open_on(SimFiles(crash.image)), ids=desk.ids)
        found = [
            bool(values(read_all(again.broker, "invoices"))),
            bool(values(read_all(again.broker, "bills"))),
            not again.values(),
            again.broker.definitions.open("sources").get("position", "shop") == b"7",
        ]
        assert len(set(found)) == 1, f"{crash.what} at {crash.at}: {found}"
        if crash.at >= done_at:
            assert found[0], f"{crash.what} at {crash.at}: lost"
        seen.add(found[0])
    assert seen == {False, True}


def test_definitions_are_stored_with_the_events_or_not_at_all() -> None:
    log = FullLog()
    broker = new_broker(log)
    for name in "ab":
        broker.create_topic(name)
    at = HeadChanges("sources", {("position", "shop"): b"7"})
    later = HeadChanges("sources", {("position", "shop"): b"8"})
    changed: list[str] = []
    broker.definitions.open("sources").watch("position", changed.append)

    done(broker.publish_all(TWO, defined=at))
    log.is_full = True
    with pytest.raises(StorageFull):
        broker.publish_all(TWO, defined=later)
    log.is_full = False
    with pytest.raises(InvalidSetting):
        broker.publish_all(TWO, defined=HeadChanges("sources", {("k", "x" * 2000): b""}))

    for each in (broker, new_broker(log)):
        assert each.definitions.open("sources").get("position", "shop") == b"7"
        assert contents(each) == {"a": [b"1", b"2"], "b": [b"3"]}
    assert changed == ["shop"]


def test_definitions_wait_with_a_publish_that_backpressure_holds() -> None:
    limit = TopicSettings(overload=Overload.BACKPRESSURE, max_backlog=1)
    broker = two_topics(limit)
    publish(broker, "b", b"0")
    at = HeadChanges("sources", {("position", "shop"): b"7"})

    held = broker.publish_all(TWO, defined=at)
    assert isinstance(held, HeldPublish)
    assert broker.definitions.open("sources").get("position", "shop") is None
    broker.commit("readers", {("b", 0): 1})
    done(broker.publish_all(TWO, held=held, defined=at))

    assert broker.definitions.open("sources").get("position", "shop") == b"7"
