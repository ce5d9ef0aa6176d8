"""Classic groups: members join, sync, go silent and leave, and the group rebalances."""

import pytest
from tests.broker.brokers import Clock, LateLog, new_broker
from tests.broker.groups.classic.consumers import REBALANCE_MS, SESSION_MS, Room

from mainstem.broker.groups.classic.group import Phase
from mainstem.core.errors import (
    IllegalGeneration,
    InconsistentProtocol,
    MemberIdRequired,
    RebalanceInProgress,
    UnknownMember,
)


def test_the_first_member_is_the_leader_of_the_first_generation() -> None:
    room = Room()

    joined = room.join().answer

    assert joined.generation == 1
    assert joined.leader == joined.member_id
    assert joined.member_id.startswith("app-")
    assert [peer.member_id for peer in joined.members] == [joined.member_id]
    assert joined.members[0].metadata == b"range metadata"


def test_the_second_member_waits_until_the_first_has_joined_again() -> None:
    room = Room()
    (first,) = room.stable(1)

    second = room.join()

    assert not second.is_answered
    with pytest.raises(RebalanceInProgress):
        room.heartbeat(first)

    again = room.join(first.member_id).answer

    assert again.generation == second.answer.generation == 2
    assert second.answer.leader == again.leader == first.member_id
    assert [peer.member_id for peer in again.members] == [first.member_id, second.answer.member_id]
    assert second.answer.members == ()


def test_everybody_gets_what_the_leader_assigned() -> None:
    room = Room()
    first, second = room.stable(2)

    assert room.sync(first).answer.assignment == b"0"
    assert room.sync(second).answer.assignment == b"1"
    assert room.groups.describe("g").phase is Phase.STABLE


def test_a_follower_waits_for_the_leaders_assignment() -> None:
    room = Room()
    (first,) = room.stable(1)
    asked = room.join()
    first, second = room.join(first.member_id).answer, asked.answer

    follower = room.sync(second)

    assert not follower.is_answered

    room.sync(first, {second.member_id: b"all of it"})

    assert follower.answer.assignment == b"all of it"
    assert room.sync(first).answer.assignment == b""


def test_a_member_that_is_silent_is_taken_out() -> None:
    room = Room()
    first, second = room.stable(2)
    room.pass_time(SESSION_MS - 1)
    room.heartbeat(first)

    room.pass_time(1)

    room.check_is_out(second, first)


def test_members_that_join_too_late_are_left_out() -> None:
    room = Room()
    first, second = room.stable(2)
    third = room.join()
    again = room.join(first.member_id)
    for _ in range(2 * REBALANCE_MS // SESSION_MS):
        assert not third.is_answered
        with pytest.raises(RebalanceInProgress):
            room.heartbeat(second)
        room.pass_time(SESSION_MS // 2)

    assert [peer.member_id for peer in again.answer.members] == [
        first.member_id,
        third.answer.member_id,
    ]
    with pytest.raises(UnknownMember):
        room.heartbeat(second)


def test_members_that_do_not_ask_for_their_assignment_are_taken_out() -> None:
    room = Room()
    (first,) = room.stable(1)
    asked = room.join()
    first = room.join(first.member_id).answer
    room.sync(first, {})
    for _ in range(2 * REBALANCE_MS // SESSION_MS):
        room.heartbeat(first)
        room.heartbeat(asked.answer)
        room.pass_time(SESSION_MS // 2)

    room.check_is_out(asked.answer, first)


def test_a_member_that_can_is_given_its_id_first() -> None:
    room = Room()

    asked = room.join(takes_id_first=True)

    assert asked.error is MemberIdRequired
    refusal = asked.answers[0]
    assert isinstance(refusal, MemberIdRequired)
    assert room.join(refusal.member, takes_id_first=True).answer.member_id == refusal.member


def test_the_next_generation_waits_for_ids_that_were_given_out() -> None:
    room = Room()
    (first,) = room.stable(1)
    room.join(takes_id_first=True)

    again = room.join(first.member_id)

    assert not again.is_answered

    room.pass_time(SESSION_MS)

    assert again.answer.generation == 2


def test_members_that_leave_together_cause_one_rebalance() -> None:
    room = Room()
    first, second, third = room.stable(3)

    answers = room.leave(second, third)

    assert answers == [None, None]
    assert room.join(first.member_id).answer.generation == first.generation + 1


def test_a_stranger_cannot_leave() -> None:
    room = Room()
    (first,) = room.stable(1)

    answers = room.groups.leave("g", [("stranger", None), (first.member_id, None)])

    assert isinstance(answers[0], UnknownMember)
    assert answers[1] is None
    assert room.groups.describe("g").phase is Phase.EMPTY


def test_a_group_picks_the_protocol_that_most_like_best_among_those_all_speak() -> None:
    room = Room()
    first = room.join(protocols=(("range", b""), ("sticky", b""))).answer
    asked = [
        room.join(protocols=(("own", b""), ("sticky", b""), ("range", b""))),
        room.join(protocols=(("sticky", b""), ("range", b""))),
        room.join(first.member_id, protocols=(("range", b""), ("sticky", b""))),
    ]

    assert {each.answer.protocol for each in asked} == {"sticky"}


def test_a_member_without_a_protocol_in_common_is_refused() -> None:
    room = Room()
    room.stable(1)

    assert room.join(protocols=(("sticky", b""),)).error is InconsistentProtocol
    assert room.join(protocol_type="connect").error is InconsistentProtocol
    assert room.join(group="other", protocols=()).error is InconsistentProtocol
    assert room.join(group="other", protocol_type="").error is InconsistentProtocol


def test_a_member_of_the_past_generation_is_told_so() -> None:
    room = Room()
    (first,) = room.stable(1)
    room.join(first.member_id)

    with pytest.raises(IllegalGeneration):
        room.heartbeat(first)
    assert room.sync(first).error is IllegalGeneration


def test_a_generation_is_announced_when_it_is_durable() -> None:
    log, clock = LateLog(), Clock()
    room = Room(new_broker(log, clock), clock)
    log.late = True

    asked = room.join()

    assert not asked.is_answered

    log.settle()

    assert asked.answer.generation == 1


def test_a_first_join_waits_no_longer_than_a_client_would() -> None:
    room = Room()
    first = room.join(rebalance_timeout_ms=10_000_000).answer
    room.sync(first)
    newcomer = room.join()
    for _ in range(59):
        room.pass_time(5_000)
        with pytest.raises(RebalanceInProgress):
            room.heartbeat(first)
    assert not newcomer.is_answered

    room.pass_time(5_000)

    assert newcomer.error is UnknownMember


def test_members_are_seen_among_all_groups_until_they_leave() -> None:
    room = Room()
    joined = room.stable(2)

    (found,) = room.broker.groups()

    assert (found.name, found.state) == ("g", "live")
    assert found.members == {each.member_id: () for each in joined}
    assert room.broker.group("g") == found
    room.leave(*joined)
    assert room.broker.groups() == []
