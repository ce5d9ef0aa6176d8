"""Publishing, and reading without a group, on every kind of stem.

Each test has topics and groups of its own, as all of them share one server.
"""

from collections.abc import Iterator

import pytest
from tests.client.every_stem.stems import PATIENCE_S, fill, in_thread, numbers, take
from tests.client.start_positions import starts

from mainstem.client.start_positions import Start
from mainstem.client.stem import Stem
from mainstem.core.errors import (
    Closed,
    EventTooLarge,
    InvalidEvent,
    InvalidName,
    InvalidSetting,
    OffsetOutOfRange,
    UnknownPartition,
    UnknownTopic,
)
from mainstem.core.event import Event, Position
from mainstem.core.partitioner import partition_for

# Publishing


def test_what_is_published_is_read_whole(stem: Stem, name: str) -> None:
    stem.topics.create(name, partitions=1)

    first = stem.publish(name, b"\x00\xff", key="k", headers={"a": "1", "b": None})
    second = stem.publish(name, None, key=b"", timestamp_ms=1_700_000_000_000)
    third = stem.publish(name, {"id": 7})

    one, two, three = stem.subscribe(name, follow=False)
    assert [first, second, third] == [Position(0, 0), Position(0, 1), Position(0, 2)]
    assert (one.value, one.key, one.headers) == (b"\x00\xff", b"k", (("a", b"1"), ("b", None)))
    assert (two.value, two.key, two.timestamp_ms) == (None, b"", 1_700_000_000_000)
    assert (three.json(), three.topic, three.position) == ({"id": 7}, name, third)
    assert one.timestamp_ms > 1_600_000_000_000


def test_a_key_goes_to_the_same_partition_everywhere(stem: Stem, name: str) -> None:
    stem.topics.create(name, partitions=7)
    keys = [f"key {number}".encode() for number in range(30)]

    found = [stem.publish(name, 1, key=key).partition for key in keys]

    assert found == [partition_for(key, 7) for key in keys]


def test_many_events_keep_their_order(stem: Stem, name: str) -> None:
    stem.topics.create(name, partitions=1)

    published = stem.publish_many(name, range(5000))

    assert published == 5000
    assert numbers(stem.subscribe(name, follow=False)) == list(range(5000))


def test_many_events_fit_into_a_topic_of_small_batches(stem: Stem, name: str) -> None:
    stem.topics.create(name, max_batch_bytes=2000)

    assert stem.publish_many(name, ["x" * 100 for _ in range(500)]) == 500


def test_a_topic_that_is_published_to_is_created(stem: Stem, name: str) -> None:
    stem.publish(name, 1)

    assert stem.topics.show(name).events == 1


def test_what_cannot_be_published_is_refused(stem: Stem, name: str) -> None:
    stem.topics.create(name, max_batch_bytes=2000)
    stem.topics.create(f"{name}.state", compact=True)

    with pytest.raises(EventTooLarge) as large:
        stem.publish(name, b"x" * 10_000)
    with pytest.raises(EventTooLarge):
        stem.publish_many(name, [b"x" * 10_000])
    with pytest.raises(UnknownPartition):
        stem.publish(name, 1, partition=5)
    with pytest.raises(InvalidName):
        stem.publish("no/name", 1)
    with pytest.raises(InvalidEvent):
        stem.publish(name, float("nan"))
    with pytest.raises(InvalidEvent):
        stem.publish(f"{name}.state", "without a key")
    stem.publish(name, "the next one is fine")

    assert large.value.limit == 2000
    assert stem.topics.show(name).events == 1


def test_an_iterable_that_fails_is_the_error_that_is_told(stem: Stem, name: str) -> None:
    stem.topics.create(name)

    def broken() -> Iterator[int]:
        yield 1
        raise LookupError("no more")

    with pytest.raises(LookupError):
        stem.publish_many(name, broken())


# Reading without a group


@pytest.mark.parametrize(("start", "expected"), starts(1))
def test_reading_begins_where_it_is_told(
    stem: Stem, name: str, start: Start, expected: list[int]
) -> None:
    stem.topics.create(name, partitions=1)
    for number in range(5):
        stem.publish(name, number, timestamp_ms=1000 + number * 1000)

    assert numbers(stem.subscribe(name, start=start, follow=False)) == expected


def test_reading_without_follow_ends_at_what_was_the_tail(stem: Stem, name: str) -> None:
    fill(stem, name, 10)
    events = stem.subscribe(name, follow=False)
    stem.publish_many(name, range(10, 20))

    assert numbers(events) == list(range(10))
    assert events.poll() is None
    assert events.poll_many() == []


def test_latest_is_the_tail_when_the_subscription_began(stem: Stem, name: str) -> None:
    fill(stem, name, 10)
    events = stem.subscribe(name, start="latest")
    stem.publish(name, 10)

    assert numbers(take(events, 1)) == [10]


def test_only_the_partitions_asked_for_are_read(stem: Stem, name: str) -> None:
    fill(stem, name, 9, partitions=3)

    seen = numbers(stem.subscribe(name, partitions=[0, 2], follow=False))

    assert sorted(seen) == [0, 2, 3, 5, 6, 8]
    with pytest.raises(UnknownPartition):
        stem.subscribe(name, partitions=[3])


def test_a_pattern_covers_topics_that_come_later(stem: Stem, name: str) -> None:
    stem.topics.create(f"{name}.eu", partitions=1)
    stem.topics.create(f"not.{name}.eu")
    events = stem.subscribe(f"{name}.*", start="latest")
    assert events.poll(timeout=0) is None

    fill(stem, f"{name}.us", 1)
    (event,) = take(events, 1)

    assert (event.topic, event.json()) == (f"{name}.us", 0)
    assert events.assignment == ((f"{name}.eu", 0), (f"{name}.us", 0))


def test_a_topic_that_grows_is_read_whole(stem: Stem, name: str) -> None:
    fill(stem, name, 1)
    events = stem.subscribe(name)
    assert numbers(take(events, 1)) == [0]

    stem.topics.alter(name, partitions=2)
    stem.publish(name, 7, partition=1)

    assert numbers(take(events, 1)) == [7]


def test_events_deleted_before_they_were_read_are_counted(stem: Stem, name: str) -> None:
    fill(stem, name, 10)
    stem.groups.seek(f"{name}.g", name, 2)
    stem.topics.trim(name, 7)

    with stem.subscribe(name, group=f"{name}.g") as events:
        seen = numbers(take(events, 3))

        assert seen == [7, 8, 9]
        assert events.missed == 5


def test_a_named_topic_that_is_deleted_ends_with_an_error(stem: Stem, name: str) -> None:
    fill(stem, name, 1)
    events = stem.subscribe(name)
    take(events, 1)

    stem.topics.delete(name)

    with pytest.raises(UnknownTopic):
        events.poll(timeout=PATIENCE_S)


def test_a_topic_made_again_under_a_name_is_not_what_was_asked_for(stem: Stem, name: str) -> None:
    fill(stem, name, 10)
    events = stem.subscribe(name)
    take(events, 10)

    stem.topics.delete(name)
    fill(stem, name, 5)

    with pytest.raises(UnknownTopic):
        events.poll(timeout=PATIENCE_S)


def test_a_topic_of_a_pattern_that_is_made_again_is_read_from_its_beginning(
    stem: Stem, name: str
) -> None:
    fill(stem, f"{name}.eu", 10)
    events = stem.subscribe(f"{name}.*")
    take(events, 10)

    stem.topics.delete(f"{name}.eu")
    fill(stem, f"{name}.eu", 5)

    assert numbers(take(events, 5)) == [0, 1, 2, 3, 4]


def test_poll_gives_up_after_its_time(stem: Stem, name: str) -> None:
    stem.topics.create(name)

    with stem.subscribe(name) as events:
        assert events.poll(timeout=0.01) is None
        assert events.poll_many(timeout=0.01) == []


def test_what_is_no_subscription_is_refused(stem: Stem, name: str) -> None:
    fill(stem, name, 1)

    with pytest.raises(UnknownTopic):
        stem.subscribe(f"{name}.nowhere")
    with pytest.raises(UnknownTopic):
        stem.subscribe(f"{name}.nowhere", group=name)
    with pytest.raises(InvalidSetting):
        stem.subscribe()
    with pytest.raises(InvalidSetting):
        stem.subscribe(name, start=-1)
    with pytest.raises(InvalidSetting):
        stem.subscribe(name, group=name, partitions=[0])
    with pytest.raises(OffsetOutOfRange):
        stem.subscribe(name, start=2)
    with pytest.raises(InvalidName):
        stem.subscribe(name, group="")

    assert list(stem.subscribe(f"{name}.nowhere.*", follow=False)) == []


def test_closing_from_another_thread_ends_the_wait(stem: Stem, name: str) -> None:
    stem.topics.create(name)
    events = stem.subscribe(name)
    seen: list[Event] = []

    thread = in_thread(lambda: seen.extend(events))
    events.close()
    thread.join(PATIENCE_S)

    assert not thread.is_alive()
    with pytest.raises(Closed):
        events.poll()
