"""Classic groups against a model: members that come and go agree on a generation in the end.

The consumers here do what a real one does with each answer, but only now and then: in between they
crash, come back, leave, change their minds, and time passes. The broker is restarted too, and they
go on where they were. What must hold all the time: nobody is answered twice, no number of a
generation comes again, everybody in a generation has heard the same of it, and what is written down
is what the latest stable generation is. What must hold in the end: every question is
answered, and when the consumers behave, all of them end up in one generation, each with what the
leader meant for it.
"""

import msgspec
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test
from msgspec.structs import replace
from tests.broker.brokers import Clock, new_broker
from tests.broker.groups.classic.consumers import Asked, Room

from mainstem.broker.groups.classic.coordinator import GroupDescription
from mainstem.broker.groups.classic.group import Joined, Phase, Protocols, Synced
from mainstem.broker.groups.classic.records import (
    Agreement,
    ClassicGroupChange,
    ClassicGroupFold,
    ClassicGroupKey,
    WrittenGroup,
    WrittenMember,
    agreed,
    written,
)
from mainstem.broker.groups.memory_estimate import texts_bytes
from mainstem.broker.journal import CLASSIC_GROUPS, IDS
from mainstem.core.batch import batches
from mainstem.core.errors import (
    FencedInstance,
    IllegalGeneration,
    MainstemError,
    MemberIdRequired,
    RebalanceInProgress,
    UnknownMember,
)
from mainstem.core.records import events
from mainstem.log.memory import MemoryLog
from mainstem.log.port import PartitionId

KEY = msgspec.json.Decoder(ClassicGroupKey)
VALUE = msgspec.json.Decoder(Agreement | WrittenMember)

WISHES: list[Protocols] = [
    (("range", b"r"), ("sticky", b"s")),
    (("sticky", b"s"), ("range", b"r")),
    (("range", b"other"),),
]
DEEDS = ["go on"] * 12 + ["time"] * 4 + ["come", "come static", "come back", "crash", "leave"]
DEEDS += ["change", "join again", "restart"]


def by_id(group: GroupDescription) -> GroupDescription:
    """Return a group without the order of its members."""
    members = sorted(group.members, key=lambda each: each.member_id)
    return replace(group, members=tuple(members))


def compacted(log: MemoryLog) -> ClassicGroupFold:
    """Return the members that are found if only the last record of each key is left."""
    at = PartitionId(IDS[CLASSIC_GROUPS], 0)
    latest: dict[bytes, bytes | None] = {}
    data = log.read(at, 0, 100_000_000).tobytes() if log.bounds(at).tail else b""
    for event in (each for batch in batches(data) for each in events(batch)):
        latest.pop(event.key or b"", None)
        latest[event.key or b""] = event.value
    fold = ClassicGroupFold()
    for key, value in latest.items():
        decoded = None if value is None else VALUE.decode(value)
        fold.apply(ClassicGroupChange(KEY.decode(key), decoded))
    return fold


class Player:
    """A consumer: what it asked last, and where it thinks it is."""

    def __init__(self, machine: "Machine", instance_id: str | None, wish: int) -> None:
        self.machine = machine
        self.instance_id = instance_id
        self.member_id = ""
        self.wish = wish
        self.joined: Joined | None = None
        self.synced: Synced | None = None
        self.join()

    @property
    def seat(self) -> str:
        """Return what stays the same when a static member comes back."""
        return self.instance_id or self.member_id

    def join(self) -> None:
        self.joined = self.synced = None
        self.asked_to_sync: Asked[Synced] | None = None
        self.asked_to_join: Asked[Joined] | None = self.machine.room.join(
            self.member_id,
            instance_id=self.instance_id,
            protocols=WISHES[self.wish],
            takes_id_first=self.instance_id is None and self.wish != 1,
            skips_assignment=self.wish == 0,
        )
        self.machine.asked.append(self.asked_to_join)

    def go_on(self) -> None:
        """Do the next thing that a consumer does."""
        if self.asked_to_join is not None:
            if self.asked_to_join.is_answered:
                self.hear_of_join(self.asked_to_join.answers[0])
        elif self.asked_to_sync is not None:
            if self.asked_to_sync.is_answered:
                self.hear_of_sync(self.asked_to_sync.answers[0])
        elif self.joined is not None:
            try:
                self.machine.room.heartbeat(self.joined, self.instance_id)
            except MainstemError as error:
                self.hear(error)

    def hear_of_join(self, answer: Joined | MainstemError) -> None:
        self.asked_to_join = None
        if isinstance(answer, MainstemError):
            self.hear(answer)
            return
        self.joined = answer
        self.member_id = answer.member_id
        self.machine.began(self, answer)
        self.sync(answer)

    def sync(self, joined: Joined) -> None:
        assigned = {
            peer.member_id: f"{joined.generation} {peer.instance_id or peer.member_id}".encode()
            for peer in joined.members
            if not joined.skip_assignment
        }
        self.asked_to_sync = self.machine.room.sync(joined, assigned, instance_id=self.instance_id)
        self.machine.asked.append(self.asked_to_sync)

    def reconnect(self) -> None:
        """Ask again what it had no answer to, as connections are gone."""
        if self.asked_to_join is not None:
            self.join()
        elif self.asked_to_sync is not None and self.joined is not None:
            self.sync(self.joined)

    def hear_of_sync(self, answer: Synced | MainstemError) -> None:
        self.asked_to_sync = None
        if isinstance(answer, MainstemError):
            self.hear(answer)
            return
        assert self.joined is not None
        self.synced = answer
        assert answer.assignment == f"{self.joined.generation} {self.seat}".encode()

    def hear(self, error: MainstemError) -> None:
        match error:
            case MemberIdRequired():
                self.member_id = error.member
            case UnknownMember():
                self.member_id = ""
            case FencedInstance():
                self.machine.players.remove(self)
                return
            case RebalanceInProgress() | IllegalGeneration():
                pass
            case _:
                raise error
        self.join()


class Machine(RuleBasedStateMachine):
    """A group, its consumers, and all that can happen to them."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = Clock()
        self.log = MemoryLog()
        self.room = Room(new_broker(self.log, self.clock), self.clock)
        self.players: list[Player] = []
        self.asked: list[Asked[Joined] | Asked[Synced]] = []
        self.generation = 0
        self.leaders: dict[int, str] = {}
        self.protocols: dict[int, str] = {}
        self.seats: dict[int, set[str]] = {}
        self.instances = 0

    def began(self, player: Player, joined: Joined) -> None:
        """Compare what is said of a generation with what others were told."""
        assert joined.generation >= 1
        generation = joined.generation
        assert self.protocols.setdefault(generation, joined.protocol) == joined.protocol
        if joined.members:
            assert joined.leader == joined.member_id
            assert self.leaders.setdefault(generation, player.seat) == player.seat
            seats = {peer.instance_id or peer.member_id for peer in joined.members}
            assert player.seat in seats
            assert self.seats.setdefault(generation, seats) == seats

    @rule(deed=st.sampled_from(DEEDS), who=st.integers(0, 7), amount=st.integers(0, 2))
    def anything(self, deed: str, who: int, amount: int) -> None:
        if deed == "come" and len(self.players) < 6:
            self.players.append(Player(self, None, amount))
        elif deed == "come static" and len(self.players) < 6:
            self.instances += 1
            self.players.append(Player(self, f"instance-{self.instances}", amount))
        elif deed == "time":
            self.pass_time([100, 3_000, 9_999][amount])
        elif deed == "restart" and amount == 0:
            self.restart()
        elif self.players:
            self.act(deed, self.players[who % len(self.players)], amount)

    def act(self, deed: str, player: Player, amount: int) -> None:
        match deed:
            case "go on":
                player.go_on()
            case "come back" if player.instance_id is not None:
                # Its old self may still be there, or not.
                self.players.append(Player(self, player.instance_id, amount))
                if amount:
                    self.players.remove(player)
            case "crash":
                self.players.remove(player)
            case "leave":
                self.room.groups.leave("g", [(player.member_id, player.instance_id)])
                self.players.remove(player)
            case "change":
                player.wish = amount
                player.join()
            case "join again":
                player.join()

    def pass_time(self, ms: int) -> None:
        self.clock.now_ms += ms
        self.room.groups.tick()

    def restart(self) -> None:
        """Let the broker die; nobody gets an answer any more, as connections are gone."""
        before = self.room.groups.describe("g")
        self.room = Room(new_broker(self.log, self.clock), self.clock)
        self.asked.clear()
        if before.phase is Phase.STABLE:
            self.everybody_is_still_there(before)
        for player in self.players:
            player.reconnect()

    def everybody_is_still_there(self, before: GroupDescription) -> None:
        members = {member.member_id for member in before.members}
        for player in self.players:
            joined = player.joined
            is_in_it = joined is not None and joined.generation == before.generation
            if joined is not None and is_in_it and player.member_id in members:
                self.room.heartbeat(joined, player.instance_id)

    @invariant()
    def generations_only_grow(self) -> None:
        now = self.room.groups.generations.of("g").number
        assert now >= self.generation
        self.generation = now

    @invariant()
    def everything_held_is_accounted_for(self) -> None:
        rebalances = self.room.groups._rebalances
        groups = rebalances.groups.values()
        members = [member for group in groups for member in group.members.values()]
        pending = [member for group in groups for member in group.pending]
        assert rebalances.sessions.count == len(members) + len(pending)
        held = sum(member.size_bytes for member in members) + texts_bytes(pending)
        assert rebalances.sessions.held_bytes == held
        for group in groups:
            assert (group.leader in group.members) == bool(group.members)
            assert group.joining.keys() <= group.members.keys()
            assert group.syncing.keys() <= group.members.keys()
            assert not group.joining or group.phase is Phase.PREPARING
            assert not group.syncing or group.phase is Phase.COMPLETING
            assert set(group.static.values()) <= group.members.keys()
            live = self.room.broker._state.groups.is_live(group.name)
            assert live == (group.phase is not Phase.EMPTY)

    @invariant()
    def replay_gives_what_live_gave(self) -> None:
        replayed = new_broker(self.log, self.clock).classic
        assert replayed.generations == self.room.groups.generations
        assert replayed.journal.members == self.room.groups.journal.members
        assert compacted(self.log) == self.room.groups.journal.members

    @invariant()
    def the_latest_stable_generation_is_written_down(self) -> None:
        classic = self.room.groups
        kept = classic.journal.members.groups
        assert kept.keys() <= classic._rebalances.groups.keys()
        for name, group in classic._rebalances.groups.items():
            if group.phase is Phase.STABLE:
                members = group.members.values()
                expected = {each.id: written(each, each.assignment) for each in members}
                assert kept[name] == WrittenGroup(agreed(group), expected)
                again = new_broker(self.log, self.clock).classic.describe(name)
                assert by_id(again) == by_id(classic.describe(name))

    def teardown(self) -> None:
        self.everybody_who_behaves_ends_up_in_one_generation()
        self.every_question_is_answered()

    def everybody_who_behaves_ends_up_in_one_generation(self) -> None:
        for _ in range(100):
            for player in list(self.players):
                player.go_on()
            self.pass_time(3_000)
        if not self.players:
            return
        generations = {
            player.joined.generation if player.joined else None for player in self.players
        }
        assert len(generations) == 1
        assert all(player.synced is not None for player in self.players)
        group = self.room.groups.describe("g")
        assert group.phase is Phase.STABLE
        members = [member.member_id for member in group.members]
        assert sorted(members) == sorted(player.member_id for player in self.players)

    def every_question_is_answered(self) -> None:
        for _ in range(1_000):
            due_ms = self.room.groups.next_deadline()
            if due_ms is None:
                break
            self.clock.now_ms = max(self.clock.now_ms, due_ms)
            self.room.groups.tick()
        assert all(asked.is_answered for asked in self.asked)
        assert self.room.groups.names() == []


def test_consumers_of_classic_groups_agree_in_the_end() -> None:
    run_state_machine_as_test(Machine, settings=settings(max_examples=80, stateful_step_count=40))
