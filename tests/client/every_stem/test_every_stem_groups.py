"""Groups on every kind of stem.

Each test has topics and groups of its own, as all of them share one server.
"""

import threading

import pytest
from tests.client.every_stem.stems import PATIENCE_S, cursors, fill, in_thread, numbers, take

from mainstem.client.stem import Stem
from mainstem.core.errors import (
    Closed,
    GroupIsLive,
    InvalidSetting,
    UnknownGroup,
)


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
