"""Classic groups with cursors, other kinds of groups, limits, and a full disk."""

import pytest
from tests.broker.brokers import NOW_MS, Clock, LateLog, new_broker
from tests.broker.groups.classic.consumers import SESSION_MS, Asked, Room

from mainstem.broker.groups.classic.coordinator import ClassicGroups, Membership
from mainstem.broker.groups.classic.group import Joined, Phase
from mainstem.broker.groups.cursors import MAX_METADATA_BYTES, Cursor
from mainstem.broker.groups.limits import GroupLimits
from mainstem.broker.groups.local.coordinator import KIND
from mainstem.core.errors import (
    FencedInstance,
    GroupFull,
    GroupIsLive,
    IllegalGeneration,
    InvalidName,
    InvalidSessionTimeout,
    InvalidSetting,
    MemberIdRequired,
    RebalanceInProgress,
    StorageFull,
    UnknownGroup,
    UnknownMember,
    UnknownPartition,
    UnknownTopic,
)
from mainstem.core.topic_settings import TopicSettings

NOBODY = Membership()


def as_member(joined: Joined) -> Membership:
    return Membership(joined.member_id, joined.generation)


def room_with_topic(limits: GroupLimits | None = None) -> Room:
    room = Room()
    room.broker.create_topic("t", TopicSettings(partitions=2))
    if limits is not None:
        room.groups = ClassicGroups(room.broker._state, room.broker.consumers, limits=limits)
    return room


def test_a_member_commits_and_everybody_sees_it() -> None:
    room = room_with_topic()
    (member,) = room.stable(1)

    committed = room.groups.commit(
        "g", as_member(member), {("t", 0): Cursor(5, NOW_MS, "note", epoch=3)}
    )

    assert committed.refused == {}
    assert room.broker.committed("g") == {("t", 0): Cursor(5, NOW_MS, "note", epoch=3)}


def test_what_cannot_be_committed_does_not_hinder_the_rest() -> None:
    room = room_with_topic()
    cursors = {
        ("t", 0): Cursor(1, NOW_MS),
        ("t", 2): Cursor(1, NOW_MS),
        ("x", 0): Cursor(1, NOW_MS),
        ("t", 1): Cursor(1, NOW_MS, "x" * (MAX_METADATA_BYTES + 1)),
    }

    _, refused = room.groups.commit("g", NOBODY, cursors)

    assert {place: type(error) for place, error in refused.items()} == {
        ("t", 2): UnknownPartition,
        ("x", 0): UnknownTopic,
        ("t", 1): InvalidSetting,
    }
    assert list(room.broker.committed("g")) == [("t", 0)]


def test_only_members_of_the_current_generation_commit_to_a_live_group() -> None:
    room = room_with_topic()
    (first,) = room.stable(1)
    cursors = {("t", 0): Cursor(1, NOW_MS)}

    with pytest.raises(UnknownMember):
        room.groups.commit("g", NOBODY, cursors)
    with pytest.raises(UnknownMember):
        room.groups.commit("g", Membership("stranger", first.generation), cursors)
    with pytest.raises(IllegalGeneration):
        room.groups.commit("g", Membership(first.member_id, first.generation - 1), cursors)
    assert room.broker.committed("g") == {}


def test_a_commit_in_the_name_of_a_generation_needs_a_group() -> None:
    room = room_with_topic()
    (member,) = room.stable(1)
    room.leave(member)

    with pytest.raises(UnknownMember):
        room.groups.commit("g", as_member(member), {})
    with pytest.raises(IllegalGeneration):
        room.groups.commit("never", as_member(member), {})


def test_members_may_commit_while_they_are_gathered_but_not_before_their_assignment() -> None:
    room = room_with_topic()
    (first,) = room.stable(1)
    room.join()

    room.groups.commit("g", as_member(first), {("t", 0): Cursor(7, NOW_MS)})

    assert room.broker.committed("g")[("t", 0)].offset == 7

    again = room.join(first.member_id).answer

    with pytest.raises(RebalanceInProgress):
        room.groups.commit("g", as_member(again), {("t", 0): Cursor(8, NOW_MS)})


def test_a_commit_shows_that_the_member_is_there() -> None:
    room = room_with_topic()
    (member,) = room.stable(1)
    room.pass_time(SESSION_MS - 1)

    room.groups.commit("g", as_member(member), {("t", 0): Cursor(1, NOW_MS)})

    room.pass_time(SESSION_MS - 1)
    room.heartbeat(member)


def test_a_fenced_member_cannot_commit() -> None:
    room = room_with_topic()
    first = room.join(instance_id="one").answer
    room.sync(first, {}, instance_id="one")
    room.join(instance_id="one")

    with pytest.raises(FencedInstance):
        room.groups.commit("g", Membership(first.member_id, first.generation, "one"), {})


def test_members_of_two_kinds_refuse_each_other_while_they_are_live() -> None:
    room = room_with_topic()
    (kafka,) = room.stable(1)

    with pytest.raises(GroupIsLive, match=f"joined by {KIND} consumers"):
        room.broker.join("g", ["t"], lambda: None)

    room.leave(kafka)
    member = room.broker.join("g", ["t"], lambda: None)

    assert room.join().error is GroupIsLive
    with pytest.raises(GroupIsLive):
        room.groups.commit("g", NOBODY, {("t", 0): Cursor(1, NOW_MS)})

    member.leave()

    assert room.join().answer.generation == kafka.generation + 1


def test_an_id_given_out_does_not_keep_others_away() -> None:
    room = room_with_topic()
    asked = room.join(takes_id_first=True)
    room.broker.join("g", ["t"], lambda: None)
    member_id = getattr(asked.answers[0], "member", "")

    assert room.join(member_id, takes_id_first=True).error is GroupIsLive


def test_groups_are_described_as_they_are() -> None:
    room = room_with_topic()
    assert room.groups.describe("g").phase is Phase.DEAD
    assert room.groups.names() == []
    (member,) = room.stable(1)

    group = room.groups.describe("g")

    assert (group.phase, group.protocol_type, group.protocol) == (Phase.STABLE, "consumer", "range")
    assert group.members[0].member_id == member.member_id
    assert (group.members[0].client_id, group.members[0].host) == ("app", "/127.0.0.1")
    assert (group.members[0].metadata, group.members[0].assignment) == (b"range metadata", b"0")

    room.leave(member)
    room.groups.commit("simple", NOBODY, {("t", 0): Cursor(1, NOW_MS)})

    assert room.groups.names() == ["g", "simple"]
    assert room.groups.describe("g").phase is Phase.EMPTY
    assert room.groups.describe("g").protocol_type == "consumer"
    assert room.groups.describe("simple").protocol_type == ""


def test_a_group_is_deleted_when_nobody_is_in_it() -> None:
    room = room_with_topic()
    (member,) = room.stable(1)
    room.groups.commit("g", as_member(member), {("t", 0): Cursor(1, NOW_MS)})

    with pytest.raises(GroupIsLive):
        room.groups.delete("g")
    room.leave(member)
    room.groups.delete("g")

    assert room.groups.names() == []
    assert room.broker.committed("g") == {}
    with pytest.raises(UnknownGroup):
        room.groups.delete("g")


def test_cursors_are_deleted_one_by_one() -> None:
    room = room_with_topic()
    room.groups.commit("g", NOBODY, {("t", 0): Cursor(1, NOW_MS), ("t", 1): Cursor(1, NOW_MS)})

    _, refused = room.groups.delete_cursors("g", [("t", 0), ("t", 7)])

    assert list(refused) == [("t", 7)]
    assert list(room.broker.committed("g")) == [("t", 1)]
    with pytest.raises(UnknownGroup):
        room.groups.delete_cursors("never", [("t", 0)])


def test_an_empty_group_without_cursors_is_forgotten_after_a_while_also_after_a_restart() -> None:
    room = room_with_topic()
    (member,) = room.stable(1)
    room.leave(member)
    room.groups.commit("kept", NOBODY, {("t", 0): Cursor(1, NOW_MS)})
    again = Room(new_broker(room.broker._state.log, room.clock), room.clock)

    for each in (room, again):
        assert each.groups.names() == ["g", "kept"]
    room.pass_time(GroupLimits().forget_after_ms)
    again.groups.tick()

    for each in (room, again):
        assert each.groups.names() == ["kept"]


def test_too_many_members_are_refused() -> None:
    room = room_with_topic(GroupLimits(max_members=1, max_members_of_all=3))
    (first,) = room.stable(1)

    assert room.join().error is GroupFull
    assert room.join(first.member_id).answer.generation == first.generation + 1

    room.join(group="other")
    room.join(group="another")

    assert room.join(group="one more").error is GroupFull


def test_a_member_without_a_place_in_the_next_generation_is_taken_out() -> None:
    room = room_with_topic(GroupLimits(max_members=2))
    first, second = room.stable(2)
    room.join(first.member_id)
    newcomer = room.join()

    assert room.join(second.member_id).error is GroupFull
    assert newcomer.answer.generation == first.generation + 1


def test_what_members_make_the_broker_hold_is_limited() -> None:
    room = room_with_topic(GroupLimits(max_member_bytes=10_000, max_bytes=25_000))

    assert room.join(protocols=(("range", b"x" * 10_000),)).error is InvalidSetting
    first = room.join(protocols=(("range", b"x" * 9_000),)).answer
    assert room.sync(first, {first.member_id: b"x" * 16_000}).error is GroupFull
    assert room.sync(first, {first.member_id: b"x" * 15_000}).answer.assignment == b"x" * 15_000
    assert room.join(protocols=(("range", b"x" * 1_000),)).error is GroupFull


def test_names_and_ids_of_members_are_limited_as_their_metadata_is() -> None:
    room = room_with_topic(GroupLimits(max_member_bytes=10_000, max_bytes=25_000))

    long = "x" * 10_000
    assert room.join(protocols=((long, b""),)).error is InvalidSetting
    assert room.join(client_id=long).error is InvalidSetting
    assert room.join(instance_id=long).error is InvalidSetting
    assert room.join(client_id="é" * 2_000).error is InvalidSetting
    short = tuple((f"p{number}", b"") for number in range(99))
    assert room.join(protocols=short).error is None
    for number in range(2):
        assert room.join(group=f"g{number}", protocols=short).error is None
    assert room.join(group="one more", protocols=short).error is GroupFull


def test_ids_that_were_given_out_and_not_used_are_limited_as_members_are() -> None:
    room = room_with_topic(GroupLimits(max_member_bytes=10_000, max_bytes=25_000))
    name = "x" * 4_000

    given = [room.join(client_id=name, takes_id_first=True) for _ in range(10)]

    kinds = [each.error for each in given]
    assert kinds == [MemberIdRequired] * 5 + [GroupFull] * 5
    room.pass_time(SESSION_MS)
    assert room.join(client_id=name, takes_id_first=True).error is MemberIdRequired


def test_a_member_with_very_many_protocols_is_refused() -> None:
    room = room_with_topic(GroupLimits(max_protocols=3))

    assert (
        room.join(protocols=tuple((f"p{each}", b"") for each in range(4))).error is InvalidSetting
    )
    assert room.join(protocols=tuple((f"p{each}", b"") for each in range(3))).error is None


def test_senseless_joins_are_refused() -> None:
    room = room_with_topic()

    assert room.join(session_timeout_ms=5_999).error is InvalidSessionTimeout
    assert room.join(session_timeout_ms=1_800_001).error is InvalidSessionTimeout
    assert room.join(rebalance_timeout_ms=-1).error is InvalidSetting
    assert room.join(group="").error is InvalidName


def test_the_first_members_wait_for_more_if_the_broker_is_told_to() -> None:
    room = room_with_topic(GroupLimits(initial_delay_ms=3_000))
    asked = [room.join()]
    room.pass_time(2_000)
    asked.append(room.join())
    room.pass_time(2_000)
    assert not asked[0].is_answered

    room.pass_time(3_000)

    assert {each.answer.generation for each in asked} == {1}


def test_members_wait_for_more_no_longer_than_the_slowest_may_take() -> None:
    room = room_with_topic(GroupLimits(initial_delay_ms=3_000))
    first = room.join(rebalance_timeout_ms=7_000)
    for _ in range(7):
        assert not first.is_answered
        room.join()
        room.pass_time(1_000)

    assert first.is_answered


def room_with_newcomer() -> tuple[Room, Joined, Asked[Joined]]:
    """Return a group of two that have joined and not synced: the leader, and what was asked."""
    room = room_with_topic()
    (first,) = room.stable(1)
    asked = room.join()
    return room, room.join(first.member_id).answer, asked


def test_a_member_that_is_told_to_join_again_has_its_session_to_do_so() -> None:
    room, first, asked = room_with_newcomer()
    waiting = room.sync(asked.answer)
    room.join()

    assert waiting.error is RebalanceInProgress
    room.heartbeat_until(first, SESSION_MS)

    members = {member.member_id for member in room.groups.describe("g").members}
    assert asked.answer.member_id not in members


def test_whoever_leaves_gets_its_answers_first() -> None:
    room, first, asked = room_with_newcomer()
    syncing = room.sync(asked.answer)

    room.leave(asked.answer)

    assert syncing.error is UnknownMember

    joining = room.join()
    room.leave(first)

    assert joining.answer.leader == joining.answer.member_id


def test_a_full_disk_makes_members_try_again() -> None:
    log, clock = LateLog(), Clock()
    room = Room(new_broker(log, clock), clock)
    log.is_full = True

    assert room.join(instance_id="one").error is StorageFull
    assert room.groups.describe("g").phase is Phase.PREPARING

    log.is_full = False

    assert room.join(instance_id="one").answer.generation == 1
