"""Classic groups over a restart of the broker: members of a stable generation continue in it."""

import pytest
from tests.broker.brokers import Clock, FullLog, LateLog, new_broker
from tests.broker.groups.classic.consumers import REBALANCE_MS, SESSION_MS, Room

from mainstem.broker.broker import Broker
from mainstem.broker.groups.classic.coordinator import Membership
from mainstem.broker.groups.classic.group import Phase
from mainstem.broker.groups.cursors import Cursor
from mainstem.broker.groups.limits import GroupLimits
from mainstem.broker.journal import CLASSIC_GROUPS, IDS
from mainstem.broker.limits import Limits
from mainstem.core.errors import (
    FencedInstance,
    GroupFull,
    IllegalGeneration,
    RebalanceInProgress,
    StorageFailed,
    StorageFull,
    UnknownMember,
)
from mainstem.core.topic_settings import TopicSettings
from mainstem.log.port import Log, PartitionId

JOURNAL = PartitionId(IDS[CLASSIC_GROUPS], 0)


def log_of(room: Room) -> Log:
    return room.broker._state.log


def restarted(room: Room) -> Room:
    """Return a broker that begins on what another has written down."""
    return Room(new_broker(log_of(room), room.clock), room.clock)


def members_kept(room: Room) -> dict[str, list[str]]:
    fold = room.groups.journal.members
    return {name: sorted(group.members) for name, group in fold.groups.items()}


def test_members_of_a_stable_generation_go_on_after_a_restart() -> None:
    room = Room()
    first, second = room.stable(2)
    before = room.groups.describe("g")

    again = restarted(room)

    assert again.groups.describe("g") == before
    again.heartbeat(first)
    again.heartbeat(second)
    assert again.sync(first).answer.assignment == b"0"
    assert again.sync(second).answer.assignment == b"1"


def test_a_follower_that_joins_again_after_a_restart_finds_its_generation() -> None:
    room = Room()
    _, second = room.stable(2)

    again = restarted(room)

    assert again.join(second.member_id).answer == second


def test_the_leader_that_joins_again_after_a_restart_assigns_anew() -> None:
    room = Room()
    first, second = room.stable(2)

    again = restarted(room)
    asked = again.join(first.member_id)

    with pytest.raises(RebalanceInProgress):
        again.heartbeat(second)
    again.join(second.member_id)
    assert asked.answer.generation == first.generation + 1
    assert [each.metadata for each in asked.answer.members] == [b"range metadata"] * 2


def test_commits_of_members_are_taken_after_a_restart() -> None:
    room = Room()
    room.broker.create_topic("t", TopicSettings())
    (member,) = room.stable(1)

    again = restarted(room)
    cursor = {("t", 0): Cursor(3, 0)}
    again.groups.commit("g", Membership(member.member_id, member.generation), cursor)

    with pytest.raises(IllegalGeneration):
        again.groups.commit("g", Membership(member.member_id, member.generation - 1), cursor)
    with pytest.raises(UnknownMember):
        again.groups.commit("g", Membership("somebody", member.generation), cursor)
    assert again.broker.committed("g")["t", 0].offset == 3


def test_members_that_do_not_come_back_are_taken_out_after_their_session() -> None:
    room = Room()
    first, second = room.stable(2)
    room.clock.now_ms += 10 * SESSION_MS

    again = restarted(room)
    again.pass_time(SESSION_MS - 1)
    again.heartbeat(second)
    again.pass_time(1)

    again.check_is_out(first, second)
    joined = again.join(second.member_id).answer
    assert joined.leader == joined.member_id
    assert joined.generation == second.generation + 1


def test_a_group_of_which_nobody_comes_back_is_empty_and_its_members_are_forgotten() -> None:
    room = Room()
    room.stable(2)

    again = restarted(room)
    again.pass_time(SESSION_MS)

    assert again.groups.describe("g").phase is Phase.EMPTY
    assert members_kept(again) == members_kept(restarted(again)) == {}


def test_nothing_is_kept_of_a_group_that_everybody_has_left() -> None:
    room = Room()
    first, second = room.stable(2)

    room.leave(first, second)

    assert members_kept(room) == members_kept(restarted(room)) == {}
    assert restarted(room).groups.describe("g").phase is Phase.EMPTY


def test_only_members_of_the_latest_stable_generation_are_kept() -> None:
    room = Room()
    first, second = room.stable(2)
    room.leave(first)
    alone = room.join(second.member_id).answer
    room.sync(alone, {alone.member_id: b"all"})

    again = restarted(room)

    assert members_kept(again) == {"g": [alone.member_id]}
    again.heartbeat(alone)
    with pytest.raises(UnknownMember):
        again.heartbeat(first)


def test_a_generation_that_was_only_about_to_begin_has_never_been() -> None:
    room = Room()
    first, second = room.stable(2)
    room.join()
    room.join(second.member_id)
    with pytest.raises(RebalanceInProgress):
        room.heartbeat(first)

    again = restarted(room)

    again.heartbeat(first)
    assert again.join(second.member_id).answer == second


def test_members_of_a_generation_that_nobody_has_assigned_are_to_join_again() -> None:
    room = Room()
    first, second = room.stable(2)
    newcomer = room.join()
    joined = room.join(first.member_id), room.join(second.member_id)
    number = newcomer.answer.generation

    again = restarted(room)

    assert again.groups.describe("g").phase is Phase.PREPARING
    with pytest.raises(RebalanceInProgress):
        again.heartbeat(joined[1].answer)
    assert again.sync(joined[0].answer).error is RebalanceInProgress
    with pytest.raises(IllegalGeneration):
        again.heartbeat(first)
    with pytest.raises(UnknownMember):
        again.heartbeat(newcomer.answer)
    asked = again.join(first.member_id), again.join(second.member_id)
    assert {each.answer.generation for each in asked} == {number + 1}


def test_an_assignment_is_told_when_it_is_durable() -> None:
    log, clock = LateLog(), Clock()
    room = Room(new_broker(log, clock), clock)
    (first,) = room.stable(1)
    asked = room.join()
    joined = room.join(first.member_id).answer
    log.late = True

    early = room.sync(asked.answer)
    leader = room.sync(joined, {asked.answer.member_id: b"all"})
    late = room.sync(asked.answer)

    assert not early.is_answered
    assert not leader.is_answered
    assert not late.is_answered

    log.settle()

    assert leader.answer.assignment == b""
    assert late.answer.assignment == b"all"


def test_an_assignment_that_never_becomes_durable_is_not_told() -> None:
    log, clock = LateLog(), Clock()
    room = Room(new_broker(log, clock), clock)
    joined = room.join().answer
    log.late = True

    asked = room.sync(joined, {joined.member_id: b"all"})
    log.settle(StorageFailed("no"))

    assert asked.error is StorageFailed


def test_on_a_full_disk_the_leader_brings_its_assignment_again_later() -> None:
    log, clock = FullLog(), Clock()
    room = Room(new_broker(log, clock), clock)
    joined = room.join().answer
    log.is_full = True

    assert room.sync(joined, {joined.member_id: b"all"}).error is StorageFull
    assert room.groups.describe("g").phase is Phase.COMPLETING

    log.is_full = False

    assert room.sync(joined, {joined.member_id: b"all"}).answer.assignment == b"all"
    restarted(room).heartbeat(joined)


@pytest.mark.parametrize("has_cursors", [False, True])
def test_members_that_leave_on_a_full_disk_are_forgotten_later(has_cursors: bool) -> None:
    log, clock = FullLog(), Clock()
    room = Room(new_broker(log, clock), clock)
    room.broker.create_topic("t", TopicSettings())
    (member,) = room.stable(1)
    if has_cursors:
        cursor = {("t", 0): Cursor(3, 0)}
        room.groups.commit("g", Membership(member.member_id, member.generation), cursor)
    log.is_full = True

    assert room.leave(member) == [None]
    assert room.groups.describe("g").phase is Phase.EMPTY

    log.is_full = False
    room.pass_time(GroupLimits().forget_after_ms)

    assert members_kept(room) == members_kept(restarted(room)) == {}


def test_a_static_member_keeps_its_place_over_a_restart() -> None:
    room = Room()
    joined = room.join(instance_id="one").answer
    room.sync(joined, {joined.member_id: b"all"}, instance_id="one")

    again = restarted(room)
    back = again.join(instance_id="one").answer

    assert back.generation == joined.generation
    assert back.member_id != joined.member_id
    assert again.sync(back, instance_id="one").answer.assignment == b"all"
    with pytest.raises(FencedInstance):
        again.heartbeat(joined, "one")


def test_who_took_the_place_of_a_static_member_has_it_after_a_restart() -> None:
    room = Room()
    first = room.join(instance_id="one").answer
    room.sync(first, {first.member_id: b"all"}, instance_id="one")
    asked = room.join()
    joined = room.join(first.member_id, instance_id="one").answer
    room.sync(joined, {joined.member_id: b"all"}, instance_id="one")
    back = room.join(instance_id="one", skips_assignment=True).answer

    again = restarted(room)

    again.heartbeat(back, "one")
    again.heartbeat(asked.answer)
    with pytest.raises(FencedInstance):
        again.heartbeat(joined, "one")
    assert again.sync(back, instance_id="one").answer.assignment == b"all"
    # It is the leader now, and may assign anew.
    again.join(back.member_id, instance_id="one")
    with pytest.raises(RebalanceInProgress):
        again.heartbeat(asked.answer)


def test_who_took_the_place_of_a_static_member_amid_a_rebalance_is_not_fenced() -> None:
    room = Room()
    joined = room.join(instance_id="one").answer
    room.sync(joined, {joined.member_id: b"all"}, instance_id="one")
    newcomer = room.join()
    back = room.join(instance_id="one")
    assert back.answer.generation == newcomer.answer.generation == 2

    again = restarted(room)

    with pytest.raises(RebalanceInProgress):
        again.heartbeat(back.answer, "one")
    with pytest.raises(FencedInstance):
        again.heartbeat(joined, "one")


def test_a_place_that_is_taken_on_a_full_disk_stays_what_it_was() -> None:
    log, clock = FullLog(), Clock()
    room = Room(new_broker(log, clock), clock)
    joined = room.join(instance_id="one").answer
    room.sync(joined, {joined.member_id: b"all"}, instance_id="one")
    log.is_full = True

    assert room.join(instance_id="one").error is StorageFull

    room.heartbeat(joined, "one")
    restarted(room).heartbeat(joined, "one")


def test_groups_of_other_kinds_find_the_name_taken_after_a_restart() -> None:
    room = Room()
    room.stable(1)

    again = restarted(room)

    assert again.broker._state.groups.is_live("g")


def test_members_without_a_generation_are_forgotten() -> None:
    room = Room()
    room.stable(1)
    room.groups.journal.write(room.groups.generations.forget("g"))

    again = restarted(room)

    assert again.groups.describe("g").phase is Phase.DEAD
    assert members_kept(again) == {}


def test_members_over_a_limit_that_was_lowered_have_to_join_again() -> None:
    room = Room()
    first, second = room.stable(2)
    limits = Limits(groups=GroupLimits(max_members=1))

    broker = Broker(log_of(room), room.clock, limits=limits)
    again = Room(broker, room.clock)

    with pytest.raises(RebalanceInProgress):
        again.heartbeat(first)
    asked = again.join(first.member_id)
    assert again.join(second.member_id).error is GroupFull
    assert [each.member_id for each in asked.answer.members] == [first.member_id]


def test_what_is_kept_of_large_members_is_written_in_batches_of_bounded_size() -> None:
    room = Room()
    large = (("range", b"x" * 700_000),)
    joined = [room.join(protocols=large).answer]
    for _ in range(3):
        asked = [room.join(protocols=large)]
        asked += [room.join(each.member_id, protocols=large) for each in joined]
        joined = [each.answer for each in asked]
    leader = next(each for each in joined if each.members)
    room.sync(leader, {each.member_id: b"0" for each in joined})

    read = log_of(room).read(JOURNAL, 0, 1)

    assert read.length < 2_000_000
    again = restarted(room)
    for each in joined:
        again.heartbeat(each)


def test_a_generation_that_gives_everybody_the_same_writes_down_little() -> None:
    room = Room()
    (first,) = room.stable(1)
    end = log_of(room).bounds(JOURNAL).end
    joined = room.join(first.member_id).answer

    room.sync(joined, {joined.member_id: b"0"})

    assert log_of(room).bounds(JOURNAL).end == end + 1
    restarted(room).heartbeat(joined)


def test_a_rebalance_after_a_restart_waits_no_longer_than_sessions_last() -> None:
    room = Room()
    first, _ = room.stable(2)

    again = restarted(room)
    newcomer = again.join()
    asked = again.join(first.member_id)
    assert not newcomer.is_answered
    again.pass_time(SESSION_MS)

    assert SESSION_MS < REBALANCE_MS
    assert newcomer.answer.generation == asked.answer.generation == first.generation + 1
