"""One group of the classic protocol: its members, its phase, and the current generation.

How this works: a rebalance has two rounds. In JoinGroup each member names the protocols it
supports; the broker waits for all known members, begins a new generation, chooses the protocol and
a leader, and sends the leader the list of members. In SyncGroup the leader sends the assignments,
and the others wait for theirs. Metadata and assignments are opaque bytes to the broker.

    Empty ── join ──▶ PreparingRebalance ── all have joined, or too late ──▶ CompletingRebalance
      ▲                 │    ▲      ▲                                          │            │
      └─ nobody left ───┘    │      └───────── join, leave, silence ───────────┘     leader syncs
                             └──────────────── join, leave, silence ──── Stable ◀───────────┘

"Silence" is a session timeout: a member has sent no heartbeat. A member with an instance id is
static: after a restart of its program it gets its old assignment back, without a rebalance.

This module holds the state of a group; ``rebalance`` decides the transitions.
"""

from collections.abc import Callable, Mapping
from enum import StrEnum

import msgspec

from mainstem.broker.groups.memory_estimate import texts_bytes
from mainstem.broker.groups.static_members import known_member
from mainstem.core.errors import InconsistentProtocol, MainstemError
from mainstem.log.commit.durable import AT_ONCE
from mainstem.log.port import Durable

Protocols = tuple[tuple[str, bytes], ...]
"""Names and metadata of the protocols that a member supports, in order of preference."""


class Join(msgspec.Struct, frozen=True, kw_only=True):
    """A JoinGroup request: a consumer asks to be a member of the next generation."""

    group: str
    member_id: str = ""
    """The id that the broker assigned to the member; empty in its first join."""
    instance_id: str | None = None
    client_id: str = ""
    host: str = ""
    protocol_type: str
    protocols: Protocols
    session_timeout_ms: int
    """Session timeout: the longest time between heartbeats."""
    rebalance_timeout_ms: int
    """The longest time to join again in a rebalance."""
    takes_id_first: bool = False
    """Whether the client handles MEMBER_ID_REQUIRED, by joining again with the id in the
    response.
    """
    skips_assignment: bool = False
    """Whether the client handles SkipAssignment: it is the leader, but must not compute
    assignments.
    """

    @property
    def size_bytes(self) -> int:
        """Estimated memory in bytes that the broker needs for this member."""
        # A generated id begins with the instance id or client id.
        return _said_bytes(self, self.member_id or self.instance_id or self.client_id)


class Peer(msgspec.Struct, frozen=True):
    """A member, in the list of members that the leader gets."""

    member_id: str
    instance_id: str | None
    metadata: bytes


class Joined(msgspec.Struct, frozen=True):
    """The answer to ``Join``: the generation, its protocol, and for the leader the member list."""

    generation: int
    protocol_type: str
    protocol: str
    leader: str
    member_id: str
    members: tuple[Peer, ...] = ()
    """All members, for the leader; empty for the others."""
    skip_assignment: bool = False


class Sync(msgspec.Struct, frozen=True, kw_only=True):
    """A SyncGroup request: a member asks for its assignment; the leader sends all of them."""

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
    """The state of a group in Kafka's rebalance protocol."""

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
"""The phases from which each phase may be entered."""


class ClassicMember:
    """A member of a classic group: its timeouts, protocols and assignment."""

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
        """Whether the first join is still unanswered: the member may not know its id yet."""
        self.update(join)

    def update(self, join: Join) -> None:
        """Update timeouts and protocols from a new join."""
        self.client_id = join.client_id
        self.host = join.host
        self.protocols = join.protocols
        self.session_timeout_ms = join.session_timeout_ms
        self.rebalance_timeout_ms = join.rebalance_timeout_ms

    @property
    def size_bytes(self) -> int:
        """Estimated memory in bytes that the broker needs for this member."""
        return len(self.assignment) + _said_bytes(self, self.id)

    def metadata(self, protocol: str | None) -> bytes:
        """Return the member's metadata for a protocol."""
        return next((data for name, data in self.protocols if name == protocol), b"")


class ClassicGroup:
    """The members of one group, and its current generation."""

    def __init__(self, name: str, generation: int, protocol_type: str) -> None:
        self.name = name
        self.generation = generation
        self.protocol_type = protocol_type
        self.protocol: str | None = None
        self.phase = Phase.EMPTY
        self.leader: str | None = None
        self.members: dict[str, ClassicMember] = {}
        self.static: dict[str, str] = {}
        """Ids of static members by instance id."""
        self.pending: set[str] = set()
        """Ids assigned to consumers (MEMBER_ID_REQUIRED) that have not joined with them yet."""
        self.joining: dict[str, JoinReply] = {}
        """Members that have joined the next generation, and wait for the answer."""
        self.syncing: dict[str, SyncReply] = {}
        """Members that wait for the leader's assignment."""
        self.unsynced: set[str] = set()
        """Members of this generation that have not sent SyncGroup yet."""
        self.begun: Durable = AT_ONCE
        """Tells when the number of this generation is durable."""
        self.assigned: Durable = AT_ONCE
        """Tells when the assignments of this generation are durable."""
        self.delay_left_ms: int | None = None
        """By how many ms the initial rebalance delay may still be extended.

        None without a delay.
        """
        self.has_newcomers = False
        """Whether a member joined during the last initial rebalance delay."""
        self._speakers: dict[str, int] = {}
        """The number of members that support each protocol."""

    def enter(self, phase: Phase) -> None:
        """Change the phase; only the transitions in PREDECESSORS are allowed."""
        if self.phase not in PREDECESSORS[phase]:
            raise AssertionError(f"group {self.name!r} cannot go from {self.phase} to {phase}")
        self.phase = phase

    def resume(self, protocol: str, leader: str) -> None:
        """Restore a stable generation from the journal, after a restart of the broker."""
        if self.phase is not Phase.EMPTY:
            raise AssertionError(f"group {self.name!r} is {self.phase}, and cannot be resumed")
        self.phase = Phase.STABLE
        self.protocol = protocol
        if leader in self.members:
            self.leader = leader

    def check_protocols(self, join: Join) -> None:
        """Raise InconsistentProtocol unless all members support one of the join's protocols."""
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
        """Return a member; raises UnknownMember, or FencedInstance (see ``known_member``)."""
        return known_member(self, member_id, instance_id)

    def add(self, member: ClassicMember, protocol_type: str) -> None:
        """Add a member."""
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
        """Update a member from a new join."""
        self._count(member, -1)
        member.update(join)
        self._count(member, 1)

    def remove(self, member: ClassicMember) -> None:
        """Remove a member."""
        del self.members[member.id]
        self._count(member, -1)
        self.unsynced.discard(member.id)
        if member.instance_id is not None:
            self.static.pop(member.instance_id, None)
        if self.leader == member.id:
            self.leader = next(iter(self.members), None)

    def replace(self, old: ClassicMember, member: ClassicMember) -> None:
        """Give a static member that rejoined its new member id; it keeps its assignment."""
        was_leader, was_unsynced = self.leader == old.id, old.id in self.unsynced
        self.remove(old)
        member.assignment = old.assignment
        self.add(member, self.protocol_type)
        if was_leader:
            self.leader = member.id
        if was_unsynced:
            self.unsynced.add(member.id)

    def elect(self) -> bool:
        """Choose the leader: the present one if it has joined again, else another member.

        Return False if no member has joined.
        """
        if self.leader not in self.joining:
            self.leader = next((each for each in self.members if each in self.joining), self.leader)
        return self.leader in self.joining

    def vote(self) -> str:
        """Return the protocol that most members prefer, of those that all members support."""
        votes: dict[str, int] = {}
        for member in self.members.values():
            best = next(
                name for name, _ in member.protocols if self._speakers[name] == len(self.members)
            )
            votes[best] = votes.get(best, 0) + 1
        return max(votes, key=lambda name: votes[name])

    @property
    def all_joined(self) -> bool:
        """Whether all known members have joined the next generation."""
        return len(self.joining) == len(self.members) and not self.pending

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest rebalance timeout of all members."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def joined(self, member_id: str) -> Joined:
        """Return the answer to a member's JoinGroup."""
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
        """Return the answer to a member's SyncGroup."""
        return Synced(self.protocol_type, self.protocol or "", member.assignment)

    def _count(self, member: ClassicMember, by: int) -> None:
        for name in {name for name, _ in member.protocols}:
            count = self._speakers.get(name, 0) + by
            if count:
                self._speakers[name] = count
            else:
                del self._speakers[name]


def _said_bytes(said: Join | ClassicMember, member_id: str) -> int:
    """Return the estimated memory for a member's ids, names and metadata."""
    names = (name for name, _ in said.protocols)
    texts = texts_bytes((member_id, said.instance_id, said.client_id, said.host, *names))
    return texts + sum(len(metadata) for _, metadata in said.protocols)
