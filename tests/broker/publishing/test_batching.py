"""From events to record batches: the right partition, whole batches, all or nothing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.broker.brokers import NOW_MS, append, new_broker, publish, read_all, values

from mainstem.core.batch import batches, place
from mainstem.core.errors import (
    CorruptBatch,
    EventTooLarge,
    InvalidEvent,
    InvalidName,
    UnknownPartition,
    UnknownTopic,
    UntimelyEvent,
)
from mainstem.core.event import Event, Position
from mainstem.core.partitioner import partition_for
from mainstem.core.records import build
from mainstem.core.topic_settings import Timestamps, TopicSettings


def test_a_key_always_goes_to_its_partition() -> None:
    broker = new_broker()
    broker.create_topic("orders", TopicSettings(partitions=5))
    keyed = [Event(b"x", b"key-%d" % number) for number in range(50)]

    alone = [broker.publish("orders", [event]).position.partition for event in keyed]
    together = [position.partition for position in broker.publish("orders", keyed).positions]

    expected = [partition_for(event.key or b"", 5) for event in keyed]
    assert alone == together == expected
    assert len(set(expected)) == 5


def test_events_without_a_key_take_turns_but_stay_together_in_one_publish() -> None:
    broker = new_broker()
    broker.create_topic("orders", TopicSettings(partitions=3))

    used = [
        {position.partition for position in broker.publish("orders", [Event(b"x")] * 4).positions}
        for _ in range(3)
    ]

    assert used == [{0}, {1}, {2}]


def test_the_partition_given_wins_over_the_key() -> None:
    broker = new_broker()
    broker.create_topic("orders", TopicSettings(partitions=3))

    positions = broker.publish("orders", [Event(b"x", b"a"), Event(b"y", b"b")], 2).positions

    assert positions == [Position(2, 0), Position(2, 1)]
    for partition in (3, -1):
        with pytest.raises(UnknownPartition, match="0 to 2"):
            broker.publish("orders", [Event(b"x")], partition)


@given(
    st.lists(st.tuples(st.none() | st.binary(max_size=3), st.integers(0, 900)), max_size=40),
    st.integers(1, 4),
)
def test_every_event_stands_where_its_position_says(
    written: list[tuple[bytes | None, int]], partitions: int
) -> None:
    broker = new_broker()
    broker.create_topic("orders", TopicSettings(partitions=partitions, max_batch_bytes=1_024))
    events = [Event(b"%d" % number, key) for number, (key, _) in enumerate(written)]
    events = [
        Event((event.value or b"") + b" " * size, event.key)
        for event, (_, size) in zip(events, written, strict=True)
    ]

    positions = broker.publish("orders", events).positions

    stored = {
        event.position: (event.key, event.value)
        for number in range(partitions)
        for event in read_all(broker, "orders", number)
    }
    assert [stored[position] for position in positions] == [(e.key, e.value) for e in events]
    assert len(stored) == len(events)
    for number in range(partitions):
        read = broker.read("orders", number, 0, 1_000_000)
        assert all(len(batch) <= 1_024 for batch in batches(read.tobytes()))


def test_one_event_over_the_limit_is_refused_with_everything_beside_it() -> None:
    broker = new_broker()
    broker.create_topic("orders", TopicSettings(max_batch_bytes=1_024))

    with pytest.raises(EventTooLarge) as refused:
        broker.publish("orders", [Event(b"fits"), Event(b"x" * 1_000)])

    assert refused.value.limit == 1_024
    assert broker.bounds("orders", 0).end == 0


def test_an_event_exactly_at_the_limit_fits_and_one_byte_more_does_not() -> None:
    broker = new_broker()
    broker.create_topic("orders", TopicSettings(max_batch_bytes=1_024))
    room = 1_024 - len(build([Event(b"x" * 900)], now_ms=0)) + 900

    publish(broker, "orders", b"x" * room)

    with pytest.raises(EventTooLarge):
        publish(broker, "orders", b"x" * (room + 1))


def test_events_with_times_beyond_the_limits_of_their_topic_are_refused() -> None:
    broker = new_broker()
    broker.create_topic("orders", TopicSettings(max_ahead_ms=10, max_behind_ms=20))
    timed = [Event(b"x", timestamp_ms=NOW_MS + each) for each in (10, 11, 0, -20, -21)]

    def publish_events(events: list[Event]) -> None:
        broker.publish("orders", events)

    def append_batch(events: list[Event]) -> None:
        append(broker, "orders", 0, build(events, now_ms=NOW_MS))

    for put in (publish_events, append_batch):
        with pytest.raises(UntimelyEvent, match="11 ms ahead of the clock") as refused:
            put(timed)
        put([timed[0], timed[2], timed[3], Event(b"without a time")])
        with pytest.raises(UntimelyEvent, match="21 ms behind the clock, more than max_behind_ms"):
            put(timed[2:])
        assert refused.value.which == [1, 4]

    assert len(read_all(broker, "orders")) == 8


def test_times_that_the_topic_gives_itself_have_no_limits() -> None:
    broker = new_broker()
    settings = TopicSettings(max_ahead_ms=10, timestamps=Timestamps.APPENDED)
    broker.create_topic("orders", settings)

    broker.publish("orders", [Event(b"x", timestamp_ms=NOW_MS + 11)])

    (event,) = read_all(broker, "orders")
    assert event.timestamp_ms == NOW_MS


def test_a_compacted_topic_needs_keys() -> None:
    broker = new_broker()
    broker.create_topic("state", TopicSettings(compact=True))

    with pytest.raises(InvalidEvent, match="compacted by key"):
        broker.publish("state", [Event(b"x", b"k"), Event(b"y")])
    with pytest.raises(InvalidEvent):
        append(broker, "state", 0, build([Event(b"x")], now_ms=0))

    assert broker.bounds("state", 0).end == 0


def test_time_is_the_event_s_own_or_else_now() -> None:
    broker = new_broker()
    broker.create_topic("orders")

    broker.publish("orders", [Event(b"a", timestamp_ms=5), Event(b"b")])

    assert [event.timestamp_ms for event in read_all(broker, "orders")] == [5, NOW_MS]


def test_nothing_to_publish_is_durable_at_once() -> None:
    broker = new_broker()
    broker.create_topic("orders")

    published = broker.publish("orders", [])

    assert published.positions == []
    assert published.durable.done


def test_unknown_and_internal_topics_are_refused() -> None:
    broker = new_broker()

    with pytest.raises(UnknownTopic):
        publish(broker, "orders", b"x")
    with pytest.raises(InvalidName):
        publish(broker, "__mainstem_topics", b"x")
    with pytest.raises(InvalidName):
        append(broker, "__mainstem_cursors", 0, build([Event(b"x")], now_ms=0))


def test_a_batch_from_a_producer_is_stored_byte_for_byte_but_for_its_place() -> None:
    broker = new_broker()
    broker.create_topic("orders")
    publish(broker, "orders", b"before")
    batch = build([Event(b"x"), Event(b"y")], now_ms=7)
    sent = bytearray(batch)

    appended = append(broker, "orders", 0, batch)

    assert (appended.offset, appended.events) == (1, 2)
    stored = bytes(broker.read("orders", 0, 1, 1_000).tobytes())
    place(sent, 1, 0)
    assert stored == bytes(sent)


def test_a_damaged_batch_from_a_producer_is_refused() -> None:
    broker = new_broker()
    broker.create_topic("orders", TopicSettings(max_batch_bytes=1_024))
    batch = build([Event(b"x")], now_ms=7)
    batch[-1] ^= 1

    with pytest.raises(CorruptBatch):
        append(broker, "orders", 0, batch)
    with pytest.raises(EventTooLarge):
        append(broker, "orders", 0, build([Event(b"x" * 2_000)], now_ms=0))
    with pytest.raises(UnknownPartition):
        append(broker, "orders", 1, build([Event(b"x")], now_ms=0))
    assert values(read_all(broker, "orders")) == []
