"""Groups in this process: join, leave, release of partitions, fencing."""

from collections.abc import Callable

import pytest
from tests.broker.brokers import Clock, new_broker, publish

from mainstem.broker.broker import Broker
from mainstem.broker.groups.local.coordinator import Groups
from mainstem.broker.groups.local.member import Member
from mainstem.broker.topics.catalog import Topics
from mainstem.core.errors import Fenced, GroupIsLive, InvalidName, InvalidSetting
from mainstem.core.topic_settings import TopicSettings


class Told:
    """Counts how often a member was told."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self) -> None:
        self.count += 1


def owned(member: Member) -> list[tuple[str, int]]:
    return [share[:2] for share in member.assignment().owned]


def revoked(member: Member) -> list[tuple[str, int]]:
    return [share[:2] for share in member.assignment().revoked]


def release_all(member: Member) -> None:
    member.release(member.assignment().revoked)


def join(broker: Broker, *topics: str, told: Callable[[], None] = lambda: None) -> Member:
    return broker.join("billing", topics or ("orders",), told)


def broker_with(partitions: int = 4, hand_over_ms: int = 1_000) -> tuple[Broker, Clock]:
    clock = Clock()
    broker = new_broker(clock=clock, hand_over_ms=hand_over_ms)
    broker.create_topic("orders", TopicSettings(partitions=partitions))
    return broker, clock


def test_the_first_member_owns_all_partitions_at_once() -> None:
    broker, _ = broker_with()
    told = Told()

    member = join(broker, told=told)

    assert owned(member) == [("orders", number) for number in range(4)]
    assert told.count == 1


def test_a_second_member_gets_its_part_only_when_the_first_has_released_it() -> None:
    broker, _ = broker_with()
    first = join(broker)

    second = join(broker)
    assert len(owned(first)) == len(revoked(first)) == 2
    assert owned(second) == []

    moving = revoked(first)
    release_all(first)
    assert revoked(first) == []
    assert owned(second) == moving


def test_only_those_whose_share_changes_are_told() -> None:
    broker, _ = broker_with(partitions=3)
    tellers = [Told(), Told(), Told()]
    members = [join(broker, told=told) for told in tellers[:2]]
    release_all(members[0])
    before = [told.count for told in tellers]

    join(broker, told=tellers[2])

    changed = [told.count - earlier for told, earlier in zip(tellers, before, strict=True)]
    assert changed[2] == 1
    assert sorted(changed[:2]) == [0, 1]


def test_the_owner_may_commit_what_is_revoked_until_it_releases_it() -> None:
    broker, _ = broker_with(partitions=2)
    publish(broker, "orders", b"a", b"b", partition=1)
    first = join(broker)
    join(broker)
    (share,) = first.assignment().revoked

    first.commit({share: 1})
    first.release([share])

    assert broker.cursor("billing", *share[:2]) is not None
    with pytest.raises(Fenced, match="does not own"):
        first.commit({share: 2})


def test_a_commit_with_one_share_that_is_gone_moves_nothing() -> None:
    broker, _ = broker_with(partitions=2)
    first = join(broker)
    kept, moved = first.assignment().owned
    join(broker)
    release_all(first)

    with pytest.raises(Fenced):
        first.commit({kept: 1, moved: 1})

    assert broker.committed("billing") == {}


def test_who_leaves_gives_everything_to_the_others_at_once() -> None:
    broker, _ = broker_with()
    first, second = join(broker), join(broker)
    release_all(first)

    first.leave()

    assert len(owned(second)) == 4
    with pytest.raises(Fenced, match="join again"):
        first.assignment()
    with pytest.raises(Fenced):
        first.commit({})
    with pytest.raises(Fenced):
        first.release([])
    first.leave()


def test_a_member_that_was_fenced_cannot_commit_any_more() -> None:
    broker, _ = broker_with()
    told = Told()
    member = join(broker, told=told)
    (share, *_) = member.assignment().owned

    broker.fence("billing", member.id)

    assert told.count == 2
    with pytest.raises(Fenced):
        member.commit({share: 1})


def test_an_owner_that_does_not_release_in_time_is_fenced() -> None:
    broker, clock = broker_with(hand_over_ms=1_000)
    first = join(broker)
    second = join(broker)
    assert second.assignment().awaited_until_ms == clock() + 1_000

    clock.now_ms += 999
    assert owned(second) == []
    clock.now_ms += 1

    assert len(owned(second)) == 4
    assert second.assignment().awaited_until_ms is None
    with pytest.raises(Fenced):
        first.assignment()


def test_the_broker_s_tick_fences_who_is_late_without_anybody_looking() -> None:
    broker, clock = broker_with(hand_over_ms=1_000)
    told = Told()
    join(broker, told=told)
    second = Told()
    join(broker, told=second)
    before = second.count

    clock.now_ms += 1_000
    broker.tick()

    assert second.count == before + 1


def test_a_revocation_is_withdrawn_when_the_newcomer_leaves_before_the_release() -> None:
    broker, _ = broker_with(partitions=2)
    first = join(broker)
    shares = first.assignment().owned

    join(broker).leave()

    assert first.assignment().owned == shares
    assert first.assignment().revoked == ()


def test_a_release_that_comes_too_late_gives_the_share_anew() -> None:
    broker, _ = broker_with(partitions=1)
    first = join(broker)
    (old,) = first.assignment().owned

    first.release([old])

    (new,) = first.assignment().owned
    assert new[:2] == old[:2]
    assert new.since > old.since
    with pytest.raises(Fenced):
        first.commit({old: 1})
    first.release([old])
    assert first.assignment().owned == (new,)


def test_a_new_topic_that_matches_a_pattern_is_shared_out() -> None:
    broker, _ = broker_with()
    told = Told()
    member = join(broker, "bills.*", told=told)
    assert owned(member) == []

    broker.create_topic("bills.eu", TopicSettings(partitions=2))
    broker.create_topic("other")

    assert owned(member) == [("bills.eu", 0), ("bills.eu", 1)]
    assert told.count == 1


def test_a_topic_named_before_it_exists_is_read_when_it_appears() -> None:
    broker, _ = broker_with()
    member = join(broker, "later")

    broker.create_topic("later")

    assert owned(member) == [("later", 0)]


def test_new_partitions_are_shared_out() -> None:
    broker, _ = broker_with(partitions=1)
    first, second = join(broker), join(broker)

    broker.alter_topic("orders", partitions=3)

    assert sorted(owned(first) + owned(second)) == [("orders", number) for number in range(3)]
    assert owned(second)


def test_a_deleted_topic_is_taken_from_its_owners_who_are_told() -> None:
    broker, _ = broker_with()
    broker.create_topic("bills")
    told = Told()
    member = join(broker, "orders", "bills", told=told)
    before = told.count

    broker.delete_topic("orders")

    assert owned(member) == [("bills", 0)]
    assert told.count > before


def test_a_topic_deleted_and_made_again_is_another_share() -> None:
    broker, _ = broker_with(partitions=1)
    member = join(broker)
    (old,) = member.assignment().owned

    broker.delete_topic("orders")
    broker.create_topic("orders")

    (new,) = member.assignment().owned
    assert new != old
    with pytest.raises(Fenced):
        member.commit({old: 1})
    member.commit({new: 0})


def test_groups_do_not_disturb_one_another() -> None:
    broker, _ = broker_with()
    billing = broker.join("billing", ["orders"], lambda: None)
    search = broker.join("search", ["orders"], lambda: None)

    assert len(owned(billing)) == len(owned(search)) == 4


def test_a_pattern_never_means_internal_topics_but_a_name_may() -> None:
    broker, _ = broker_with()

    assert ("__mainstem_topics", 0) not in owned(broker.join("all", ["*"], lambda: None))
    watcher = broker.join("watcher", ["__mainstem_topics"], lambda: None)
    assert owned(watcher) == [("__mainstem_topics", 0)]


def test_joining_needs_a_group_name_and_a_topic() -> None:
    broker, _ = broker_with()

    with pytest.raises(InvalidName):
        broker.join("", ["orders"], lambda: None)
    with pytest.raises(InvalidSetting):
        broker.join("billing", [], lambda: None)
    assert broker.groups() == []


def test_a_member_may_call_the_broker_when_it_is_told() -> None:
    broker, _ = broker_with()
    seen: list[int] = []
    members: list[Member] = []

    def look() -> None:
        if members:
            seen.append(len(members[0].assignment().revoked))

    members.append(join(broker, told=look))
    join(broker)

    assert seen == [2]


def test_a_live_group_of_one_kind_refuses_the_other() -> None:
    groups = Groups(Topics())

    groups.occupy("kafka's", "kafka")
    groups.join("ours", ["orders"], lambda: None, 0)

    with pytest.raises(GroupIsLive, match="kafka consumers"):
        groups.join("kafka's", ["orders"], lambda: None, 0)
    with pytest.raises(GroupIsLive, match="1 members"):
        groups.occupy("ours", "kafka")
    with pytest.raises(GroupIsLive):
        groups.occupy("kafka's", "other")
    groups.vacate("kafka's")
    groups.join("kafka's", ["orders"], lambda: None, 0)
