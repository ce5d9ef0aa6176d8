"""Reading without a group: where it begins, where it ends, and how it waits."""

import threading
from collections.abc import Callable

import pytest
from tests.client.start_positions import starts

import mainstem
from mainstem.broker.broker import Broker
from mainstem.client.embedded.feed import Feed
from mainstem.client.start_positions import Start
from mainstem.client.subscription import SubscriptionOptions
from mainstem.core.batch import seal
from mainstem.core.errors import (
    Closed,
    CorruptBatch,
    InvalidSetting,
    OffsetOutOfRange,
    StorageFailed,
    UnknownPartition,
    UnknownTopic,
)
from mainstem.core.event import Event
from mainstem.core.records import build
from mainstem.core.topic_settings import TopicSettings
from mainstem.log.memory import MemoryLog
from mainstem.log.port import PartitionId, Slice


def numbers(events: object) -> list[int]:
    return [event.json() for event in events]  # type: ignore[attr-defined]


def in_thread(work: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=work)
    thread.start()
    return thread


@pytest.mark.parametrize(("start", "expected"), starts(0))
def test_reading_begins_where_it_is_told(
    stem: mainstem.EmbeddedStem, start: Start, expected: list[int]
) -> None:
    stem.topics.create("n")
    for number in range(5):
        stem.publish("n", number, timestamp_ms=number * 1000)

    seen = numbers(stem.subscribe("n", start=start, follow=False))

    assert seen == expected


def test_reading_begins_in_the_middle_of_a_batch(stem: mainstem.EmbeddedStem) -> None:
    stem.publish_many("n", range(1000))

    seen = numbers(stem.subscribe("n", start=700, follow=False))

    assert seen == list(range(700, 1000))


@pytest.mark.parametrize("start", [-1, True, "middle", 1.5, {0: -1}, {0: "x"}])
def test_what_is_no_place_to_begin_is_refused(memory: mainstem.EmbeddedStem, start: Start) -> None:
    memory.topics.create("n")

    with pytest.raises(InvalidSetting):
        memory.subscribe("n", start=start)


def test_beginning_past_the_tail_is_refused(memory: mainstem.EmbeddedStem) -> None:
    memory.publish("n", 0)

    with pytest.raises(OffsetOutOfRange):
        memory.subscribe("n", start=2)


def test_an_unknown_topic_is_refused_and_an_unmatched_pattern_is_not(
    memory: mainstem.EmbeddedStem,
) -> None:
    with pytest.raises(UnknownTopic):
        memory.subscribe("nowhere")
    with pytest.raises(InvalidSetting):
        memory.subscribe()

    assert list(memory.subscribe("nowhere.*", follow=False)) == []


def test_only_the_partitions_asked_for_are_read(stem: mainstem.EmbeddedStem) -> None:
    stem.topics.create("n", partitions=3)
    for number in range(6):
        stem.publish("n", number, partition=number % 3)

    seen = numbers(stem.subscribe("n", partitions=[0, 2], follow=False))

    assert sorted(seen) == [0, 2, 3, 5]
    with pytest.raises(UnknownPartition):
        stem.subscribe("n", partitions=[3])


def test_without_follow_reading_ends_at_what_was_the_tail(stem: mainstem.EmbeddedStem) -> None:
    stem.publish_many("n", range(10))
    events = stem.subscribe("n", follow=False)
    stem.publish_many("n", range(10, 20))

    seen = numbers(events)

    assert seen == list(range(10))
    assert events.poll() is None


def test_latest_is_the_tail_when_the_subscription_began(stem: mainstem.EmbeddedStem) -> None:
    stem.publish_many("n", range(10))
    events = stem.subscribe("n", start="latest")
    stem.publish("n", 10)

    event = events.poll(timeout=30)

    assert event is not None
    assert event.json() == 10


@pytest.mark.parametrize(("topic", "group"), [("a.*", None), ("a.*", "g"), ("a.1", "g")])
def test_latest_is_the_beginning_of_a_topic_that_was_made_again(
    memory: mainstem.EmbeddedStem, topic: str, group: str | None
) -> None:
    memory.publish_many("a.1", range(10))
    events = memory.subscribe(topic, start="latest", group=group)
    assert events.poll(timeout=0) is None

    memory.topics.delete("a.1")
    memory.publish_many("a.1", range(20, 23))

    assert numbers(events.poll_many(timeout=30)) == [20, 21, 22]


@pytest.mark.parametrize("group", [None, "g"])
def test_without_follow_a_topic_that_was_made_again_is_after_the_end(
    memory: mainstem.EmbeddedStem, group: str | None
) -> None:
    memory.publish_many("a.1", range(10))
    events = memory.subscribe("a.*", group=group, follow=False)

    memory.topics.delete("a.1")
    memory.publish_many("a.1", range(20, 23))

    assert numbers(events) == []


def test_a_consumer_at_the_tail_is_woken_by_every_append(stem: mainstem.EmbeddedStem) -> None:
    stem.topics.create("ping")
    stem.topics.create("pong")
    pings, pongs = stem.subscribe("ping"), stem.subscribe("pong")

    def answer() -> None:
        for event in pings:
            stem.publish("pong", event.value)

    thread = in_thread(answer)
    heard = []
    for number in range(200):
        stem.publish("ping", number)
        event = pongs.poll(timeout=30)
        heard.append(event and event.json())
    pings.close()
    thread.join(30)

    assert heard == list(range(200))
    assert not thread.is_alive()


def test_an_idle_feed_reads_nothing_until_it_is_signalled() -> None:
    broker = Broker(MemoryLog(), now_ms=lambda: 1000)
    broker.create_topic("n")
    signals: list[str] = []
    feed = Feed(
        broker, SubscriptionOptions(topics=("n",)), lambda: signals.append("more"), lambda: 1000
    )

    assert feed.take() is None
    assert feed.wait_s() is None, "it must not ask to be called again by the clock"
    assert signals == []

    broker.publish("n", [Event(b"x")])

    assert signals == ["more"]
    event = feed.take()
    assert event is not None
    assert event.value == b"x"
    assert feed.take() is None


def test_a_pattern_covers_topics_that_are_created_later(stem: mainstem.EmbeddedStem) -> None:
    stem.publish("orders.eu", 1)
    stem.publish("invoices.eu", 2)
    events = stem.subscribe("orders.*", start="latest")
    assert events.poll(timeout=0) is None

    stem.publish("orders.us", 3)
    event = events.poll(timeout=30)

    assert event is not None
    assert (event.topic, event.json()) == ("orders.us", 3)
    assert events.assignment == (("orders.eu", 0), ("orders.us", 0))


def test_internal_topics_match_no_pattern_but_can_be_named(memory: mainstem.EmbeddedStem) -> None:
    memory.publish("n", 1)

    assert {event.topic for event in memory.subscribe("*", follow=False)} == {"n"}
    assert list(memory.subscribe("__mainstem_topics", follow=False))


def test_a_topic_that_grows_is_read_whole(stem: mainstem.EmbeddedStem) -> None:
    stem.topics.create("n")
    events = stem.subscribe("n")
    assert events.poll(timeout=0) is None

    stem.topics.alter("n", partitions=2)
    stem.publish("n", 7, partition=1)
    event = events.poll(timeout=30)

    assert event is not None
    assert event.json() == 7


@pytest.mark.parametrize("group", [None, "g"])
@pytest.mark.parametrize("start", [5, {0: 5, 1: 5}])
def test_what_comes_later_is_read_whole_wherever_reading_began(
    memory: mainstem.EmbeddedStem, start: Start, group: str | None
) -> None:
    memory.topics.create("n.1", partitions=1)
    memory.publish_many("n.1", range(6))
    events = memory.subscribe("n.*", start=start, group=group)
    assert numbers(events.poll_many(timeout=30)) == [5]

    memory.topics.alter("n.1", partitions=2)
    memory.publish("n.1", 7, partition=1)
    memory.topics.create("n.2", partitions=1)
    memory.publish("n.2", 8)
    found = [events.poll(timeout=30) for _ in range(2)]

    assert sorted(numbers(found)) == [7, 8]


def test_poll_gives_up_after_its_time(memory: mainstem.EmbeddedStem) -> None:
    memory.topics.create("n")
    events = memory.subscribe("n")

    assert events.poll(timeout=0.01) is None
    assert events.poll_many(timeout=0.01) == []


def test_poll_many_returns_what_is_there_up_to_the_limit(stem: mainstem.EmbeddedStem) -> None:
    stem.topics.create("n", partitions=4)
    stem.publish_many("n", [Event(b"%d" % n, key=b"%d" % n) for n in range(100)])
    events = stem.subscribe("n")

    first = events.poll_many(30)
    rest = events.poll_many()

    assert len(first) == 30
    assert sorted(numbers(first) + numbers(rest)) == list(range(100))


def test_events_that_were_deleted_first_are_counted_as_missed(
    stem: mainstem.EmbeddedStem,
) -> None:
    stem.publish_many("n", range(10))
    events = stem.subscribe("n", start=2)
    stem.topics.trim("n", 7)

    event = events.poll(timeout=30)

    assert event is not None
    assert event.json() == 7
    assert events.missed == 5


def test_a_named_topic_that_is_deleted_ends_with_an_error(stem: mainstem.EmbeddedStem) -> None:
    stem.publish("n", 1)
    events = stem.subscribe("n")
    assert events.poll(timeout=30)

    stem.topics.delete("n")
    stem.topics.create("n")

    with pytest.raises(UnknownTopic):
        events.poll(timeout=30)


def test_a_topic_of_a_pattern_can_be_deleted(stem: mainstem.EmbeddedStem) -> None:
    stem.publish("a.1", 1)
    stem.publish("a.2", 2)
    events = stem.subscribe("a.*")
    assert len(events.poll_many(10, timeout=30)) == 2

    stem.topics.delete("a.1")
    stem.publish("a.2", 3)
    event = events.poll(timeout=30)

    assert event is not None
    assert event.json() == 3
    assert events.assignment == (("a.2", 0),)


def test_a_topic_of_a_pattern_can_be_deleted_and_made_again(stem: mainstem.EmbeddedStem) -> None:
    stem.publish("a.1", 1)
    events = stem.subscribe("a.*")
    assert events.poll(timeout=30)

    stem.topics.delete("a.1")
    stem.publish("a.1", 2)
    event = events.poll(timeout=30)

    assert event is not None
    assert (event.json(), event.offset) == (2, 0)


def test_damage_is_told_again_and_again_and_never_passed_over() -> None:
    log = MemoryLog()
    broker = Broker(log, now_ms=lambda: 1000)
    partition = broker.create_topic("n").topic.partitions[0]
    broker.publish("n", [Event(b"good")])
    damaged = build([Event(b"a"), Event(b"b")], now_ms=1000)
    damaged[-3] ^= 1
    log.append([(partition, damaged)])
    broker.publish("n", [Event(b"after")])
    feed = Feed(broker, SubscriptionOptions(topics=("n",)), lambda: None, lambda: 1000)

    assert [event.value for event in feed.take_many(10)] == [b"good"]
    for _ in range(2):
        with pytest.raises(CorruptBatch):
            feed.take()
        with pytest.raises(CorruptBatch):
            feed.take_many(10)


def test_damage_within_a_batch_does_not_give_its_first_events_again() -> None:
    log = MemoryLog()
    broker = Broker(log, now_ms=lambda: 1000)
    partition = broker.create_topic("n").topic.partitions[0]
    damaged = build([Event(b"a"), Event(b"b"), Event(b"c")], now_ms=1000)
    damaged[-8] ^= 0x40
    seal(damaged)
    log.append([(partition, damaged)])
    feed = Feed(broker, SubscriptionOptions(topics=("n",)), lambda: None, lambda: 1000)

    first = feed.take()
    rest = feed.take_many(10)

    assert first is not None
    assert [event.value for event in (first, *rest)] == [b"a", b"b"]
    for _ in range(2):
        with pytest.raises(CorruptBatch):
            feed.take()


def test_a_topic_that_is_gone_is_told_after_the_events_before_it(
    memory: mainstem.EmbeddedStem,
) -> None:
    memory.publish_many("kept", range(3))
    memory.publish("gone", 0)
    events = memory.subscribe("kept", "gone", follow=False)
    memory.topics.delete("gone")

    seen = numbers(events.poll_many(100, timeout=30))

    assert seen == [0, 1, 2]
    with pytest.raises(UnknownTopic):
        events.poll(timeout=30)


class FailingLog(MemoryLog):
    """A log where some reads fail."""

    failing: PartitionId | None = None

    def read(self, partition: PartitionId, offset: int, max_bytes: int) -> Slice:
        """Read, or fail."""
        if partition == self.failing:
            raise StorageFailed("this disk is worn out")
        return super().read(partition, offset, max_bytes)


def test_a_read_that_fails_neither_takes_other_events_along_nor_ends_its_partition() -> None:
    log = FailingLog()
    broker = Broker(log, now_ms=lambda: 1000)
    first, second = broker.create_topic("n", TopicSettings(partitions=2)).topic.partitions
    for at in (first, second):
        broker.publish("n", [Event(b"%d" % at.number)], at.number)
    feed = Feed(broker, SubscriptionOptions(topics=("n",)), lambda: None, lambda: 1000)
    log.failing = second

    before = feed.take_many(10)
    for _ in range(2):
        with pytest.raises(StorageFailed):
            feed.take()
        with pytest.raises(StorageFailed):
            feed.take_many(10)
    log.failing = None
    after = feed.take_many(10)

    assert [event.value for event in before] == [b"0"]
    assert [event.value for event in after] == [b"1"]


@pytest.mark.parametrize("closed", ["subscription", "stem"])
def test_closing_from_another_thread_ends_the_wait(
    stem: mainstem.EmbeddedStem, closed: str
) -> None:
    stem.topics.create("n")
    events = stem.subscribe("n")
    seen: list[Event] = []

    thread = in_thread(lambda: seen.extend(events))
    (events if closed == "subscription" else stem).close()
    thread.join(30)

    assert not thread.is_alive()
    assert seen == []


def test_a_closed_subscription_says_so(memory: mainstem.EmbeddedStem) -> None:
    memory.publish("n", 1)
    with memory.subscribe("n") as events:
        assert events.poll(timeout=30)

    with pytest.raises(Closed):
        events.poll()
    with pytest.raises(Closed):
        events.poll_many()
    assert list(events) == []


def test_reading_while_writing_sees_every_event_once_and_in_order(
    stem: mainstem.EmbeddedStem,
) -> None:
    stem.topics.create("n", durability="disk")
    events = stem.subscribe("n")

    def produce() -> None:
        for number in range(2000):
            stem.publish("n", number)

    thread = in_thread(produce)
    seen = [next(events).json() for _ in range(2000)]
    thread.join(30)

    assert seen == list(range(2000))


def test_small_stretches_give_the_same_events_as_large_ones() -> None:
    with mainstem.open(":memory:", fetch_bytes=1024) as stem:
        stem.topics.create("n", partitions=3)
        for at in range(0, 900, 30):
            stem.publish_many("n", [Event(b"%d" % n, key=b"%d" % n) for n in range(at, at + 30)])

        seen = numbers(stem.subscribe("n", follow=False))

        assert sorted(seen) == list(range(900))


def test_compacted_events_leave_no_trace(stem: mainstem.EmbeddedStem) -> None:
    stem.topics.create("n", compact=True)
    for number in range(10):
        stem.publish("n", number, key=str(number % 2))

    seen = {event.key: event.json() for event in stem.subscribe("n", follow=False)}

    assert seen == {b"0": 8, b"1": 9}
