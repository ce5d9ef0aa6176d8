"""Static members of classic groups that return in time keep their place and assignment."""

import pytest
from tests.broker.groups.classic.consumers import RANGE, REBALANCE_MS, SESSION_MS, Room

from mainstem.broker.groups.classic.group import Joined, Phase
from mainstem.core.errors import FencedInstance, RebalanceInProgress, UnknownMember

BOTH = (("range", b""), ("sticky", b""))


def stable(room: Room) -> tuple[Joined, Joined]:
    """Return a leader ``one`` and a follower ``two``, both static, at rest."""
    first = room.join(instance_id="one", protocols=BOTH).answer
    asked = room.join(instance_id="two", protocols=BOTH)
    first = room.join(first.member_id, instance_id="one", protocols=BOTH).answer
    second = asked.answer
    room.sync(first, {first.member_id: b"1", second.member_id: b"2"}, instance_id="one")
    assert room.sync(second, instance_id="two").answer.assignment == b"2"
    return first, second


def test_a_follower_that_comes_back_keeps_its_assignment_and_nobody_notices() -> None:
    room = Room()
    first, second = stable(room)

    again = room.join(instance_id="two", protocols=BOTH).answer

    assert again.member_id != second.member_id
    assert again.generation == second.generation
    assert again.leader == first.member_id
    assert again.members == ()
    assert room.sync(again, instance_id="two").answer.assignment == b"2"
    room.heartbeat(first, "one")


def test_the_one_before_is_fenced() -> None:
    room = Room()
    _, second = stable(room)
    room.join(instance_id="two", protocols=BOTH)

    with pytest.raises(FencedInstance):
        room.heartbeat(second, "two")
    assert room.sync(second, instance_id="two").error is FencedInstance
    assert room.join(second.member_id, instance_id="two").error is FencedInstance
    answers = room.groups.leave("g", [(second.member_id, "two")])
    assert isinstance(answers[0], FencedInstance)


def test_the_one_before_is_fenced_while_it_waits() -> None:
    room = Room()
    first, second = stable(room)
    waiting = room.join(second.member_id, instance_id="two", protocols=RANGE)
    assert not waiting.is_answered

    room.join(instance_id="two", protocols=RANGE)

    assert waiting.error is FencedInstance

    asked = room.join(instance_id="two", protocols=RANGE)
    room.join(first.member_id, instance_id="one", protocols=BOTH)
    syncing = room.sync(asked.answer, instance_id="two")
    assert not syncing.is_answered

    room.join(instance_id="two", protocols=RANGE)

    assert syncing.error is FencedInstance


def test_a_leader_that_comes_back_is_told_that_there_is_nothing_to_assign() -> None:
    room = Room()
    _, second = stable(room)

    again = room.join(instance_id="one", protocols=BOTH, skips_assignment=True).answer

    assert again.skip_assignment
    assert again.leader == again.member_id
    assert {peer.instance_id for peer in again.members} == {"one", "two"}
    assert room.sync(again, instance_id="one").answer.assignment == b"1"
    room.heartbeat(second, "two")


def test_a_leader_that_could_not_understand_that_is_told_that_it_does_not_lead() -> None:
    room = Room()
    first, _ = stable(room)

    again = room.join(instance_id="one", protocols=BOTH).answer

    assert again.leader == first.member_id != again.member_id
    assert again.members == ()
    assert not again.skip_assignment


def test_a_static_member_that_comes_back_with_another_protocol_causes_a_rebalance() -> None:
    room = Room()
    first, _ = stable(room)

    waiting = room.join(instance_id="two", protocols=(("sticky", b""),))

    with pytest.raises(RebalanceInProgress):
        room.heartbeat(first, "one")
    assert not waiting.is_answered


def test_a_static_member_that_comes_back_before_the_assignment_causes_a_rebalance() -> None:
    room = Room()
    first = room.join(instance_id="one").answer
    asked = room.join(instance_id="two")
    first = room.join(first.member_id, instance_id="one").answer
    assert room.groups.describe("g").phase is Phase.COMPLETING

    again = room.join(instance_id="two")

    assert not again.is_answered
    assert room.sync(first, instance_id="one").error is RebalanceInProgress
    room.join(first.member_id, instance_id="one")
    assert again.answer.generation == asked.answer.generation + 1


def test_a_static_member_is_not_left_out_for_being_late_but_for_being_silent() -> None:
    room = Room()
    _, second = stable(room)
    room.join()
    waiting = room.join(second.member_id, instance_id="two", protocols=BOTH)
    for _ in range(2 * REBALANCE_MS // SESSION_MS):
        with pytest.raises(RebalanceInProgress):
            room.groups.heartbeat("g", _first(room), second.generation, "one")
        room.pass_time(SESSION_MS // 2)

    assert waiting.answer.leader == second.member_id
    assert "one" in {peer.instance_id for peer in waiting.answer.members}

    room.pass_time(SESSION_MS)

    assert "one" not in {member.instance_id for member in room.groups.describe("g").members}


def _first(room: Room) -> str:
    members = room.groups.describe("g").members
    return next(member.member_id for member in members if member.instance_id == "one")


def test_an_administrator_takes_out_a_static_member_by_its_instance_id() -> None:
    room = Room()
    _, second = stable(room)

    answers = room.groups.leave("g", [("", "one"), ("", "three")])

    assert answers[0] is None
    assert isinstance(answers[1], UnknownMember)
    again = room.join(second.member_id, instance_id="two", protocols=BOTH).answer
    assert again.leader == second.member_id


def test_static_members_that_are_all_silent_are_waited_for_until_their_sessions_end() -> None:
    room = Room()
    stable(room)
    newcomer = room.join(instance_id="three", protocols=BOTH)
    room.groups.leave("g", [("", "three")])
    assert newcomer.error is UnknownMember

    room.pass_time(SESSION_MS)

    assert room.groups.describe("g").phase is Phase.EMPTY
