"""Consumer groups: members send heartbeats, get partitions, and give up revoked ones first."""

import pytest
from msgspec.structs import replace
from tests.broker.groups.consumer.members import REBALANCE_MS, SESSION_MS, Hall, Member

from mainstem.broker.groups.classic.coordinator import Membership
from mainstem.broker.groups.consumer.records import (
    NOTHING,
    ConsumerGroupChange,
    ConsumerGroupKey,
    ConsumerPhase,
    write_member,
)
from mainstem.broker.groups.consumer.subscribed_topics import SubscribedTopics
from mainstem.broker.groups.cursors import Cursor
from mainstem.broker.groups.limits import GroupLimits
from mainstem.broker.topics.catalog import Topics
from mainstem.core.errors import (
    FencedInstance,
    FencedMemberEpoch,
    GroupFull,
    GroupIsLive,
    IllegalGeneration,
    InvalidExpression,
    InvalidSetting,
    StaleMemberEpoch,
    UnknownMember,
    UnreleasedInstance,
    UnsupportedAssignor,
)
from mainstem.core.topic_settings import TopicSettings


def hall_with_newcomer() -> tuple[Hall, Member, Member]:
    """Return a group in which the first member owns both partitions, and a second has joined."""
    hall = Hall(t=2)
    (first,) = hall.joined("a")
    second = hall.member("b")
    second.join()
    return hall, first, second


def test_the_first_member_is_given_everything_at_once() -> None:
    hall = Hall(t=3)

    heard = hall.member("a").join()

    assert heard.epoch == 1
    assert {at.number for at in heard.owned or ()} == {0, 1, 2}


def test_a_partition_is_given_only_after_its_owner_gave_it_up() -> None:
    hall = Hall(t=2)
    (first,) = hall.joined("a")
    second = hall.member("b")

    assert second.join().owned == NOTHING
    assert second.beat().owned is None

    assert len(first.beat().owned or ()) == 1
    assert first.epoch == 1
    assert second.beat().owned is None

    first.beat()
    assert len(second.beat().owned or ()) == 1
    assert first.epoch == second.epoch == 2
    assert sorted(first.places + second.places) == [("t", 0), ("t", 1)]


def test_nobody_is_given_what_another_could_keep() -> None:
    hall = Hall(t=12)
    members = hall.joined("b", "c", "d")
    had = [each.owned for each in members]

    newcomer = hall.member("a")
    newcomer.join()
    hall.settle(*members, newcomer)

    assert all(each.owned < before for each, before in zip(members, had, strict=True))
    assert len(newcomer.owned) == 3

    newcomer.leave()
    kept = [each.owned for each in members]
    hall.settle(*members)
    assert all(each.owned > before for each, before in zip(members, kept, strict=True))


def test_somebody_who_never_gives_up_is_taken_out() -> None:
    hall = Hall(t=2)
    (first,) = hall.joined("a")
    second = hall.member("b")
    second.join(rebalance_timeout_ms=5 * REBALANCE_MS)

    for _ in range(6):
        first.say(owned=first.owned)
        second.beat()
        hall.pass_time(REBALANCE_MS // 6)

    with pytest.raises(UnknownMember):
        first.beat()
    second.beat()
    assert len(second.places) == 2


def test_somebody_who_gives_up_in_time_stays() -> None:
    hall, first, second = hall_with_newcomer()
    first.beat()

    hall.settle(first, second)
    for _ in range(4):
        hall.pass_time(REBALANCE_MS // 2)
        hall.settle(first, second)

    assert len(first.places) == len(second.places) == 1


def test_who_is_silent_is_taken_out_and_its_partitions_go_to_the_others() -> None:
    hall = Hall(t=4)
    first, second = hall.joined("a", "b")
    hall.pass_time(SESSION_MS - 1)
    first.beat()

    hall.pass_time(1)

    hall.settle(first)
    assert len(first.places) == 4
    with pytest.raises(UnknownMember):
        second.beat()
    second.join()
    hall.settle(first, second)
    assert len(first.places) == len(second.places) == 2


def test_the_session_timeout_is_a_setting_of_the_group() -> None:
    hall = Hall(t=1)
    hall.broker.group_configs.alter("g", {"consumer.session.timeout.ms": "2000"})
    (first,) = hall.joined("a")

    hall.pass_time(2_000)

    with pytest.raises(UnknownMember):
        first.beat()


def test_the_heartbeat_interval_is_a_setting_of_the_group() -> None:
    hall = Hall(t=1)
    hall.broker.group_configs.alter("g", {"consumer.heartbeat.interval.ms": "250"})

    assert hall.member("a").join().interval_ms == 250


def test_who_leaves_gives_up_everything_at_once() -> None:
    hall = Hall(t=4)
    first, second = hall.joined("a", "b")

    second.leave()

    assert len(first.beat().owned or ()) == 4
    with pytest.raises(UnknownMember):
        second.beat()


def test_an_answer_that_was_lost_can_be_asked_for_again() -> None:
    _, first, _ = hall_with_newcomer()
    first.beat()
    epoch = first.epoch

    lost = first.say()
    again = first.say()

    assert lost.epoch == again.epoch == epoch + 1
    assert first.epoch == epoch


def test_a_join_whose_answer_was_lost_can_be_sent_again() -> None:
    hall = Hall(t=2)
    first = hall.member("a")

    lost = first.join()
    again = first.join()

    assert (lost.epoch, lost.owned) == (again.epoch, again.owned)
    assert len(hall.described.members) == 1


@pytest.mark.parametrize("epoch", [1, 3, 99])
def test_a_member_in_another_epoch_is_fenced(epoch: int) -> None:
    hall = Hall(t=2)
    first, second = hall.joined("a", "b")
    assert first.epoch == 2

    with pytest.raises(FencedMemberEpoch):
        first.say(epoch=epoch, owned=first.owned | second.owned)


def test_a_fenced_member_that_joins_again_begins_anew() -> None:
    hall = Hall(t=2)
    first, second = hall.joined("a", "b")

    first.join()

    hall.settle(first, second)
    assert sorted(first.places + second.places) == [("t", 0), ("t", 1)]


def test_who_nobody_knows_has_to_join() -> None:
    hall = Hall(t=1)
    hall.joined("a")
    stranger = hall.member("stranger")

    with pytest.raises(UnknownMember):
        stranger.say(epoch=1)
    with pytest.raises(UnknownMember):
        stranger.leave()


def test_members_that_want_other_topics_are_given_those() -> None:
    hall = Hall(t=2, u=2)
    first, second = hall.joined("a", "b")

    first.wish("u")

    hall.settle(first, second)
    assert first.places == [("u", 0), ("u", 1)]
    assert second.places == [("t", 0), ("t", 1)]


def test_a_topic_that_comes_grows_and_goes_is_taken_in_and_out() -> None:
    hall = Hall()
    first = hall.member("a")
    first.join("t")
    assert first.places == []

    hall.broker.create_topic("t", TopicSettings(partitions=1))
    hall.settle(first)
    assert first.places == [("t", 0)]

    hall.broker.alter_topic("t", partitions=2)
    hall.settle(first)
    assert first.places == [("t", 0), ("t", 1)]

    hall.broker.delete_topic("t")
    hall.settle(first)
    assert first.places == []


def test_a_setting_of_a_topic_that_changes_moves_nobody() -> None:
    hall = Hall(t=2)
    (first,) = hall.joined("a")
    epoch = first.epoch

    hall.broker.alter_topic("t", retention_ms=1_000_000)
    hall.settle(first)

    assert first.epoch == epoch


def test_a_regular_expression_means_whole_names_and_never_internal_topics() -> None:
    hall = Hall(orders_eu=1, orders_us=1, reorders=1)
    first = hall.member("a")

    first.join(regex="orders_.*|__mainstem_.*")
    hall.settle(first)
    assert first.places == [("orders_eu", 0), ("orders_us", 0)]

    hall.broker.create_topic("orders_uk", TopicSettings(partitions=1))
    hall.broker.delete_topic("orders_us")
    hall.settle(first)
    assert first.places == [("orders_eu", 0), ("orders_uk", 0)]


def test_a_regular_expression_that_is_wrong_is_refused_and_nobody_joins() -> None:
    hall = Hall(t=1)

    with pytest.raises(InvalidExpression):
        hall.member("a").join(regex="(t")

    assert hall.groups.names() == []


def test_a_regular_expression_that_older_versions_took_is_refused_with_the_next_beat() -> None:
    hall = Hall(t=1)
    (first,) = hall.joined("a")
    was = hall.groups.fold.groups["g"].members["a"]
    member = replace(was, profile=replace(was.profile, names=(), regex="(.*a.{40})*"))
    change = ConsumerGroupChange(ConsumerGroupKey("g", "a"), write_member(member))
    hall.groups.assignments._append([change])

    hall.restart()

    with pytest.raises(InvalidExpression, match="too complex"):
        first.beat()
    first.wish("t")
    assert first.places == [("t", 0)]


def test_regular_expressions_are_refused_when_all_of_them_take_too_much_room() -> None:
    subscribed_topics = SubscribedTopics(Topics(), max_places=3_000)
    subscribed_topics.learn(".{400}")
    subscribed_topics.learn(".{500}")

    with pytest.raises(InvalidSetting, match="no more can be kept"):
        subscribed_topics.learn(".{700}")

    subscribed_topics.unlearn(".{400}")
    subscribed_topics.learn(".{700}")


def test_names_of_topics_count_for_what_they_take_in_memory() -> None:
    limits = GroupLimits(max_member_bytes=10_000, max_bytes=15_000)
    hall = Hall(t=1)
    hall.groups.assignments.limits = limits
    first, second = hall.member("a"), hall.member("b")

    with pytest.raises(InvalidSetting, match="takes 1"):
        first.join(*(f"t{number}" for number in range(150)))
    first.join(*(f"t{number}" for number in range(140)))
    with pytest.raises(GroupFull, match="15000 bytes"):
        second.join(*(f"t{number}" for number in range(100)))


def test_an_assignor_that_is_not_there_is_refused() -> None:
    with pytest.raises(UnsupportedAssignor):
        Hall(t=1).member("a").join(assignor="magic")


def test_the_assignor_that_most_ask_for_is_taken() -> None:
    hall = Hall(t=4)
    members = [hall.member(each) for each in "abc"]

    members[0].join(assignor="range")
    members[1].join(assignor="range")
    members[2].join(assignor="uniform")
    hall.settle(*members)

    assert hall.described.assignor == "range"
    assert [[number for _, number in each.places] for each in members] == [[0, 1], [2], [3]]


# Static members


def hall_with_instances(partitions: int) -> tuple[Hall, Member, Member]:
    """Return a group of two static members that has settled."""
    hall = Hall(t=partitions)
    first, second = hall.member("a", "one"), hall.member("b", "two")
    first.join()
    second.join()
    hall.settle(first, second)
    return hall, first, second


def test_a_static_member_that_left_for_a_while_finds_what_it_had() -> None:
    hall, first, second = hall_with_instances(4)
    had = second.places
    second.leave(for_a_while=True)
    hall.settle(first)
    assert len(first.places) == 2

    back = hall.member("c", "two")
    back.join()

    assert back.places == had
    assert back.epoch == first.epoch, "nothing has changed for anybody"
    with pytest.raises(FencedInstance):
        second.say(epoch=2)


def test_a_static_member_that_does_not_come_back_is_taken_out() -> None:
    hall, first, second = hall_with_instances(2)
    second.leave(for_a_while=True)
    hall.pass_time(SESSION_MS - 1)
    first.beat()

    hall.pass_time(1)

    hall.settle(first)
    assert len(first.places) == 2


def test_the_instance_id_of_a_member_that_is_there_cannot_be_taken() -> None:
    hall = Hall(t=2)
    hall.member("a", "one").join()

    with pytest.raises(UnreleasedInstance):
        hall.member("b", "one").join()


# Cursors


def test_only_a_member_in_its_epoch_commits() -> None:
    hall = Hall(t=2)
    (first,) = hall.joined("a")
    classic, cursors = hall.broker.classic, {("t", 0): Cursor(3, hall.clock())}

    classic.commit("g", Membership("a", first.epoch), cursors)

    for who, error in (
        (Membership("a", first.epoch + 1), StaleMemberEpoch),
        (Membership("a", first.epoch - 1), StaleMemberEpoch),
        (Membership("x", first.epoch), UnknownMember),
        (Membership(), UnknownMember),
    ):
        with pytest.raises(error):
            classic.commit("g", who, cursors)
    with pytest.raises(IllegalGeneration):
        classic.check_commit("g", Membership("a", 7), transactional=True)
    with pytest.raises(StaleMemberEpoch):
        hall.groups.check_fetch("g", "a", 7)
    hall.groups.check_fetch("g", "a", first.epoch)
    hall.groups.check_fetch("g", None, -1)


def test_a_group_that_is_empty_can_be_committed_to_and_deleted_from_outside() -> None:
    hall = Hall(t=2)
    (first,) = hall.joined("a")
    with pytest.raises(GroupIsLive):
        hall.broker.classic.delete("g")
    first.leave()

    hall.broker.classic.commit("g", Membership(), {("t", 0): Cursor(3, hall.clock())})
    assert hall.described.phase is ConsumerPhase.EMPTY
    hall.broker.classic.delete("g")

    assert hall.groups.names() == []
    assert hall.broker.committed("g") == {}


def test_lags_and_owners_are_known() -> None:
    hall = Hall(t=1)
    hall.joined("a")

    found = hall.broker.group("g")

    assert found.state == "live"
    assert found.members == {"a": (("t", 0),)}
    assert [each.member for each in found.lags] == ["a"]


# Time and restarts


def test_an_empty_group_without_cursors_is_forgotten_and_one_with_cursors_is_not() -> None:
    hall = Hall(t=1)
    (first,) = hall.joined("a")
    first.leave()
    hall.pass_time(600_000)
    assert hall.groups.names() == []

    (first,) = hall.joined("a")
    hall.broker.classic.commit(
        "g", Membership("a", first.epoch), {("t", 0): Cursor(3, hall.clock())}
    )
    first.leave()
    hall.pass_time(600_000)
    assert hall.groups.names() == ["g"]


def test_after_a_restart_members_go_on_as_if_nothing_had_happened() -> None:
    hall = Hall(t=4)
    first, second = hall.joined("a", "b")
    third = hall.member("c")
    third.join()
    fold = hall.groups.fold

    hall.restart()

    assert hall.groups.fold == fold
    hall.settle(first, second, third)
    assert sorted(map(len, (first.places, second.places, third.places))) == [1, 1, 2]


def test_after_a_restart_silent_and_slow_members_are_taken_out() -> None:
    hall, first, _ = hall_with_newcomer()
    first.say()

    hall.restart()
    hall.pass_time(SESSION_MS)

    assert hall.described.phase is ConsumerPhase.EMPTY


def test_topics_that_changed_just_before_a_crash_are_noticed() -> None:
    hall = Hall(t=1)
    (first,) = hall.joined("a")
    hall.broker.alter_topic("t", partitions=2)

    hall.restart()

    hall.settle(first)
    assert len(first.places) == 2


def test_an_id_that_is_too_long_is_refused() -> None:
    with pytest.raises(InvalidSetting):
        Hall(t=1).member("a" * 301).join()


def test_thousands_who_join_at_once_are_not_assigned_anew_with_each_of_them() -> None:
    hall = Hall(t=10)
    members = [hall.member(f"m{number:04}") for number in range(200)]

    epochs = {each.join().epoch for each in members}

    assert len(epochs) < 100
    hall.pass_time(1_000)
    hall.settle(*members)
    assert sorted(place for each in members for place in each.places) == [
        ("t", number) for number in range(10)
    ]
    assert max(len(each.places) for each in members) == 1
