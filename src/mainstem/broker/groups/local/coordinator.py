"""Groups of consumers in this process: who is a member, and who owns which partition.

How this works: members come and go, topics appear and vanish, and each time ``assign`` says who
should own what (the target). A partition without an owner goes to its target at once. One that
has another owner is first taken back in two steps: the owner finds it under ``revoked``, finishes
what it is doing with it, commits and releases it; only then does the target own it. So as long as
nobody crashes, no event is read twice and no partition by two members at once. An owner that does
not release in time is fenced: it is no longer a member, and cannot commit any more.

    free ── target ──▶ owned ── other target ──▶ revoked ── release ──▶ owned by the target
                         ▲                         │
                         └── target again ─────────┘      leave, or too slow: free at once

Every change of who owns what has a number, the generation, and each share says in which one it
was given; a member that sees another number must begin again at the group's cursor. Cursors know
nothing of this: other kinds of groups keep their own membership, and ``occupy`` their names.
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
"""How long a member may take to release a partition; events may take minutes to work on."""
MAX_MEMBERS = 10_000
KIND = "mainstem"
"""What these groups are called beside those of other kinds."""


class AssignedPartition(NamedTuple):
    """A partition as a member owns it; ``since`` differs whenever it was given anew."""

    topic: str
    partition: int
    since: int


class Assignment(msgspec.Struct, frozen=True):
    """What a member may read, what it has to give up, and how long it may wait for more."""

    generation: int
    owned: tuple[AssignedPartition, ...]
    """To be read; a share not seen before begins at the group's cursor."""
    revoked: tuple[AssignedPartition, ...]
    """To be finished, committed and released."""
    awaited_until_ms: int | None = None
    """When to ask again at the latest, if others have yet to release partitions; else None."""


class _Member:
    """One consumer of a group."""

    def __init__(self, member: str, wanted: tuple[str, ...], changed: Changed) -> None:
        self.id = member
        self.wanted = wanted
        self.changed = changed
        self._names = frozenset(each for each in wanted if not is_pattern(each))
        self._patterns = [each for each in wanted if is_pattern(each)]

    def wants(self, topic: Topic) -> bool:
        """Tell whether the member reads the topic; a pattern never means internal ones."""
        if topic.name in self._names:
            return True
        return not topic.internal and any(matches(each, topic.name) for each in self._patterns)


class _Group:
    """The members of one group and what they own."""

    def __init__(self) -> None:
        self.generation = 0
        self.members: dict[str, _Member] = {}
        self.topics: dict[str, Topic] = {}
        """Every topic that some member wants, by name."""
        self.reads: dict[str, set[str]] = {}
        """The names of the topics that each member wants."""
        self.names: dict[PartitionId, str] = {}
        """The topic's name of every partition of these topics."""
        self.targets: dict[PartitionId, str] = {}
        self.owners: dict[PartitionId, tuple[str, int]] = {}
        """Who owns each partition, and since which generation."""
        self.revoked: dict[PartitionId, int] = {}
        """Partitions to be released, and until when."""

    def readers(self, topic: Topic) -> list[str]:
        """Return the members that want a topic."""
        return [member.id for member in self.members.values() if member.wants(topic)]

    def add_topic(self, topic: Topic, readers: Iterable[str]) -> None:
        """Take in a topic that is new to some readers, or has grown."""
        self.topics[topic.name] = topic
        self.names |= dict.fromkeys(topic.partitions, topic.name)
        for reader in readers:
            self.reads[reader].add(topic.name)

    def drop_topic(self, name: str) -> None:
        """Leave a topic out; its partitions have no owner any more."""
        topic = self.topics.pop(name)
        for names in self.reads.values():
            names.discard(name)
        for partition in topic.partitions:
            self.names.pop(partition, None)
            self.targets.pop(partition, None)
            self.owners.pop(partition, None)
            self.revoked.pop(partition, None)

    def rebalance(self, release_by_ms: int) -> list[Changed]:
        """Decide anew who should own what, and begin to bring it about; return whom to tell."""
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

    def release(self, member: str, shares: Iterable[AssignedPartition]) -> list[Changed]:
        """Give shares of a member to those that should have them; return whom to tell."""
        self.generation += 1
        told: set[str] = set()
        for share in shares:
            partition = self.held(member, share)
            if partition is not None:
                self.revoked.pop(partition, None)
                self.owners[partition] = (self.targets[partition], self.generation)
                told.add(self.targets[partition])
        return self.callbacks(told)

    def held(self, member: str, share: AssignedPartition) -> PartitionId | None:
        """Return the partition of a share, if the member still has that very share."""
        topic = self.topics.get(share.topic)
        if topic is None or not 0 <= share.partition < len(topic.partitions):
            return None
        partition = topic.partitions[share.partition]
        return partition if self.owners.get(partition) == (member, share.since) else None

    def remove(self, member: str) -> None:
        """Take a member out; what it owned is free."""
        del self.members[member]
        for name in self.reads.pop(member):
            if not any(name in names for names in self.reads.values()):
                self.drop_topic(name)
        for partition in [at for at, (owner, _) in self.owners.items() if owner == member]:
            del self.owners[partition]
            self.revoked.pop(partition, None)

    def assignment(self, member: str) -> Assignment:
        """Return what a member owns and must give up."""
        owned: list[AssignedPartition] = []
        revoked: list[AssignedPartition] = []
        for partition, (owner, since) in self.owners.items():
            if owner == member:
                share = AssignedPartition(self.names[partition], partition.number, since)
                (revoked if partition in self.revoked else owned).append(share)
        awaited = [until for at, until in self.revoked.items() if self.targets[at] == member]
        return Assignment(
            self.generation,
            tuple(sorted(owned)),
            tuple(sorted(revoked)),
            min(awaited) if awaited else None,
        )

    def late(self, now_ms: int) -> list[str]:
        """Return the members that should have released a partition by now."""
        overdue = {self.owners[at][0] for at, until in self.revoked.items() if until <= now_ms}
        return sorted(overdue)

    def callbacks(self, members: Iterable[str]) -> list[Changed]:
        """Return how to tell members that what they own has changed."""
        return [self.members[member].changed for member in members]

    def _current(self) -> dict[PartitionId, str]:
        """Return who has, or is about to get, each partition: what is worth keeping as it is."""
        current = {at: owner for at, (owner, _) in self.owners.items()}
        live = {at: target for at, target in self.targets.items() if target in self.members}
        return current | live


class Groups:
    """All groups of this process; used under the broker's lock.

    Methods that change who owns what return the callbacks to make without the lock.
    """

    def __init__(self, topics: Topics, hand_over_ms: int = HAND_OVER_MS) -> None:
        self._topics = topics
        self._hand_over_ms = hand_over_ms
        self._groups: dict[str, _Group] = {}
        self._occupied: dict[str, str] = {}
        self._emptied: set[str] = set()
        self._joined = 0

    def live(self) -> set[str]:
        """Return the names of the groups that have members, of whatever kind."""
        return self._groups.keys() | self._occupied.keys()

    def take_emptied(self) -> set[str]:
        """Return the groups whose last member has left since the last call."""
        emptied, self._emptied = self._emptied, set()
        return emptied

    def is_live(self, group: str) -> bool:
        """Tell whether the group has members, of whatever kind."""
        return group in self._groups or group in self._occupied

    def owners(self, group: str) -> dict[PartitionId, str]:
        """Return who owns each partition of a group now."""
        found = self._groups.get(group)
        return {} if found is None else {at: owner for at, (owner, _) in found.owners.items()}

    def members(self, group: str) -> list[str]:
        """Return the members of a group, in the order in which they joined."""
        found = self._groups.get(group)
        return [] if found is None else list(found.members)

    def check_not_live(self, group: str, deed: str) -> None:
        """Refuse what would pull the rug from under the members of a group."""
        if group in self._groups:
            raise GroupIsLive(group, f"{len(self._groups[group].members)} members", deed)
        if group in self._occupied:
            raise GroupIsLive(group, f"{self._occupied[group]} consumers", deed)

    def occupy(self, group: str, kind: str) -> None:
        """Take a group's name for consumers of another kind; refused while others hold it."""
        check_group(group)
        if group in self._groups or self._occupied.get(group, kind) != kind:
            self.check_not_live(group, f"joined by {kind} consumers")
        self._occupied[group] = kind

    def vacate(self, group: str) -> None:
        """Give the name back when the last consumer of the other kind has gone."""
        if self._occupied.pop(group, None) is not None:
            self._emptied.add(group)

    def join(
        self, group: str, wanted: Sequence[str], changed: Changed, now_ms: int
    ) -> tuple[str, list[Changed]]:
        """Add a member that reads topics, by name or pattern; return its id."""
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
        """Take a member out, by its own will or not; what it owned goes to others at once."""
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
        self, group: str, member: str, shares: Iterable[AssignedPartition]
    ) -> list[Changed]:
        """Give up what the member has stopped reading and has committed; what is gone is gone."""
        return self._member(group, member).release(member, shares)

    def assignment(self, group: str, member: str) -> Assignment:
        """Return what the member may read now."""
        return self._member(group, member).assignment(member)

    def held(
        self, group: str, member: str, shares: Iterable[AssignedPartition]
    ) -> list[PartitionId]:
        """Return the partitions of shares; Fenced unless the member still has every one."""
        found = self._member(group, member)
        partitions: list[PartitionId] = []
        for share in shares:
            partition = found.held(member, share)
            if partition is None:
                raise Fenced(
                    f"{member} of group {group!r} does not own partition {share.partition} of "
                    f"topic {share.topic!r} any more, so it cannot commit there; "
                    "look at its assignment"
                )
            partitions.append(partition)
        return partitions

    def topic_changed(self, name: str, now_ms: int) -> list[Changed]:
        """Take note that a topic was created, deleted, or got more partitions."""
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
                # Who owned a partition of the topic that is gone must hear of it too.
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
