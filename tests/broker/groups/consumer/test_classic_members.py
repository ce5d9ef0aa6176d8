"""Groups that migrate from the classic to the consumer protocol and back, member by member."""

import json
from contextlib import suppress

import pytest
from msgspec.structs import replace
from tests.broker.counted_names import CountedName
from tests.broker.groups.classic.consumers import JOIN, Asked
from tests.broker.groups.consumer.classic_member_sessions import JsonConsumerProtocol
from tests.broker.groups.consumer.members import REBALANCE_MS, Hall, Member

from mainstem.broker.groups.classic.coordinator import Membership
from mainstem.broker.groups.classic.group import Joined, Phase, Sync, Synced
from mainstem.broker.groups.classic.journal import ClassicJournal
from mainstem.broker.groups.consumer.records import ConsumerPhase
from mainstem.broker.groups.cursors import Cursor
from mainstem.broker.topics.catalog import TopicPartition
from mainstem.core.errors import (
    FencedInstance,
    GroupIsLive,
    IllegalGeneration,
    InconsistentProtocol,
    MemberIdRequired,
    RebalanceInProgress,
    StaleMemberEpoch,
    UnknownMember,
)
from mainstem.log.port import PartitionId

SESSION_MS = 10_000


class OldMember:
    """A consumer of the classic protocol that gives up only what it is told to (cooperative)."""

    def __init__(self, hall: Hall, name: str, instance_id: str | None = None) -> None:
        self._hall = hall
        self._name = name
        self._instance_id = instance_id
        self.id = ""
        self.generation = -1
        self.places: list[TopicPartition] = []

    def join(self, *names: str) -> Asked[Joined]:
        """Join, or join again with what it has."""
        asked = Asked[Joined]()
        metadata = json.dumps([names or ("t",), self.places]).encode()
        self._hall.broker.classic.join(
            replace(
                JOIN,
                member_id=self.id,
                instance_id=self._instance_id,
                client_id=self._name,
                protocols=(("cooperative", metadata),),
            ),
            asked,
        )
        return asked

    def sync(self, assignments: dict[str, list[TopicPartition]] | None = None) -> Asked[Synced]:
        """Ask what to own; a leader brings what all others are to own."""
        asked = Asked[Synced]()
        given = {each: json.dumps(it).encode() for each, it in (assignments or {}).items()}
        wish = Sync(
            group="g",
            member_id=self.id,
            generation=self.generation,
            instance_id=self._instance_id,
            assignments=given,
        )
        self._hall.broker.classic.sync(wish, asked)
        return asked

    def take(self, joined: Joined) -> None:
        """Take note of a generation."""
        self.id, self.generation = joined.member_id, joined.generation

    def beat(self) -> None:
        """Show itself; if it is told to, join again, and own what it is given then."""
        classic = self._hall.broker.classic
        try:
            classic.heartbeat("g", self.id, self.generation, self._instance_id)
        except (RebalanceInProgress, IllegalGeneration):
            asked = self.join()
            if asked.is_answered:
                self.take(asked.answer)
                with suppress(RebalanceInProgress, IllegalGeneration):
                    self.own(self.sync().answer)

    def own(self, synced: Synced) -> None:
        self.places = [(name, number) for name, number in json.loads(synced.assignment)]

    def leave(self) -> None:
        assert self._hall.broker.classic.leave("g", [(self.id, self._instance_id)]) == [None]


def hall_with_protocol() -> Hall:
    hall = Hall(t=4)
    hall.protocol = hall.groups.classic_members.protocol = JsonConsumerProtocol()
    return hall


def old_pair(hall: Hall) -> tuple[OldMember, OldMember]:
    """Return two members of a stable classic group, who own two partitions each."""
    first, second = OldMember(hall, "first"), OldMember(hall, "second")
    first.take(first.join().answer)
    waiting = second.join()
    first.take(first.join().answer)
    second.take(waiting.answer)
    first.own(first.sync({first.id: [("t", 0), ("t", 1)], second.id: [("t", 2), ("t", 3)]}).answer)
    second.own(second.sync().answer)
    return first, second


def hall_with_pair() -> tuple[Hall, OldMember, OldMember]:
    """Return a broker that knows the members' protocol, and ``old_pair`` on it."""
    hall = hall_with_protocol()
    return hall, *old_pair(hall)


def come_to_rest(*members: OldMember | Member) -> None:
    for _ in range(8):
        for each in members:
            each.beat()


def all_places(*members: OldMember | Member) -> list[TopicPartition]:
    return sorted(place for each in members for place in each.places)


EVERYTHING = [("t", number) for number in range(4)]


def test_a_live_classic_group_takes_in_a_member_of_the_other_protocol() -> None:
    hall, first, second = hall_with_pair()
    new = hall.member("new")

    heard = new.join()

    assert heard.epoch == first.generation + 1
    assert new.places == []
    come_to_rest(first, second, new)
    assert all_places(first, second, new) == EVERYTHING
    assert max(len(each.places) for each in (first, second, new)) == 2
    assert hall.described.phase is ConsumerPhase.STABLE
    assert hall.broker.classic.describe("g").phase is Phase.DEAD


def test_nobody_reads_what_another_reads_on_the_way() -> None:
    hall, first, second = hall_with_pair()
    new = hall.member("new")
    new.join()

    for _ in range(6):
        for each in (first, new, second):
            each.beat()
            found = all_places(first, second, new)
            assert len(found) == len(set(found))


def test_members_are_exchanged_one_by_one_until_all_speak_the_other_protocol() -> None:
    hall, first, second = hall_with_pair()
    one, two = hall.member("one"), hall.member("two")

    first.leave()
    one.join()
    come_to_rest(second, one)
    assert all_places(second, one) == EVERYTHING

    second.leave()
    two.join()
    come_to_rest(one, two)
    assert all_places(one, two) == EVERYTHING
    assert hall.described.members[0].profile.classic is None


def test_when_the_last_of_the_other_protocol_leaves_the_group_is_classic_again() -> None:
    hall, first, second = hall_with_pair()
    new = hall.member("new")
    new.join()
    come_to_rest(first, second, new)
    generation = first.generation

    new.leave()

    assert hall.groups.names() == []
    assert hall.broker.classic.describe("g").phase is Phase.PREPARING
    for each in (first, second):
        with pytest.raises(RebalanceInProgress):
            hall.broker.classic.heartbeat("g", each.id, each.generation)
    waiting = first.join()
    second.take(second.join().answer)
    first.take(waiting.answer)
    assert first.generation == second.generation > generation


def test_an_old_member_can_join_a_group_of_the_other_protocol() -> None:
    hall = hall_with_protocol()
    (new,) = hall.joined("new")
    old = OldMember(hall, "old")

    old.take(old.join().answer)
    old.own(old.sync().answer)

    assert old.places == []
    come_to_rest(new, old)
    assert all_places(new, old) == EVERYTHING
    assert len(old.places) == 2


def test_an_old_member_that_knows_how_is_given_its_id_first() -> None:
    hall = hall_with_protocol()
    hall.joined("new")
    asked = Asked[Joined]()
    metadata = json.dumps([["t"], []]).encode()
    protocols = (("cooperative", metadata),)
    wish = replace(JOIN, client_id="old", protocols=protocols, takes_id_first=True)

    hall.broker.classic.join(wish, asked)

    (refusal,) = asked.answers
    assert isinstance(refusal, MemberIdRequired)
    again = Asked[Joined]()
    hall.broker.classic.join(replace(wish, member_id=refusal.member), again)
    assert again.answer.member_id == refusal.member


def test_an_old_member_that_is_silent_or_does_not_join_again_is_taken_out() -> None:
    hall, first, second = hall_with_pair()
    new = hall.member("new")
    new.join()
    classic = hall.broker.classic

    for _ in range(7):
        with suppress(RebalanceInProgress, UnknownMember):
            classic.heartbeat("g", first.id, first.generation)
        new.beat()
        hall.pass_time(REBALANCE_MS // 7 + 1)

    for each in (first, second):
        with pytest.raises(UnknownMember):
            classic.heartbeat("g", each.id, each.generation)
    hall.settle(new)
    assert new.places == EVERYTHING


def test_old_members_commit_in_their_generation() -> None:
    hall, first, second = hall_with_pair()
    new = hall.member("new")
    new.join()
    come_to_rest(first, second, new)
    classic, cursors = hall.broker.classic, {("t", 0): Cursor(1, hall.clock())}

    classic.commit("g", Membership(first.id, first.generation), cursors)

    with pytest.raises(IllegalGeneration):
        classic.commit("g", Membership(first.id, first.generation - 1), cursors)
    with pytest.raises(StaleMemberEpoch):
        classic.commit("g", Membership(new.id, new.epoch - 1), cursors)


def test_a_static_member_changes_its_protocol_and_keeps_its_partitions() -> None:
    hall = hall_with_protocol()
    old = OldMember(hall, "old", "one")
    old.take(old.join().answer)
    old.own(old.sync({old.id: EVERYTHING}).answer)

    new = hall.member("new", "one")
    new.join()

    assert new.places == EVERYTHING
    with pytest.raises(FencedInstance):
        hall.broker.classic.heartbeat("g", old.id, old.generation, "one")


def test_classic_members_are_there_after_a_restart() -> None:
    hall, first, second = hall_with_pair()
    new = hall.member("new")
    new.join()
    come_to_rest(first, second, new)
    fold, places = hall.groups.fold, [each.places for each in (first, second, new)]

    hall.restart()

    assert hall.groups.fold == fold
    come_to_rest(first, second, new)
    assert [each.places for each in (first, second, new)] == places


def test_a_classic_group_that_was_taken_over_is_not_there_after_a_restart() -> None:
    hall, first, second = hall_with_pair()
    new = hall.member("new")
    new.join()

    assert hall.broker.classic.journal.members.groups == {}
    assert ClassicJournal(hall.log, hall.clock).members.groups == {}
    hall.restart()
    come_to_rest(first, second, new)
    assert all_places(first, second, new) == EVERYTHING


def test_a_classic_group_is_taken_over_after_a_restart() -> None:
    hall, first, second = hall_with_pair()
    hall.restart()
    new = hall.member("new")

    new.join()

    come_to_rest(first, second, new)
    assert all_places(first, second, new) == EVERYTHING


def test_members_of_a_group_that_was_given_back_are_known_after_a_restart() -> None:
    hall, first, second = hall_with_pair()
    new = hall.member("new")
    new.join()
    come_to_rest(first, second, new)
    new.leave()

    hall.restart()

    assert hall.broker.classic.describe("g").phase is Phase.PREPARING
    for each in (first, second):
        with pytest.raises(RebalanceInProgress):
            hall.broker.classic.heartbeat("g", each.id, each.generation)
    waiting, generation = first.join(), first.generation
    second.take(second.join().answer)
    first.take(waiting.answer)
    assert first.generation == second.generation > generation


def test_what_cannot_be_understood_is_refused() -> None:
    hall = hall_with_protocol()
    hall.joined("new")
    asked = Asked[Joined]()
    wish = replace(JOIN, protocols=(("range", b"unreadable"),))

    hall.broker.classic.join(wish, asked)

    assert asked.error is InconsistentProtocol
    other = Asked[Joined]()
    hall.broker.classic.join(replace(wish, protocol_type="connect"), other)
    assert other.error is InconsistentProtocol


def test_a_classic_group_of_other_programs_is_not_taken_over() -> None:
    hall = hall_with_protocol()
    asked = Asked[Joined]()
    hall.broker.classic.join(
        replace(JOIN, protocol_type="connect", protocols=(("sessioned", b""),)),
        asked,
    )

    with pytest.raises(GroupIsLive):
        hall.member("new").join()


def test_who_waits_for_others_when_the_group_is_taken_over_is_told_to_join_again() -> None:
    hall = hall_with_protocol()
    first, _ = old_pair(hall)
    waiting = first.join()
    assert not waiting.is_answered or waiting.error is None
    third = OldMember(hall, "third")
    asked = third.join()
    assert not asked.is_answered

    hall.member("new").join()

    assert asked.error is RebalanceInProgress


def test_partitions_that_are_gone_are_nobodys() -> None:
    hall = hall_with_protocol()
    classic_members = hall.groups.classic_members

    assert classic_members.partitions([("t", 0), ("t", 9), ("x", 0)]) == {
        PartitionId(hall.broker.topic("t").id, 0)
    }


def test_the_protocols_of_a_classic_member_are_not_gone_through_for_every_other() -> None:
    hall = hall_with_protocol()
    hall.member("new").join()
    classic_members, names = 200, 50
    for number in range(classic_members):
        OldMember(hall, f"classic member{number}").join()
    asked = Asked[Joined]()

    CountedName.times = 0
    hall.broker.classic.join(
        replace(
            JOIN,
            member_id="one more",
            protocols=(
                ("cooperative", b"unreadable"),
                *((CountedName(f"p{number}"), b"") for number in range(names)),
            ),
        ),
        asked,
    )

    assert asked.error is InconsistentProtocol
    assert CountedName.times < 10 * names
