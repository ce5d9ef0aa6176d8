"""Reading as a group: fan-out, sharing, commits, and coming and going."""

import gc
import threading
from itertools import chain
from pathlib import Path

import pytest

import mainstem
from mainstem.broker.broker import Broker
from mainstem.client.embedded.feed import Feed
from mainstem.client.subscription import SubscriptionOptions
from mainstem.core.errors import Closed, GroupIsLive, InvalidSetting, UnknownGroup, UnknownTopic
from mainstem.core.event import Event
from mainstem.core.topic_settings import TopicSettings
from mainstem.log.memory import MemoryLog


def fill(stem: mainstem.EmbeddedStem, topic: str, count: int, partitions: int = 1) -> None:
    stem.topics.create(topic, partitions=partitions, durability="disk")
    for number in range(count):
        stem.publish(topic, number, partition=number % partitions)


def numbers(events: object) -> list[int]:
    return [event.json() for event in events]  # type: ignore[attr-defined]


def cursors(stem: mainstem.EmbeddedStem, group: str) -> list[int | None]:
    return [lag.cursor for lag in stem.groups.show(group).lags]


# Fan-out and sharing


def test_every_group_sees_every_event(stem: mainstem.EmbeddedStem) -> None:
    fill(stem, "n", 20, partitions=4)

    billing = numbers(stem.subscribe("n", group="billing", follow=False))
    shipping = numbers(stem.subscribe("n", group="shipping", follow=False))

    assert sorted(billing) == sorted(shipping) == list(range(20))


def test_members_of_a_group_share_the_partitions(stem: mainstem.EmbeddedStem) -> None:
    fill(stem, "n", 40, partitions=4)

    one = stem.subscribe("n", group="g")
    two = stem.subscribe("n", group="g")
    first = one.poll_many(timeout=30)
    second = two.poll_many(timeout=30)

    assert len(one.assignment) == len(two.assignment) == 2
    assert sorted(numbers(first) + numbers(second)) == list(range(40))
    assert stem.groups.show("g").state == "live"


def test_a_member_without_partitions_waits_for_one(stem: mainstem.EmbeddedStem) -> None:
    fill(stem, "n", 1)
    one = stem.subscribe("n", group="g")
    two = stem.subscribe("n", group="g")
    assert one.poll(timeout=30)
    assert two.poll(timeout=0) is None

    one.close()
    stem.publish("n", 1)
    event = two.poll(timeout=30)

    assert event is not None
    assert event.json() == 1


def test_while_members_come_and_go_every_event_is_finished_once(
    stem: mainstem.EmbeddedStem,
) -> None:
    fill(stem, "n", 3000, partitions=6)
    lock = threading.Lock()
    seen: list[int] = []

    def work(count: int) -> None:
        with stem.subscribe("n", group="g") as events:
            for _ in range(count):
                event = events.poll(timeout=30)
                assert event is not None
                with lock:
                    seen.append(event.json())

    members = [threading.Thread(target=work, args=(500,)) for _ in range(6)]
    for member in members:
        member.start()
    for member in members:
        member.join(60)

    assert sorted(seen) == list(range(3000))
    assert stem.groups.show("g").lag == 0


def test_without_follow_members_share_and_all_come_to_an_end(
    stem: mainstem.EmbeddedStem,
) -> None:
    fill(stem, "n", 1000, partitions=4)
    seen: list[list[int]] = []

    def work() -> None:
        seen.append(numbers(stem.subscribe("n", group="g", follow=False)))

    members = [threading.Thread(target=work) for _ in range(3)]
    for member in members:
        member.start()
    for member in members:
        member.join(30)

    assert sorted(chain.from_iterable(seen)) == list(range(1000))


def test_a_group_follows_a_pattern(stem: mainstem.EmbeddedStem) -> None:
    fill(stem, "orders.eu", 3)
    events = stem.subscribe("orders.*", group="g")
    assert len(events.poll_many(timeout=30)) == 3

    fill(stem, "orders.us", 2)

    assert numbers([next(events), next(events)]) == [0, 1]


def test_a_topic_deleted_and_made_again_is_read_from_its_beginning(
    stem: mainstem.EmbeddedStem,
) -> None:
    fill(stem, "n", 5)
    events = stem.subscribe("n", group="g")
    assert len(events.poll_many(timeout=30)) == 5

    stem.topics.delete("n")
    fill(stem, "n", 3)

    assert numbers(next(events) for _ in range(3)) == [0, 1, 2]


# Cursors


def test_a_group_goes_on_where_it_was_after_a_restart(tmp_path: Path) -> None:
    with mainstem.open(tmp_path) as stem:
        fill(stem, "n", 10)
        with stem.subscribe("n", group="g") as events:
            first = numbers(next(events) for _ in range(4))

    with mainstem.open(tmp_path) as stem:
        rest = numbers(stem.subscribe("n", group="g", follow=False))

    assert first == [0, 1, 2, 3]
    assert rest == [4, 5, 6, 7, 8, 9]


def test_an_event_counts_when_the_next_is_asked_for(memory: mainstem.EmbeddedStem) -> None:
    fill(memory, "n", 3)

    def work() -> None:
        with memory.subscribe("n", group="g") as events:
            for event in events:
                if event.json() == 1:
                    raise LookupError("the work on event 1 failed")

    with pytest.raises(LookupError):
        work()

    assert numbers(memory.subscribe("n", group="g", follow=False)) == [1, 2]


def test_closing_counts_the_event_that_was_returned_last(memory: mainstem.EmbeddedStem) -> None:
    fill(memory, "n", 3)

    with memory.subscribe("n", group="g") as events:
        next(events)

    assert cursors(memory, "g") == [1]


def test_closing_from_another_thread_does_not_count_what_is_worked_on(
    memory: mainstem.EmbeddedStem,
) -> None:
    fill(memory, "n", 3)
    events = memory.subscribe("n", group="g")
    next(events)
    next(events)

    other = threading.Thread(target=events.close)
    other.start()
    other.join(30)

    assert cursors(memory, "g") == [1]


def test_breaking_out_of_a_loop_leaves_the_group(memory: mainstem.EmbeddedStem) -> None:
    fill(memory, "n", 3)

    for event in memory.subscribe("n", group="g"):
        if event.json() == 1:
            break

    group = memory.groups.show("g")
    assert group.state == "empty"
    assert [lag.cursor for lag in group.lags] == [1], "what broke the loop comes again"


def test_a_member_that_is_forgotten_in_a_cycle_leaves_for_those_who_wait(
    memory: mainstem.EmbeddedStem,
) -> None:
    fill(memory, "n", 1)
    holder: dict[str, object] = {}
    holder["itself"] = holder
    holder["events"] = memory.subscribe("n", group="g")
    waiting = memory.subscribe("n", group="g")
    seen: list[Event | None] = []
    thread = threading.Thread(target=lambda: seen.append(waiting.poll(timeout=30)))
    thread.start()

    del holder
    gc.collect()
    thread.join(30)

    assert numbers(seen) == [0]


def test_cursors_are_stored_about_once_a_second_not_per_event() -> None:
    with mainstem.open(":memory:", commit_ms=3_600_000) as stem:
        fill(stem, "n", 100)
        before = stem.topics.list("__mainstem_cursors", internal=True)[0].events

        with stem.subscribe("n", group="g") as events:
            for _ in range(100):
                next(events)
            during = stem.topics.list("__mainstem_cursors", internal=True)[0].events
        after = stem.topics.list("__mainstem_cursors", internal=True)[0].events

        assert (during - before, after - before) == (0, 1)


def test_a_consumer_that_waits_at_the_tail_commits_in_time() -> None:
    with mainstem.open(":memory:", commit_ms=10) as stem:
        fill(stem, "n", 3)
        with stem.subscribe("n", group="g") as events:
            events.poll_many(timeout=30)

            assert events.poll(timeout=0.1) is None

            assert cursors(stem, "g") == [3]


def test_by_hand_nothing_is_committed_unless_asked(memory: mainstem.EmbeddedStem) -> None:
    fill(memory, "n", 5)

    with memory.subscribe("n", group="g", commit="manual") as events:
        next(events)
        next(events)
        events.commit()
        next(events)

    assert cursors(memory, "g") == [2]


def test_a_rebalance_commits_what_was_finished(memory: mainstem.EmbeddedStem) -> None:
    fill(memory, "n", 8, partitions=2)
    one = memory.subscribe("n", group="g")
    one.poll_many(timeout=30)

    two = memory.subscribe("n", group="g")
    one.poll(timeout=0)

    assert two.poll(timeout=0) is None, "its events were finished by the other"
    assert len(one.assignment) == len(two.assignment) == 1
    one.close()
    two.close()
    assert cursors(memory, "g") == [4, 4]


def test_a_group_that_begins_at_latest_does_not_lose_what_comes_between_runs(
    memory: mainstem.EmbeddedStem,
) -> None:
    fill(memory, "n", 3)
    memory.subscribe("n", group="g", start="latest").close()

    memory.publish("n", 3)

    assert numbers(memory.subscribe("n", group="g", start="latest", follow=False)) == [3]


def test_commit_needs_a_group_and_an_open_subscription(memory: mainstem.EmbeddedStem) -> None:
    fill(memory, "n", 1)
    alone = memory.subscribe("n")
    member = memory.subscribe("n", group="g")
    member.close()

    with pytest.raises(InvalidSetting):
        alone.commit()
    with pytest.raises(Closed):
        member.commit()


@pytest.mark.parametrize("wrong", [{"partitions": [0]}, {"commit": "sometimes"}])
def test_what_does_not_go_with_a_group_is_refused(
    memory: mainstem.EmbeddedStem, wrong: dict[str, object]
) -> None:
    fill(memory, "n", 1)

    with pytest.raises(InvalidSetting):
        memory.subscribe("n", group="g", **wrong)  # type: ignore[arg-type]
    with pytest.raises(UnknownTopic):
        memory.subscribe("nowhere", group="g")

    assert memory.groups.list() == ()


def test_a_member_that_was_fenced_begins_again_at_the_cursor() -> None:
    now = [1000]
    broker = Broker(MemoryLog(), now_ms=lambda: now[0], hand_over_ms=100)
    broker.create_topic("n", TopicSettings(partitions=2))
    for number in range(2):
        broker.publish("n", [Event(b"%d" % number)], number)
    options = SubscriptionOptions(topics=("n",), group="g")
    slow = Feed(broker, options, lambda: None, lambda: now[0])
    assert slow.take() is not None

    quick = Feed(broker, options, lambda: None, lambda: now[0])
    now[0] += 200
    seen = [quick.take(), quick.take(), quick.take()]
    again = slow.take()

    assert sorted(event.value or b"" for event in seen if event) == [b"0", b"1"]
    assert again is None, "it is a new member, and the other one has what it had"


def test_a_group_reads_what_comes_after_a_restart_that_lost_events(tmp_path: Path) -> None:
    with mainstem.open(tmp_path) as stem:
        stem.topics.create("n", durability="memory")
        stem.publish_many("n", range(5))
        assert len(list(stem.subscribe("n", group="g", follow=False))) == 5

    with mainstem.open(tmp_path) as stem:
        stem.publish_many("n", [10, 11, 12])

        assert numbers(stem.subscribe("n", group="g", follow=False)) == [10, 11, 12]


# Looking after groups


def test_lag_is_what_a_group_has_not_read(stem: mainstem.EmbeddedStem) -> None:
    fill(stem, "n", 10)
    with stem.subscribe("n", group="g") as events:
        for _ in range(4):
            next(events)

    group = stem.groups.show("g")

    assert group.lag == 6
    assert group.lags[0].cursor == 4
    assert group.lags[0].tail == 10


def test_seek_moves_a_group_and_a_dry_run_only_says_where(stem: mainstem.EmbeddedStem) -> None:
    fill(stem, "n", 10, partitions=2)
    list(stem.subscribe("n", group="g", follow=False))

    preview = stem.groups.seek("g", "n", 2, dry_run=True)
    before = cursors(stem, "g")
    done = stem.groups.seek("g", "n", 2)

    assert preview == done
    assert [lag.cursor for lag in done] == [2, 2]
    assert [lag.lag for lag in done] == [3, 3]
    assert before == [5, 5]
    assert cursors(stem, "g") == [2, 2]
    assert len(numbers(stem.subscribe("n", group="g", follow=False))) == 6


def test_a_live_group_is_neither_moved_nor_deleted(memory: mainstem.EmbeddedStem) -> None:
    fill(memory, "n", 1)

    with memory.subscribe("n", group="g"):
        with pytest.raises(GroupIsLive):
            memory.groups.seek("g", "n", "earliest", dry_run=True)
        with pytest.raises(GroupIsLive):
            memory.groups.seek("g", "n", "earliest")
        with pytest.raises(GroupIsLive):
            memory.groups.delete("g")

    memory.groups.delete("g")
    with pytest.raises(UnknownGroup):
        memory.groups.show("g")


def test_what_retention_took_from_a_group_is_counted(memory: mainstem.EmbeddedStem) -> None:
    fill(memory, "n", 10)
    memory.groups.seek("g", "n", 2)
    memory.topics.trim("n", 6)

    with memory.subscribe("n", group="g") as events:
        assert memory.groups.show("g").lags[0].missed == 4
        assert next(events).json() == 6
        assert events.missed == 4
