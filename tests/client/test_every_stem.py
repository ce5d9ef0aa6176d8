"""What holds for every stem: opened in this process, and connected to a server or to a Kafka.

Each test has topics and groups of its own, as all of them share one server.
"""

import threading
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from itertools import count
from typing import Any

import pytest
from bench.apache_kafka import ApacheKafka, missing
from tests.serving import serving

import mainstem
from mainstem.client.stem import Start, Stem, Subscription
from mainstem.core.errors import (
    Closed,
    EventTooLarge,
    GroupIsLive,
    InvalidEvent,
    InvalidName,
    InvalidSetting,
    MainstemError,
    OffsetOutOfRange,
    TopicExists,
    UnknownGroup,
    UnknownPartition,
    UnknownTopic,
)
from mainstem.core.event import Event, Position
from mainstem.core.partitioner import partition_for

PATIENCE_S = 30
_numbers = count()


@pytest.fixture(scope="module")
def opened() -> Iterator[Stem]:
    with mainstem.open(":memory:") as stem:
        yield stem


@pytest.fixture(scope="module")
def connected(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stem]:
    with (
        serving(tmp_path_factory.mktemp("served")) as address,
        mainstem.connect(address) as stem,
    ):
        yield stem


@pytest.fixture(scope="module")
def of_kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stem]:
    if reason := missing():
        pytest.skip(reason)
    server = ApacheKafka(tmp_path_factory.mktemp("kafka"))
    server.start()
    try:
        with mainstem.connect(server.address) as stem:
            yield stem
    finally:
        server.stop()


@pytest.fixture(params=["opened", "connected", pytest.param("of_kafka", marks=pytest.mark.peers)])
def stem(request: pytest.FixtureRequest) -> Stem:
    """A stem of each kind."""
    found: Stem = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def name() -> str:
    """A name that nothing has yet."""
    return f"n{next(_numbers)}"


def fill(stem: Stem, topic: str, events: int, partitions: int = 1) -> None:
    stem.topics.create(topic, partitions=partitions)
    for number in range(partitions):
        stem.publish_many(topic, range(number, events, partitions), partition=number)


def numbers(events: Iterable[Event]) -> list[int]:
    return [event.json() for event in events]


def take(subscription: Subscription, wanted: int) -> list[Event]:
    """Read so many events, in whatever pieces they come."""
    found: list[Event] = []
    while len(found) < wanted:
        more = subscription.poll_many(wanted - len(found), timeout=PATIENCE_S)
        assert more, f"{len(found)} of {wanted} events came"
        found += more
    return found


def cursors(stem: Stem, group: str) -> list[int | None]:
    return [lag.cursor for lag in stem.groups.show(group).lags]


def in_thread(work: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=work)
    thread.start()
    return thread


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


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        ("earliest", [0, 1, 2, 3, 4]),
        ("latest", []),
        (3, [3, 4]),
        (5, []),
        (datetime.fromtimestamp(3, UTC), [2, 3, 4]),
        (datetime.fromtimestamp(2.5, UTC), [2, 3, 4]),
        (datetime.fromtimestamp(99, UTC), []),
        ({0: 4}, [4]),
        ({7: 4}, [0, 1, 2, 3, 4]),
    ],
)
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


# Groups


def test_every_group_sees_every_event(stem: Stem, name: str) -> None:
    fill(stem, name, 20, partitions=4)

    seen = [
        numbers(stem.subscribe(name, group=f"{name}.{group}", follow=False))
        for group in ("billing", "shipping")
    ]

    assert [sorted(each) for each in seen] == [list(range(20))] * 2


def test_members_of_a_group_share_the_partitions(stem: Stem, name: str) -> None:
    fill(stem, name, 400, partitions=4)
    seen: list[int] = []
    shares: list[int] = []
    lock = threading.Lock()
    together = threading.Barrier(2)

    def work() -> None:
        with stem.subscribe(name, group=name) as events:
            while len(events.assignment) != 2:
                got = numbers(events.poll_many(timeout=0.1))
                with lock:
                    seen.extend(got)
            shares.append(len(events.assignment))
            while len(seen) < 400:
                got = numbers(events.poll_many(timeout=0.1))
                with lock:
                    seen.extend(got)
            together.wait(PATIENCE_S)

    members = [in_thread(work) for _ in range(2)]
    for member in members:
        member.join(PATIENCE_S)

    assert shares == [2, 2]
    assert sorted(seen) == list(range(400))
    assert stem.groups.show(name).lag == 0


def test_a_group_goes_on_where_it_was(stem: Stem, name: str) -> None:
    fill(stem, name, 10)

    with stem.subscribe(name, group=name) as events:
        first = numbers(take(events, 4))
    rest = numbers(stem.subscribe(name, group=name, follow=False))

    assert first == [0, 1, 2, 3]
    assert rest == [4, 5, 6, 7, 8, 9]


def test_an_event_counts_when_the_next_is_asked_for(stem: Stem, name: str) -> None:
    fill(stem, name, 3)

    def work() -> None:
        with stem.subscribe(name, group=name) as events:
            for event in events:
                if event.json() == 1:
                    raise LookupError("the work on event 1 failed")

    with pytest.raises(LookupError):
        work()

    assert numbers(stem.subscribe(name, group=name, follow=False)) == [1, 2]


def test_breaking_out_of_a_loop_leaves_the_group(stem: Stem, name: str) -> None:
    fill(stem, name, 3)

    for event in stem.subscribe(name, group=name):
        if event.json() == 1:
            break

    group = stem.groups.show(name)
    assert group.state == "empty"
    assert cursors(stem, name) == [1], "what broke the loop comes again"


def test_by_hand_nothing_is_committed_unless_asked(stem: Stem, name: str) -> None:
    fill(stem, name, 5)

    with stem.subscribe(name, group=name, commit="manual") as events:
        take(events, 2)
        events.commit()
        take(events, 1)

    assert cursors(stem, name) == [2]


def test_by_hand_what_was_read_to_the_end_can_be_committed(stem: Stem, name: str) -> None:
    fill(stem, name, 5)

    with stem.subscribe(name, group=name, commit="manual", follow=False) as events:
        assert numbers(events) == [0, 1, 2, 3, 4]
        events.commit()

    assert cursors(stem, name) == [5]


def test_commit_needs_a_group_and_an_open_subscription(stem: Stem, name: str) -> None:
    fill(stem, name, 1)
    alone, member = stem.subscribe(name), stem.subscribe(name, group=name)
    member.close()

    with pytest.raises(InvalidSetting):
        alone.commit()
    with pytest.raises(Closed):
        member.commit()
    alone.close()


def test_a_group_that_begins_at_latest_does_not_lose_what_comes_between_runs(
    stem: Stem, name: str
) -> None:
    fill(stem, name, 3)
    assert list(stem.subscribe(name, group=name, start="latest", follow=False)) == []

    stem.publish(name, 3)

    assert numbers(stem.subscribe(name, group=name, start="latest", follow=False)) == [3]


def test_a_group_follows_a_pattern(stem: Stem, name: str) -> None:
    fill(stem, f"{name}.eu", 3)

    with stem.subscribe(f"{name}.*", group=name) as events:
        assert numbers(take(events, 3)) == [0, 1, 2]
        fill(stem, f"{name}.us", 2)

        assert numbers(take(events, 2)) == [0, 1]


def test_without_follow_members_share_and_all_come_to_an_end(stem: Stem, name: str) -> None:
    fill(stem, name, 300, partitions=4)
    seen: list[int] = []

    members = [
        in_thread(lambda: seen.extend(numbers(stem.subscribe(name, group=name, follow=False))))
        for _ in range(2)
    ]
    for member in members:
        member.join(PATIENCE_S)

    assert not any(member.is_alive() for member in members)
    assert sorted(set(seen)) == list(range(300))


def test_a_group_shows_who_owns_what_and_how_far_it_is(stem: Stem, name: str) -> None:
    fill(stem, name, 10, partitions=2)

    with stem.subscribe(name, group=name, commit="manual") as events:
        take(events, 10)
        events.commit()
        stem.publish(name, 10, partition=1)
        group = stem.groups.show(name)
        listed = [each for each in stem.groups.list() if each.name == name]

        ((member, owned),) = group.members.items()
        assert group.state == "live"
        assert owned == events.assignment == ((name, 0), (name, 1))
        assert {lag.member for lag in group.lags} == {member}
        assert [(lag.cursor, lag.tail, lag.lag) for lag in group.lags] == [(5, 5, 0), (5, 6, 1)]
        assert group.lag == 1
        assert listed == [group]


def test_a_group_shows_since_when_it_is_behind(stem: Stem, name: str) -> None:
    stem.topics.create(name, partitions=2)
    for number in range(6):
        stem.publish(name, number, partition=0, timestamp_ms=1_000_000 + 500 * number)
    stem.groups.seek(name, name, {0: 4, 1: 0})

    group = stem.groups.show(name)

    assert [lag.unread_since_ms for lag in group.lags] == [1_002_000, None]
    assert [lag.behind_s(1_012_000) for lag in group.lags] == [10.0, 0.0]
    assert group.behind_s(1_012_000) == 10.0
    assert stem.groups.seek(name, name, "latest")
    assert stem.groups.show(name).behind_s() == 0.0


def test_groups_at_several_offsets_of_a_partition_are_behind_since_several_times(
    stem: Stem, name: str
) -> None:
    stem.topics.create(name, partitions=1)
    for number in range(4):
        stem.publish(name, number, timestamp_ms=1_000_000 + number)
    for offset in range(4):
        stem.groups.seek(f"{name}-{offset}", name, offset)

    found = {info.name: info.lags for info in stem.groups.list() if info.name.startswith(name)}

    since = {group: lag.unread_since_ms for group, (lag,) in found.items()}
    assert since == {f"{name}-{offset}": 1_000_000 + offset for offset in range(4)}


def test_seek_moves_a_group_and_a_dry_run_only_says_where(stem: Stem, name: str) -> None:
    fill(stem, name, 10, partitions=2)
    list(stem.subscribe(name, group=name, follow=False))

    preview = stem.groups.seek(name, name, 2, dry_run=True)
    before = cursors(stem, name)
    done = stem.groups.seek(name, name, 2)
    stem.groups.seek(name, name, "latest", partition=1)

    assert preview == done
    assert [(lag.cursor, lag.lag) for lag in done] == [(2, 3), (2, 3)]
    assert before == [5, 5]
    assert cursors(stem, name) == [2, 5]
    assert len(list(stem.subscribe(name, group=name, follow=False))) == 3


def test_a_live_group_is_neither_moved_nor_deleted(stem: Stem, name: str) -> None:
    fill(stem, name, 1)

    with stem.subscribe(name, group=name) as events:
        take(events, 1)
        with pytest.raises(GroupIsLive):
            stem.groups.seek(name, name, "earliest", dry_run=True)
        with pytest.raises(GroupIsLive):
            stem.groups.seek(name, name, "earliest")
        with pytest.raises(GroupIsLive):
            stem.groups.delete(name)

    stem.groups.delete(name)
    with pytest.raises(UnknownGroup):
        stem.groups.show(name)
    with pytest.raises(UnknownGroup):
        stem.groups.delete(name)


# Topics


def test_a_topic_has_the_settings_it_was_given(stem: Stem, name: str) -> None:
    settings: dict[str, Any] = {
        "partitions": 3,
        "retention_ms": 60_000,
        "segment_ms": 5000,
        "max_batch_bytes": 5000,
    }

    made = stem.topics.create(name, **settings)
    again = stem.topics.create(name, exist_ok=True, partitions=9)

    assert {each: getattr(made.settings, each) for each in settings} == settings
    assert again == made == stem.topics.show(name)
    assert len(made.partitions) == 3
    assert len(made.id) == 32
    with pytest.raises(TopicExists):
        stem.topics.create(name)


def test_settings_of_our_own_are_kept_by_our_own_servers(
    request: pytest.FixtureRequest, stem: Stem, name: str
) -> None:
    settings: dict[str, Any] = {
        "durability": "disk",
        "overload": "drop=oldest",
        "max_backlog": 100,
    }
    if "of_kafka" in request.node.name:
        with pytest.raises(InvalidSetting, match="does not know durability"):
            stem.topics.create(name, **settings)
        return

    made = stem.topics.create(name, **settings)

    assert {each: getattr(made.settings, each) for each in settings} == settings


def test_settings_change_and_partitions_only_grow(stem: Stem, name: str) -> None:
    stem.topics.create(name, partitions=2, retention_ms=1000, segment_ms=1000)

    altered = stem.topics.alter(name, partitions=3, retention_ms=None, segment_ms=None)

    assert altered.settings.partitions == len(altered.partitions) == 3
    assert altered.settings.retention_ms is altered.settings.segment_ms is None
    with pytest.raises(InvalidSetting):
        stem.topics.alter(name, partitions=1)
    with pytest.raises(InvalidSetting):
        stem.topics.alter(name, max_backlog=5)
    with pytest.raises(InvalidSetting):
        stem.topics.alter(name, colour="red")
    with pytest.raises(UnknownTopic):
        stem.topics.alter(f"{name}.nowhere", partitions=5)


def test_topics_are_listed_by_pattern(stem: Stem, name: str) -> None:
    for place in ("eu", "us"):
        stem.topics.create(f"{name}.{place}")

    listed = stem.topics.list(f"{name}.*")

    assert [each.name for each in listed] == [f"{name}.eu", f"{name}.us"]
    assert all(not each.name.startswith("__") for each in stem.topics.list())


def test_a_deleted_topic_is_gone(stem: Stem, name: str) -> None:
    stem.topics.create(name)

    stem.topics.delete(name)

    for deed in (stem.topics.show, stem.topics.delete):
        with pytest.raises(UnknownTopic):
            deed(name)


def test_a_topic_is_trimmed_by_offset_by_time_and_wholly(stem: Stem, name: str) -> None:
    stem.topics.create(name, partitions=1)
    for number in range(10):
        stem.publish(name, number, timestamp_ms=1000 + number * 1000)

    by_offset = stem.topics.trim(name, 3)
    by_time = stem.topics.trim(name, datetime.fromtimestamp(7, UTC))
    with pytest.raises(OffsetOutOfRange):
        stem.topics.trim(name, 11)
    wholly = stem.topics.trim(name, "latest", partition=0)

    assert [each.partitions[0].start for each in (by_offset, by_time, wholly)] == [3, 6, 10]
    assert wholly.events == 0
    with pytest.raises(MainstemError):
        stem.topics.trim(name, 0, partition=4)
