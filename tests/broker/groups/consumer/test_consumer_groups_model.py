"""Consumer groups against a model: no two members ever own the same partition.

The members here do what careful consumers do. They go on reading what they are told to give up
until they say that they have given it up; they are silent, crash, come back, and lose answers. Now
and then the broker is opened anew on what it has written down, and must be what it was.
"""

from collections.abc import Callable

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test
from tests.broker.groups.consumer.classic_member_sessions import EagerMember, JsonConsumerProtocol
from tests.broker.groups.consumer.members import REBALANCE_MS, SESSION_MS, Hall, Member

from mainstem.core.errors import MainstemError, UnknownMember
from mainstem.core.topic_settings import TopicSettings

TOPICS = ("t", "u", "v")
WISHES = (("t",), ("u",), ("t", "u"), ("t", "u", "v"))
REGEXES = ("[tu]", ".*", "v")
numbers = st.integers(0, 7)


class ConsumerGroupMachine(RuleBasedStateMachine):
    """A group, its members as they see themselves, and what must hold for both."""

    def __init__(self) -> None:
        super().__init__()
        self.hall = Hall(t=4, u=2)
        self.hall.protocol = self.hall.groups.classic_members.protocol = JsonConsumerProtocol()
        self.members: list[Member | EagerMember] = []
        self.ids = iter(range(1_000_000))

    def chosen(self, number: int) -> Member | EagerMember | None:
        return self.members[number % len(self.members)] if self.members else None

    @rule(wish=st.sampled_from(WISHES), is_static=st.booleans(), is_lost=st.booleans())
    def join(self, wish: tuple[str, ...], is_static: bool, is_lost: bool) -> None:
        if len(self.members) >= 5:
            return
        number = next(self.ids)
        member = self.hall.member(f"m{number}", f"i{number}" if is_static else None)
        member.join(*wish, is_lost=is_lost)
        if is_lost:
            member.join(*wish)
        self.members.append(member)

    @rule(regex=st.sampled_from(REGEXES), assignor=st.sampled_from(["range", "uniform"]))
    def join_by_regex(self, regex: str, assignor: str) -> None:
        if len(self.members) < 5:
            member = self.hall.member(f"m{next(self.ids)}")
            member.join(regex=regex, assignor=assignor)
            self.members.append(member)

    @rule(wish=st.sampled_from(WISHES))
    def join_by_the_classic_protocol(self, wish: tuple[str, ...]) -> None:
        if len(self.members) < 5:
            member = EagerMember(self.hall, *wish)
            member.join()
            self.members.append(member)

    @rule(number=numbers, is_lost=st.booleans())
    def beat(self, number: int, is_lost: bool) -> None:
        self._do(number, lambda member: member.beat(is_lost=is_lost))

    @rule(subscribed_topics=st.lists(numbers, max_size=8))
    def beats(self, subscribed_topics: list[int]) -> None:
        for number in subscribed_topics:
            self._do(number, lambda member: member.beat())

    @rule(number=numbers, wish=st.sampled_from(WISHES))
    def wish(self, number: int, wish: tuple[str, ...]) -> None:
        self._do(number, lambda member: member.wish(*wish))

    @rule(number=numbers)
    def lose_its_way_and_join_again(self, number: int) -> None:
        if isinstance(member := self.chosen(number), Member):
            try:
                member.join("t")
            except MainstemError:
                self.members.remove(member)

    @rule(number=numbers)
    def leave(self, number: int) -> None:
        if (member := self.chosen(number)) is not None and _is_known(member):
            self.members.remove(member)
            member.leave()

    @rule(number=numbers)
    def leave_for_a_while_and_come_back(self, number: int) -> None:
        member = self.chosen(number)
        if isinstance(member, Member) and member.instance_id is not None:
            self.members.remove(member)
            member.leave(for_a_while=True)
            back = self.hall.member(f"m{next(self.ids)}", member.instance_id)
            back.join("t", "u")
            self.members.append(back)

    @rule(number=numbers)
    def crash(self, number: int) -> None:
        """Say nothing any more, until the session has ended for that one alone."""
        member = self.chosen(number)
        if member is None or not _is_known(member):
            return
        self.members.remove(member)
        self.hall.pass_time(SESSION_MS - 1)
        for each in list(self.members):
            self._do(self.members.index(each), lambda member: member.beat())
        self.hall.pass_time(1)
        self._take_out_the_fenced()

    @rule()
    def be_slow(self) -> None:
        """Let so much time pass that whoever has not given something up is taken out."""
        for _ in range(3):
            self.hall.pass_time(REBALANCE_MS // 2)
            for each in list(self.members):
                self._do(self.members.index(each), lambda member: member.linger())

    @rule(name=st.sampled_from(TOPICS))
    def change_topic(self, name: str) -> None:
        known = {each.name: each for each in self.hall.broker.topics()}
        if name not in known:
            self.hall.broker.create_topic(name, TopicSettings(partitions=2))
        elif len(known[name].partitions) < 6:
            self.hall.broker.alter_topic(name, partitions=len(known[name].partitions) + 1)
        else:
            self.hall.broker.delete_topic(name)

    @rule()
    def restart(self) -> None:
        before = self.hall.groups.fold

        self.hall.restart()

        assert self.hall.groups.fold == before
        self._ask_again(is_lost=True)

    @rule()
    def come_to_rest(self) -> None:
        """All that somebody wants is owned, evenly; and then nothing moves any more."""
        if not self.hall.groups.has_members("g"):
            # There the members have to look themselves whether topics have changed.
            self._ask_again(is_lost=False)
        quiet = 0
        for _ in range(40):
            before = [(each.epoch, each.owned) for each in self.members]
            for each in list(self.members):
                self._do(self.members.index(each), lambda member: member.beat())
            waits = any(isinstance(each, EagerMember) and each.is_waiting for each in self.members)
            is_quiet = before == [(each.epoch, each.owned) for each in self.members]
            quiet = quiet + 1 if is_quiet and not waits else 0
            if quiet == 3:
                break
        else:
            raise AssertionError("the members do not come to rest")
        partitions = {
            at
            for topic in self.hall.broker.topics()
            if any(each.wants(topic.name) for each in self.members)
            for at in topic.partitions
        }
        owned = [at for each in self.members for at in each.owned]
        assert len(owned) == len(set(owned))
        assert set(owned) == partitions
        self._check_balance()

    def _take_out_the_fenced(self) -> None:
        """Leave out who was too slow meanwhile: it reads until it hears of that, and is fenced."""
        classic = self.hall.broker.classic.describe("g").members
        known = {*self.hall.groups.members("g"), *(each.member_id for each in classic)}
        self.members = [each for each in self.members if not each.id or each.id in known]

    def _ask_again(self, *, is_lost: bool) -> None:
        """Let the members of the classic protocol ask everything again."""
        for member in [each for each in self.members if isinstance(each, EagerMember)]:
            member.ask_again(is_lost=is_lost)

    def _check_balance(self) -> None:
        described = self.hall.groups.describe("g")
        if described is None or described.assignor != "uniform":
            return
        subscribed_topics = {(each.profile.names, each.profile.regex) for each in described.members}
        if len(subscribed_topics) == 1:
            loads = [len(each.owned) for each in self.members]
            assert max(loads) - min(loads) <= 1

    @invariant()
    def nobody_reads_what_another_reads(self) -> None:
        reading = [at for each in self.members for at in each.reads]

        assert len(reading) == len(set(reading))

    @invariant()
    def the_broker_knows_one_owner_of_each_partition(self) -> None:
        for group in self.hall.groups.fold:
            held = [
                (at, each.id)
                for each in group.members.values()
                for at in (*each.current.owned, *each.current.revoked)
            ]
            assert len(held) == len(dict(held))
            assert dict(held) == group.owners

    def _do(self, number: int, deed: Callable[[Member | EagerMember], object]) -> None:
        """Let a member do something; one that was taken out is none any more."""
        member = self.chosen(number)
        if member is not None:
            try:
                deed(member)
            except UnknownMember:
                self.members.remove(member)


def _is_known(member: Member | EagerMember) -> bool:
    """Tell whether a member is in the group for good; classic groups wait for those who are not."""
    return isinstance(member, Member) or (member.is_known and not member.is_waiting)


def test_nobody_reads_what_another_reads_and_a_restart_changes_nothing() -> None:
    run_state_machine_as_test(
        ConsumerGroupMachine, settings=settings(max_examples=20, stateful_step_count=25)
    )
