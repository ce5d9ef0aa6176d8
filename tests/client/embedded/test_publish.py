"""Publishing: one event, and many."""

import threading
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest

import mainstem
from mainstem import Event, Position
from mainstem.core.errors import (
    Closed,
    EventTooLarge,
    InvalidEvent,
    Overloaded,
    UnknownPartition,
    UnknownTopic,
)


def everything(stem: mainstem.EmbeddedStem, topic: str) -> list[Event]:
    return list(stem.subscribe(topic, follow=False))


def test_an_event_comes_back_as_it_was_published(stem: mainstem.EmbeddedStem) -> None:
    stem.topics.create("orders")

    position = stem.publish(
        "orders", {"id": 1}, key="k", headers={"trace": "x", "none": None}, timestamp_ms=1234
    )

    (event,) = everything(stem, "orders")
    assert position == Position(0, 0) == event.position
    assert event.topic == "orders"
    assert event.json() == {"id": 1}
    assert event.key == b"k"
    assert event.headers == (("trace", b"x"), ("none", None))
    assert event.timestamp_ms == 1234


def test_positions_count_up_in_their_partition(stem: mainstem.EmbeddedStem) -> None:
    stem.topics.create("orders", partitions=2)

    positions = [stem.publish("orders", b"x", partition=1) for _ in range(3)]

    assert positions == [Position(1, 0), Position(1, 1), Position(1, 2)]


def test_events_with_the_same_key_share_a_partition(stem: mainstem.EmbeddedStem) -> None:
    stem.topics.create("orders", partitions=8)

    one = {stem.publish("orders", b"x", key="customer-7").partition for _ in range(5)}
    stem.publish_many("orders", [Event(b"x", key=b"customer-7") for _ in range(5)])

    assert len(one) == 1
    assert {event.partition for event in everything(stem, "orders")} == one


def test_events_without_a_key_are_spread(stem: mainstem.EmbeddedStem) -> None:
    stem.topics.create("orders", partitions=4)

    partitions = [stem.publish("orders", b"x").partition for _ in range(8)]

    assert sorted(partitions) == [0, 0, 1, 1, 2, 2, 3, 3]


def test_a_topic_that_is_published_to_is_created(tmp_path: Path) -> None:
    with mainstem.open(tmp_path, partitions=3, durability="disk") as stem:
        stem.publish("fresh", "x")
        stem.publish_many("fresher", ["x"])

        assert len(stem.topics.show("fresh").partitions) == 3
        assert stem.topics.show("fresher").settings.durability == "disk"


def test_a_topic_is_not_created_where_that_is_turned_off() -> None:
    with mainstem.open(":memory:", auto_create=False) as stem:
        with pytest.raises(UnknownTopic):
            stem.publish("fresh", "x")
        with pytest.raises(UnknownTopic):
            stem.publish_many("fresh", ["x"])

        assert stem.topics.list() == ()


def test_what_cannot_be_stored_is_refused(memory: mainstem.EmbeddedStem) -> None:
    memory.topics.create("small", max_batch_bytes=2000)
    memory.topics.create("compacted", compact=True)

    with pytest.raises(EventTooLarge):
        memory.publish("small", b"x" * 2000)
    with pytest.raises(EventTooLarge):
        memory.publish_many("small", [b"x" * 2000])
    with pytest.raises(InvalidEvent, match="key"):
        memory.publish("compacted", b"x")
    with pytest.raises(UnknownPartition):
        memory.publish("small", b"x", partition=1)
    with pytest.raises(UnknownPartition):
        memory.publish_many("small", [b"x"], partition=1)

    assert everything(memory, "small") == everything(memory, "compacted") == []


def test_many_events_keep_their_order_within_a_key(stem: mainstem.EmbeddedStem) -> None:
    stem.topics.create("orders", partitions=4)
    keys = [b"a", b"b", b"c", b"d", b"e"]

    count = stem.publish_many(
        "orders", (Event(b"%d" % n, key=keys[n % len(keys)]) for n in range(10_000))
    )

    assert count == 10_000
    seen: dict[bytes, list[int]] = {}
    for event in everything(stem, "orders"):
        seen.setdefault(event.key or b"", []).append(event.json())
    assert seen == {key: list(range(at, 10_000, len(keys))) for at, key in enumerate(keys)}


def test_many_values_of_any_form_can_be_mixed(memory: mainstem.EmbeddedStem) -> None:
    memory.publish_many("mixed", ["text", b"raw", {"a": 1}, None, Event(b"event", key=b"k")])

    values = [event.value for event in everything(memory, "mixed")]
    assert values == [b"text", b"raw", b'{"a":1}', None, b"event"]


def test_many_events_go_into_few_large_batches(memory: mainstem.EmbeddedStem) -> None:
    memory.topics.create("orders", partitions=2)

    memory.publish_many("orders", (b"x" * 1000 for _ in range(4000)))

    topic = memory.topics.show("orders")
    overhead = (topic.size_bytes or 0) - 4000 * 1000
    assert overhead < 4000 * 12, "a batch of its own would cost each event 61 bytes more"
    assert min(part.tail for part in topic.partitions) > 1000, "both partitions were used"


def test_many_events_take_little_memory_however_many_they_are(tmp_path: Path) -> None:
    with mainstem.open(tmp_path, batch_bytes=128 * 1024, pending_bytes=1024 * 1024) as stem:
        stem.topics.create("orders", partitions=4)
        tracemalloc.start()

        count = stem.publish_many("orders", (b"%1000d" % n for n in range(20_000)))

        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert count == 20_000
        assert peak < 8 * 1024 * 1024, "20 MB went through"


def test_reading_takes_little_memory_however_much_is_behind(tmp_path: Path) -> None:
    with mainstem.open(tmp_path, fetch_bytes=256 * 1024) as stem:
        stem.topics.create("orders", partitions=4, durability="disk")
        stem.publish_many("orders", (b"%1000d" % n for n in range(20_000)))
        tracemalloc.start()

        count = sum(1 for _ in stem.subscribe("orders", follow=False))

        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert count == 20_000
        assert peak < 6 * 1024 * 1024, "20 MB went through"


def test_nothing_is_many_events_too(memory: mainstem.EmbeddedStem) -> None:
    assert memory.publish_many("orders", []) == 0


def test_an_iterable_that_fails_is_heard(memory: mainstem.EmbeddedStem) -> None:
    def events() -> Iterator[bytes]:
        yield b"x"
        raise LookupError("the source broke")

    with pytest.raises(LookupError, match="the source broke"):
        memory.publish_many("orders", events())


def test_a_full_topic_refuses_and_counts(memory: mainstem.EmbeddedStem) -> None:
    memory.topics.create("orders", overload="drop=newest", max_backlog=10)
    memory.groups.seek("slow", "orders", "earliest")
    memory.publish_many("orders", range(10))

    with pytest.raises(Overloaded):
        memory.publish("orders", 10)

    topic = memory.topics.show("orders")
    assert topic.events == 10
    assert topic.counters["refused"] == 1


def test_backpressure_lets_many_events_through_as_they_are_read(
    memory: mainstem.EmbeddedStem,
) -> None:
    memory.topics.create("orders", overload="backpressure", max_backlog=100, hold_ms=60_000)
    memory.groups.seek("worker", "orders", "earliest")
    producer = threading.Thread(target=memory.publish_many, args=("orders", range(1000)))
    with memory.subscribe("orders", group="worker", commit="manual") as events:
        producer.start()
        seen: list[Event] = []
        while len(seen) < 1000:
            seen += events.poll_many(50)
            events.commit()
    producer.join()

    assert [event.json() for event in seen] == list(range(1000))
    assert memory.topics.show("orders").counters["held"] > 0


def test_after_closing_nothing_can_be_published(tmp_path: Path) -> None:
    stem = mainstem.open(tmp_path)
    stem.publish("orders", "x")
    stem.close()

    with pytest.raises(Closed):
        stem.publish("orders", "x")
    with pytest.raises(Closed):
        stem.publish_many("orders", ["x"])
