"""One group of the classic protocol: its members, its phase, and what they agreed on.

How this works: the members agree in two rounds. First everybody joins and says which protocols it
speaks; the broker waits for all members it knows, begins a new generation, picks the protocol and
a leader, and tells the leader who the members are. Then everybody syncs: the leader brings the
assignment it has made, the others wait for theirs. What is in metadata and assignments is the
members' own affair.

    Empty ── join ──▶ PreparingRebalance ── all have joined, or too late ──▶ CompletingRebalance
      ▲                 │    ▲      ▲                                          │            │
      └─ nobody left ───┘    │      └───────── join, leave, silence ───────────┘     leader syncs
                             └──────────────── join, leave, silence ──── Stable ◀───────────┘

A member with an instance id is static: when its program comes back, it takes the place of the one
before, with its assignment, and the others notice nothing.

This file knows what a group is; ``classic_groups`` knows what happens to it, and when.
"""

from collections.abc import Callable, Mapping
from enum import StrEnum

import msgspec

from mainstem.broker.groups.memory import texts_bytes
from mainstem.core.errors import (
    FencedInstance,
    InconsistentProtocol,
    MainstemError,
    UnknownMember,
)
from mainstem.log.durable import AT_ONCE
from mainstem.log.port import Durable

Protocols = tuple[tuple[str, bytes], ...]
"""Names and metadata of the protocols that a member speaks, the one it likes best first."""


class Join(msgspec.Struct, frozen=True, kw_only=True):
    """A consumer asks to be a member of the next generation."""

    group: str
    member_id: str = ""
    """What the broker called it before; empty at first."""
    instance_id: str | None = None
    client_id: str = ""
    host: str = ""
    protocol_type: str
    protocols: Protocols
    session_timeout_ms: int
    """How long it may be silent."""
    rebalance_timeout_ms: int
    """How long it may take to join again when others come and go."""
    takes_id_first: bool = False
    """It understands that it has to join again with the id it is given."""
    skips_assignment: bool = False
    """It understands that, though it is the leader, there is nothing to assign."""

    @property
    def size_bytes(self) -> int:
        """How much a member that joins so makes the broker hold, about."""
        # It is given an id that begins with one of the others.
        return _said_bytes(self, self.member_id or self.instance_id or self.client_id)


class Peer(msgspec.Struct, frozen=True):
    """A member, as the leader sees it."""

    member_id: str
    instance_id: str | None
    metadata: bytes


class Joined(msgspec.Struct, frozen=True):
    """The answer to ``Join``: the generation that the member belongs to."""

    generation: int
    protocol_type: str
    protocol: str
    leader: str
    member_id: str
    members: tuple[Peer, ...] = ()
    """Everybody, for the leader; nobody for the others."""
    skip_assignment: bool = False


class Sync(msgspec.Struct, frozen=True, kw_only=True):
    """A member asks for its assignment; the leader brings everybody's."""

    group: str
    member_id: str
    generation: int
    instance_id: str | None = None
    protocol_type: str | None = None
    protocol: str | None = None
    assignments: Mapping[str, bytes] = {}


class Synced(msgspec.Struct, frozen=True):
    """The answer to ``Sync``."""

    protocol_type: str
    protocol: str
    assignment: bytes


JoinReply = Callable[[Joined | MainstemError], None]
SyncReply = Callable[[Synced | MainstemError], None]


class Phase(StrEnum):
    """How far the members have got in agreeing with one another."""

    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


PREDECESSORS: Mapping[Phase, frozenset[Phase]] = {
    Phase.EMPTY: frozenset({Phase.PREPARING}),
    Phase.PREPARING: frozenset({Phase.EMPTY, Phase.COMPLETING, Phase.STABLE}),
    Phase.COMPLETING: frozenset({Phase.PREPARING}),
    Phase.STABLE: frozenset({Phase.COMPLETING}),
    Phase.DEAD: frozenset({Phase.EMPTY}),
}
"""From which phases each one may be entered."""


class ClassicMember:
    """One consumer of a group."""

    __slots__ = (
        "assignment",
        "client_id",
        "host",
        "id",
        "instance_id",
        "is_new",
        "protocols",
        "rebalance_timeout_ms",
        "session_timeout_ms",
    )

    def __init__(self, member_id: str, join: Join) -> None:
        self.id = member_id
        self.instance_id = join.instance_id
        self.assignment = b""
        self.is_new = True
        """It has not had an answer yet, so it may not know that it is a member."""
        self.update(join)

    def update(self, join: Join) -> None:
        """Take over what the member says of itself when it joins again."""
        self.client_id = join.client_id
        self.host = join.host
        self.protocols = join.protocols
        self.session_timeout_ms = join.session_timeout_ms
        self.rebalance_timeout_ms = join.rebalance_timeout_ms

    @property
    def size_bytes(self) -> int:
        """How much it makes the broker hold, about."""
        return len(self.assignment) + _said_bytes(self, self.id)

    def metadata(self, protocol: str | None) -> bytes:
        """Return what it says of itself in a protocol."""
        return next((data for name, data in self.protocols if name == protocol), b"")


class ClassicGroup:
    """The members of one group and what they agreed on."""

    def __init__(self, name: str, generation: int, protocol_type: str) -> None:
        self.name = name
        self.generation = generation
        self.protocol_type = protocol_type
        self.protocol: str | None = None
        self.phase = Phase.EMPTY
        self.leader: str | None = None
        self.members: dict[str, ClassicMember] = {}
        self.static: dict[str, str] = {}
        """Member ids by instance id."""
        self.pending: set[str] = set()
        """Ids that were given out, and have not been used to join yet."""
        self.joining: dict[str, JoinReply] = {}
        """Members that have joined the next generation, and wait for it to begin."""
        self.syncing: dict[str, SyncReply] = {}
        """Members that wait for the leader's assignment."""
        self.unsynced: set[str] = set()
        """Members of this generation that have not asked for their assignment yet."""
        self.begun: Durable = AT_ONCE
        """When the number of this generation is durable."""
        self.assigned: Durable = AT_ONCE
        """When the assignments of this generation are durable."""
        self.delay_left_ms: int | None = None
        """While the first members of an empty group wait for more: how long they still may."""
        self.has_newcomers = False
        """Somebody has come during that wait."""
        self._speakers: dict[str, int] = {}
        """How many members speak each protocol."""

    def enter(self, phase: Phase) -> None:
        """Go into another phase."""
        if self.phase not in PREDECESSORS[phase]:
            raise AssertionError(f"group {self.name!r} cannot go from {self.phase} to {phase}")
        self.phase = phase

    def resume(self, protocol: str, leader: str) -> None:
        """Be stable at once, as the members were before a restart of the broker."""
        if self.phase is not Phase.EMPTY:
            raise AssertionError(f"group {self.name!r} is {self.phase}, and cannot be resumed")
        self.phase = Phase.STABLE
        self.protocol = protocol
        if leader in self.members:
            self.leader = leader

    def check_protocols(self, join: Join) -> None:
        """Refuse a member that has no protocol in common with all others."""
        names = [name for name, _ in join.protocols]
        if not self.members:
            fits = bool(join.protocol_type and names)
        else:
            fits = join.protocol_type == self.protocol_type and any(
                self._speakers.get(name) == len(self.members) for name in names
            )
        if not fits:
            common = [name for name, count in self._speakers.items() if count == len(self.members)]
            raise InconsistentProtocol(
                self.name,
                f"{join.protocol_type or 'no type'} {names!r:.300}",
                f"{self.protocol_type} {common!r:.300}" if self.members else "at least one",
            )

    def check_member(self, member_id: str, instance_id: str | None) -> ClassicMember:
        """Return a member, unless it is none, or another one took its place."""
        if instance_id is not None:
            holder = self.static.get(instance_id)
            if holder is not None and holder != member_id:
                raise FencedInstance(self.name, instance_id)
            if holder is None:
                raise UnknownMember(self.name, member_id)
        member = self.members.get(member_id)
        if member is None:
            raise UnknownMember(self.name, member_id)
        return member

    def add(self, member: ClassicMember, protocol_type: str) -> None:
        """Take in a member."""
        if not self.members:
            self.protocol_type = protocol_type
        self.pending.discard(member.id)
        self.members[member.id] = member
        self._count(member, 1)
        if member.instance_id is not None:
            self.static[member.instance_id] = member.id
        if self.leader is None:
            self.leader = member.id

    def update(self, member: ClassicMember, join: Join) -> None:
        """Take over what a member says of itself now."""
        self._count(member, -1)
        member.update(join)
        self._count(member, 1)

    def remove(self, member: ClassicMember) -> None:
        """Take a member out."""
        del self.members[member.id]
        self._count(member, -1)
        self.unsynced.discard(member.id)
        if member.instance_id is not None:
            self.static.pop(member.instance_id, None)
        if self.leader == member.id:
            self.leader = next(iter(self.members), None)

    def replace(self, old: ClassicMember, member: ClassicMember) -> None:
        """Give a static member's place, and its assignment, to the program that came back."""
        was_leader, was_unsynced = self.leader == old.id, old.id in self.unsynced
        self.remove(old)
        member.assignment = old.assignment
        self.add(member, self.protocol_type)
        if was_leader:
            self.leader = member.id
        if was_unsynced:
            self.unsynced.add(member.id)

    def elect(self) -> bool:
        """See to it that the leader is one of those who have joined; False if nobody has."""
        if self.leader not in self.joining:
            self.leader = next((each for each in self.members if each in self.joining), self.leader)
        return self.leader in self.joining

    def vote(self) -> str:
        """Return the protocol that all members speak and most like best."""
        votes: dict[str, int] = {}
        for member in self.members.values():
            best = next(
                name for name, _ in member.protocols if self._speakers[name] == len(self.members)
            )
            votes[best] = votes.get(best, 0) + 1
        return max(votes, key=lambda name: votes[name])

    @property
    def all_joined(self) -> bool:
        """Whether everybody that the broker knows has joined the next generation."""
        return len(self.joining) == len(self.members) and not self.pending

    @property
    def rebalance_timeout_ms(self) -> int:
        """How long the slowest member may take to join again."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def joined(self, member_id: str) -> Joined:
        """Return the current generation as a member of it sees it."""
        peers: tuple[Peer, ...] = ()
        if member_id == self.leader:
            peers = tuple(
                Peer(member.id, member.instance_id, member.metadata(self.protocol))
                for member in self.members.values()
            )
        return Joined(
            self.generation,
            self.protocol_type,
            self.protocol or "",
            self.leader or "",
            member_id,
            peers,
        )

    def synced(self, member: ClassicMember) -> Synced:
        """Return the current assignment of a member."""
        return Synced(self.protocol_type, self.protocol or "", member.assignment)

    def _count(self, member: ClassicMember, by: int) -> None:
        for name in {name for name, _ in member.protocols}:
            count = self._speakers.get(name, 0) + by
            if count:
                self._speakers[name] = count
            else:
                del self._speakers[name]


def _said_bytes(said: Join | ClassicMember, member_id: str) -> int:
    """Return how much it takes to keep what a member says of itself."""
    names = (name for name, _ in said.protocols)
    texts = texts_bytes((member_id, said.instance_id, said.client_id, said.host, *names))
    return texts + sum(len(metadata) for _, metadata in said.protocols)
