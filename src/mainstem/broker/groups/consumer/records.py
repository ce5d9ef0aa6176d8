"""Stored state of consumer groups: replayed from ``__mainstem_consumer_groups``.

There are two kinds of records: the epochs of a group, and one record per member. Neither refers to
the other, so compaction may leave them in any order. Derived state (owners of partitions, holders
of instance ids, subscribers of topics) follows from these records alone.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import NamedTuple

import msgspec

from mainstem.broker.groups.memory_estimate import texts_bytes
from mainstem.log.port import PartitionId

Owned = dict[str, list[int]]
"""Partitions in stored form: partition numbers by topic id."""
Partitions = frozenset[PartitionId]
NOTHING: Partitions = frozenset()
LEFT_FOR_A_WHILE = -2
"""The epoch of a static member that left temporarily."""


class ConsumerGroupKey(msgspec.Struct, frozen=True, array_like=True, tag="consumer-group"):
    """The record's key: group and member id; the id is empty in the record of the group itself."""

    group: str
    member: str = ""


class ConsumerPhase(StrEnum):
    """The state of a consumer group, by Kafka's names."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"


class Epochs(msgspec.Struct, frozen=True, tag_field="kind", tag="epochs/1"):
    """The group's epoch, which grows with every change, and the epoch of the last assignment."""

    group: int = 0
    assignment: int = 0


class ClassicSide(msgspec.Struct, frozen=True):
    """The part of a profile that only classic members have."""

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]
    """Names and metadata of the supported protocols, in order of preference."""


class Profile(msgspec.Struct, frozen=True, omit_defaults=True):
    """A member's subscription, timeouts and client, as it reported them."""

    rebalance_timeout_ms: int
    names: tuple[str, ...] = ()
    regex: str = ""
    assignor: str = ""
    instance_id: str | None = None
    rack: str = ""
    client_id: str = ""
    host: str = ""
    classic: ClassicSide | None = None
    """Only set for members that use the classic protocol."""

    @property
    def subscription(self) -> tuple[tuple[str, ...], str, str, str | None]:
        """The fields that the assignment depends on; a change of them triggers a new one."""
        return self.names, self.regex, self.assignor, self.instance_id

    @property
    def size_bytes(self) -> int:
        """Estimated memory in bytes that the broker needs for this profile."""
        protocols = self.classic.protocols if self.classic is not None else ()
        ids = (self.instance_id, self.rack, self.client_id, self.host)
        texts = (*self.names, self.regex, self.assignor, *ids, *(name for name, _ in protocols))
        return texts_bytes(texts) + sum(len(data) for _, data in protocols)


class Stage(StrEnum):
    """A member's state in the reconciliation."""

    STABLE = "stable"
    REVOKING = "revoking"
    """The member must give up partitions before it gets others."""
    WAITING = "waiting"
    """Other members have not yet given up partitions of its target."""


class Current(msgspec.Struct, frozen=True):
    """The partitions that a member owns in its epoch, and those it has yet to give up."""

    epoch: int = 0
    previous_epoch: int = 0
    stage: Stage = Stage.STABLE
    owned: Partitions = NOTHING
    revoked: Partitions = NOTHING


class ConsumerMember(msgspec.Struct, frozen=True):
    """One member of a group: its profile, its target, and its current partitions."""

    id: str
    profile: Profile
    target: Partitions = NOTHING
    current: Current = Current()

    @property
    def size_bytes(self) -> int:
        """Estimated memory in bytes that the broker needs for this member, without partitions."""
        return texts_bytes((self.id,)) + self.profile.size_bytes


class WrittenMember(msgspec.Struct, frozen=True, tag_field="kind", tag="member/1"):
    """The record's value for a member."""

    profile: Profile
    epoch: int
    previous_epoch: int
    stage: Stage
    target: Owned
    owned: Owned
    revoked: Owned


Value = Epochs | WrittenMember


class ConsumerGroupChange(NamedTuple):
    """One record of the internal topic: a key, and its new value (None: deleted)."""

    key: ConsumerGroupKey
    value: Value | None


class ConsumerGroup:
    """One group, with state derived from its records."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.epochs = Epochs()
        self.members: dict[str, ConsumerMember] = {}
        self.owners: dict[PartitionId, str] = {}
        """The member that owns each partition, or has yet to give it up."""
        self.static: dict[str, str] = {}
        """Ids of static members by instance id."""
        self.names: Counter[str] = Counter()
        """The number of members that subscribe to each topic by name."""
        self.regexes: Counter[str] = Counter()
        self.assignors: Counter[str] = Counter()
        self.classic_members: set[str] = set()
        """Ids of members that use the classic protocol."""
        self.outdated = False
        """Whether topics have been created, deleted or extended since the last assignment."""
        self.assigned_ms: int | None = None
        """The monotonic time of the last assignment; None if before the broker's start."""

    def state(self) -> tuple[object, ...]:
        """Return all state that is derived from the records, by which two groups are compared."""
        return (
            self.epochs,
            self.members,
            self.owners,
            self.static,
            self.names,
            self.regexes,
            self.assignors,
            self.classic_members,
        )

    def set(self, member_id: str, member: ConsumerMember | None) -> None:
        """Set a member; None removes it."""
        was = self.members.pop(member_id, None)
        self.classic_members.discard(member_id)
        if was is not None:
            self._count(was.profile, -1)
            for partition in (*was.current.owned, *was.current.revoked):
                if self.owners.get(partition) == member_id:
                    del self.owners[partition]
            if self.static.get(was.profile.instance_id or "") == member_id:
                del self.static[was.profile.instance_id or ""]
        if member is not None:
            self.members[member_id] = member
            if member.profile.classic is not None:
                self.classic_members.add(member_id)
            self._count(member.profile, 1)
            held = (*member.current.owned, *member.current.revoked)
            self.owners |= dict.fromkeys(held, member_id)
            if member.profile.instance_id is not None:
                self.static[member.profile.instance_id] = member_id

    def _count(self, profile: Profile, by: int) -> None:
        for counter, wanted in (
            (self.names, profile.names),
            (self.regexes, (profile.regex,) if profile.regex else ()),
            (self.assignors, (profile.assignor,) if profile.assignor else ()),
        ):
            for wish in wanted:
                counter[wish] += by
                if not counter[wish]:
                    del counter[wish]


class ConsumerGroupFold:
    """All consumer groups."""

    def __init__(self) -> None:
        self.groups: dict[str, ConsumerGroup] = {}
        self.members = 0
        """The number of members in all groups."""
        self.held_bytes = 0
        """Estimated memory for the profiles and ids of all members."""

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ConsumerGroupFold):
            return NotImplemented
        mine = {name: group.state() for name, group in self.groups.items()}
        theirs = {name: group.state() for name, group in other.groups.items()}
        return (mine, self.members, self.held_bytes) == (theirs, other.members, other.held_bytes)

    __hash__ = None  # type: ignore[assignment]

    def __iter__(self) -> Iterator[ConsumerGroup]:
        return iter(self.groups.values())

    def apply(self, change: ConsumerGroupChange) -> None:
        """Apply one change, new or replayed at start; nothing else modifies this state."""
        (name, member_id), value = (change.key.group, change.key.member), change.value
        if not member_id and value is None:
            self.groups.pop(name, None)
        elif value is not None:
            group = self.groups.setdefault(name, ConsumerGroup(name))
            if isinstance(value, Epochs):
                group.epochs = value
            else:
                self._set(group, member_id, read_member(member_id, value))
        elif name in self.groups:
            self._set(self.groups[name], member_id, None)

    def _set(self, group: ConsumerGroup, member_id: str, member: ConsumerMember | None) -> None:
        for each, by in ((group.members.get(member_id), -1), (member, 1)):
            if each is not None:
                self.members += by
                self.held_bytes += by * each.size_bytes
        group.set(member_id, member)


def written(partitions: Iterable[PartitionId]) -> Owned:
    """Return partitions in stored form."""
    found: Owned = {}
    for topic_id, number in sorted(partitions):
        found.setdefault(topic_id, []).append(number)
    return found


def partitions_of(topics: Iterable[tuple[str, Iterable[int]]]) -> Partitions:
    """Return partition ids from topic ids and partition numbers."""
    return frozenset(
        PartitionId(topic_id, number) for topic_id, numbers in topics for number in numbers
    )


def write_member(member: ConsumerMember) -> WrittenMember:
    """Return the record of a member."""
    current = member.current
    return WrittenMember(
        member.profile,
        current.epoch,
        current.previous_epoch,
        current.stage,
        written(member.target),
        written(current.owned),
        written(current.revoked),
    )


def read_member(member_id: str, value: WrittenMember) -> ConsumerMember:
    """Return the member of a record."""
    current = Current(
        value.epoch,
        value.previous_epoch,
        value.stage,
        partitions_of(value.owned.items()),
        partitions_of(value.revoked.items()),
    )
    return ConsumerMember(member_id, value.profile, partitions_of(value.target.items()), current)
