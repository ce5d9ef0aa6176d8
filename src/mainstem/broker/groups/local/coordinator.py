"""Groups of consumers in this process: who is a member, and who owns which partition.

How this works: whenever members or topics come or go, ``assign`` decides the target owner of each
partition. A partition without an owner goes to its target at once. A partition that another member
owns is revoked first: the owner finds it in ``revoked``, finishes its events, commits and releases
it; only then does the target own it. So without crashes no event is read twice, and no two members
read a partition at once. An owner that does not release in time is fenced: it is removed from the
group and can no longer commit.

    free ── target ──▶ owned ── other target ──▶ revoked ── release ──▶ owned by the target
                         ▲                         │
                         └── target again ─────────┘      leave, or too slow: free at once

Every change of ownership increments the generation. Each assigned partition carries the generation
in which it was assigned (``since``): if it has changed, another member may have owned the partition
in between, so the member restarts at the group's cursor. Groups of Kafka's protocols keep their
members elsewhere: they share the cursors, and only ``occupy`` the group's name here.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import msgspec

from mainstem.broker.groups.sticky_assignor import assign
from mainstem.broker.topics.catalog import Topic, Topics
from mainstem.core.errors import Fenced, GroupIsLive, InvalidSetting
from mainstem.core.names import check_group, is_pattern, matches
from mainstem.log.port import PartitionId

Changed = Callable[[], None]

HAND_OVER_MS = 300_000
"""How long a member may take to release a partition; handling an event may take minutes."""
MAX_MEMBERS = 10_000
KIND = "mainstem"
"""What error messages call this kind of group."""


class AssignedPartition(NamedTuple):
    """A partition as assigned to a member; ``since`` is the generation of that assignment."""

    topic: str
    partition: int
    since: int


class Assignment(msgspec.Struct, frozen=True):
    """The partitions that a member reads, and those that it has to give up."""

    generation: int
    owned: tuple[AssignedPartition, ...]
    """The partitions to read; start a newly assigned one at the group's committed offset."""
    revoked: tuple[AssignedPartition, ...]
    """The partitions to stop reading, commit and release."""
    awaited_until_ms: int | None = None
    """The earliest time by which another member must release a partition for this member; None if
    there is none.
    """


class _Member:
    """One member of a group, with what it subscribes to."""

    def __init__(self, member: str, wanted: tuple[str, ...], changed: Changed) -> None:
        self.id = member
        self.wanted = wanted
        self.changed = changed
        self._names = frozenset(each for each in wanted if not is_pattern(each))
        self._patterns = [each for each in wanted if is_pattern(each)]

    def wants(self, topic: Topic) -> bool:
        """Tell whether the member subscribes to a topic; patterns never match internal topics."""
        if topic.name in self._names:
            return True
        return not topic.internal and any(matches(each, topic.name) for each in self._patterns)


class _Group:
    """The members of one group and what they own."""

    def __init__(self) -> None:
        self.generation = 0
        self.members: dict[str, _Member] = {}
        self.topics: dict[str, Topic] = {}
        """All topics that any member subscribes to, by name."""
        self.reads: dict[str, set[str]] = {}
        """The names of the topics that each member subscribes to."""
        self.names: dict[PartitionId, str] = {}
        """The topic name of each partition of the subscribed topics."""
        self.targets: dict[PartitionId, str] = {}
        self.owners: dict[PartitionId, tuple[str, int]] = {}
        """The owner of each partition, and the generation of that assignment."""
        self.revoked: dict[PartitionId, int] = {}
        """Revoked partitions, each with the time by which its owner must release it."""

    def readers(self, topic: Topic) -> list[str]:
        """Return the members that subscribe to a topic."""
        return [member.id for member in self.members.values() if member.wants(topic)]

    def add_topic(self, topic: Topic, readers: Iterable[str]) -> None:
        """Add a topic that is new to some readers, or has more partitions."""
        self.topics[topic.name] = topic
        self.names |= dict.fromkeys(topic.partitions, topic.name)
        for reader in readers:
            self.reads[reader].add(topic.name)

    def drop_topic(self, name: str) -> None:
        """Remove a topic and the owners of its partitions."""
        topic = self.topics.pop(name)
        for names in self.reads.values():
            names.discard(name)
        for partition in topic.partitions:
            self.names.pop(partition, None)
            self.targets.pop(partition, None)
            self.owners.pop(partition, None)
            self.revoked.pop(partition, None)

    def rebalance(self, release_by_ms: int) -> list[Changed]:
        """Compute new targets, and assign or revoke partitions; return the callbacks to call."""
        self.generation += 1
        told: set[str] = set()
        partitions = {name: topic.partitions for name, topic in self.topics.items()}
        reads = {member: frozenset(names) for member, names in self.reads.items()}
        self.targets = assign(partitions, reads, self._current())
        for partition, target in self.targets.items():
            owner = self.owners.get(partition)
            if owner is None:
                self.owners[partition] = (target, self.generation)
                told.add(target)
            elif owner[0] != target:
                self.revoked.setdefault(partition, release_by_ms)
                told |= {owner[0], target}
            elif self.revoked.pop(partition, None) is not None:
                told.add(target)
        return self.callbacks(told)

    def release(self, member: str, partitions: Iterable[AssignedPartition]) -> list[Changed]:
        """Hand a member's released partitions to their new owners; return the callbacks to call."""
        self.generation += 1
        told: set[str] = set()
        for assigned in partitions:
            partition = self.held(member, assigned)
            if partition is not None:
                self.revoked.pop(partition, None)
                self.owners[partition] = (self.targets[partition], self.generation)
                told.add(self.targets[partition])
        return self.callbacks(told)

    def held(self, member: str, assigned: AssignedPartition) -> PartitionId | None:
        """Return a partition's id; None unless the member has owned it since ``assigned.since``."""
        topic = self.topics.get(assigned.topic)
        if topic is None or not 0 <= assigned.partition < len(topic.partitions):
            return None
        partition = topic.partitions[assigned.partition]
        return partition if self.owners.get(partition) == (member, assigned.since) else None

    def remove(self, member: str) -> None:
        """Remove a member, which leaves its partitions without an owner."""
        del self.members[member]
        for name in self.reads.pop(member):
            if not any(name in names for names in self.reads.values()):
                self.drop_topic(name)
        for partition in [at for at, (owner, _) in self.owners.items() if owner == member]:
            del self.owners[partition]
            self.revoked.pop(partition, None)

    def assignment(self, member: str) -> Assignment:
        """Return the partitions that a member owns, and those that it must give up."""
        owned: list[AssignedPartition] = []
        revoked: list[AssignedPartition] = []
        for partition, (owner, since) in self.owners.items():
            if owner == member:
                assigned = AssignedPartition(self.names[partition], partition.number, since)
                (revoked if partition in self.revoked else owned).append(assigned)
        awaited = [until for at, until in self.revoked.items() if self.targets[at] == member]
        return Assignment(
            self.generation,
            tuple(sorted(owned)),
            tuple(sorted(revoked)),
            min(awaited) if awaited else None,
        )

    def late(self, now_ms: int) -> list[str]:
        """Return the members that did not release a partition in time."""
        overdue = {self.owners[at][0] for at, until in self.revoked.items() if until <= now_ms}
        return sorted(overdue)

    def callbacks(self, members: Iterable[str]) -> list[Changed]:
        """Return the ``changed`` callbacks of these members."""
        return [self.members[member].changed for member in members]

    def _current(self) -> dict[PartitionId, str]:
        """Return the present owner or target of each partition, which the assignor should keep."""
        current = {at: owner for at, (owner, _) in self.owners.items()}
        live = {at: target for at, target in self.targets.items() if target in self.members}
        return current | live


class Groups:
    """All groups whose members are in this process; used under the broker's lock.

    Methods that change the assignment return callbacks, to be called without the lock.
    """

    def __init__(self, topics: Topics, hand_over_ms: int = HAND_OVER_MS) -> None:
        self._topics = topics
        self._hand_over_ms = hand_over_ms
        self._groups: dict[str, _Group] = {}
        self._occupied: dict[str, str] = {}
        self._emptied: set[str] = set()
        self._joined = 0

    def live(self) -> set[str]:
        """Return the names of the groups that have members, including Kafka's kinds of groups."""
        return self._groups.keys() | self._occupied.keys()

    def take_emptied(self) -> set[str]:
        """Return the names of groups whose last member has left since the last call."""
        emptied, self._emptied = self._emptied, set()
        return emptied

    def is_live(self, group: str) -> bool:
        """Tell whether a group has members, including Kafka's kinds of groups."""
        return group in self._groups or group in self._occupied

    def owners(self, group: str) -> dict[PartitionId, str]:
        """Return the present owner of each partition of a group."""
        found = self._groups.get(group)
        return {} if found is None else {at: owner for at, (owner, _) in found.owners.items()}

    def members(self, group: str) -> list[str]:
        """Return the members of a group, in the order in which they joined."""
        found = self._groups.get(group)
        return [] if found is None else list(found.members)

    def check_not_live(self, group: str, deed: str) -> None:
        """Raise GroupIsLive if a group has members.

        ``deed`` completes the error's "cannot be ...".
        """
        if group in self._groups:
            raise GroupIsLive(group, f"{len(self._groups[group].members)} members", deed)
        if group in self._occupied:
            raise GroupIsLive(group, f"{self._occupied[group]} consumers", deed)

    def occupy(self, group: str, kind: str) -> None:
        """Reserve a group's name for one of Kafka's kinds; refused while another kind holds it."""
        check_group(group)
        if group in self._groups or self._occupied.get(group, kind) != kind:
            self.check_not_live(group, f"joined by {kind} consumers")
        self._occupied[group] = kind

    def vacate(self, group: str) -> None:
        """Free a group's name that ``occupy`` reserved; the last member has left."""
        if self._occupied.pop(group, None) is not None:
            self._emptied.add(group)

    def join(
        self, group: str, wanted: Sequence[str], changed: Changed, now_ms: int
    ) -> tuple[str, list[Changed]]:
        """Add a member that reads topics, by name or pattern.

        Return its id and callbacks to call.
        """
        check_group(group)
        if not wanted:
            raise InvalidSetting(f"a member of group {group!r} must name at least one topic")
        if group in self._occupied:
            self.check_not_live(group, f"joined by {KIND} consumers")
        found = self._groups.get(group) or _Group()
        if len(found.members) >= MAX_MEMBERS:
            raise InvalidSetting(f"group {group!r} has {MAX_MEMBERS} members, which is the limit")
        self._groups[group] = found
        self._joined += 1
        member = _Member(f"member-{self._joined}", tuple(wanted), changed)
        found.members[member.id] = member
        found.reads[member.id] = set()
        for each in member.wanted:
            internal = not is_pattern(each)
            for topic in self._topics.matching(each, internal=internal):
                found.add_topic(topic, (member.id,))
        return member.id, found.rebalance(now_ms + self._hand_over_ms)

    def leave(self, group: str, member: str, now_ms: int) -> list[Changed]:
        """Remove a member that leaves or is fenced; its partitions go to other members at once."""
        found = self._groups.get(group)
        if found is None or member not in found.members:
            return []
        told = [found.members[member].changed]
        found.remove(member)
        if not found.members:
            del self._groups[group]
            self._emptied.add(group)
            return told
        return told + found.rebalance(now_ms + self._hand_over_ms)

    def release(
        self, group: str, member: str, partitions: Iterable[AssignedPartition]
    ) -> list[Changed]:
        """Release partitions that a member has committed; ignores those it no longer owns."""
        return self._member(group, member).release(member, partitions)

    def assignment(self, group: str, member: str) -> Assignment:
        """Return the member's present assignment."""
        return self._member(group, member).assignment(member)

    def held(
        self, group: str, member: str, partitions: Iterable[AssignedPartition]
    ) -> list[PartitionId]:
        """Return the ids of assigned partitions; raises Fenced if the member has lost one."""
        found = self._member(group, member)
        ids: list[PartitionId] = []
        for assigned in partitions:
            partition = found.held(member, assigned)
            if partition is None:
                raise Fenced(
                    f"{member} of group {group!r} does not own partition {assigned.partition} of "
                    f"topic {assigned.topic!r} any more, so it cannot commit there; "
                    "look at its assignment"
                )
            ids.append(partition)
        return ids

    def topic_changed(self, name: str, now_ms: int) -> list[Changed]:
        """Update groups after a topic was created, deleted, or got more partitions."""
        topic = self._topics.find(name)
        told: list[Changed] = []
        for group in self._groups.values():
            known = group.topics.get(name)
            if known is not None and topic is not None and known.partitions == topic.partitions:
                continue
            owners = group.callbacks({owner for owner, _ in group.owners.values()})
            gone = known is not None and (topic is None or topic.id != known.id)
            if gone:
                group.drop_topic(name)
            readers = group.readers(topic) if topic is not None else []
            if topic is not None and readers:
                group.add_topic(topic, readers)
            if gone or readers:
                # Owners of partitions of the deleted topic must be notified too.
                told += (owners if gone else []) + group.rebalance(now_ms + self._hand_over_ms)
        return told

    def tick(self, now_ms: int) -> list[Changed]:
        """Fence the members that did not release a partition in time."""
        told: list[Changed] = []
        for name, group in list(self._groups.items()):
            if group.revoked:
                for member in group.late(now_ms):
                    told += self.leave(name, member, now_ms)
        return told

    def _member(self, group: str, member: str) -> _Group:
        found = self._groups.get(group)
        if found is None or member not in found.members:
            raise Fenced(
                f"{member} is not a member of group {group!r} any more: it left, or took longer "
                f"than {self._hand_over_ms} ms to release a partition; join again"
            )
        return found
