"""A draft of changes to a consumer group, all stored in one append."""

from collections import Counter
from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from mainstem.broker.groups.assignors import ASSIGNORS, preferred
from mainstem.broker.groups.consumer.records import (
    NOTHING,
    ConsumerGroup,
    ConsumerGroupChange,
    ConsumerGroupKey,
    ConsumerMember,
    Epochs,
    write_member,
)
from mainstem.broker.groups.consumer.subscribed_topics import SubscribedTopics
from mainstem.log.port import PartitionId


class ConsumerGroupDraft:
    """Pending changes to a group; the group itself stays unchanged."""

    def __init__(self, group: ConsumerGroup) -> None:
        self.group = group
        self.epochs = group.epochs
        self.changed: dict[str, ConsumerMember | None] = {}
        """New and changed members; None for removed ones."""
        self.is_assigned = False
        """Whether the draft holds a new assignment."""
        self._is_written = True
        """Whether the members of the group are stored already."""

    @property
    def is_due(self) -> bool:
        """Whether partitions must be assigned again, because the epoch was incremented."""
        return self.epochs.group > self.epochs.assignment

    @property
    def has_room(self) -> bool:
        """Whether the draft removes a member, whose place and target a new member can take."""
        return None in self.changed.values()

    def member(self, member_id: str) -> ConsumerMember:
        """Return a member with its pending changes."""
        return self.changed.get(member_id) or self.group.members[member_id]

    def members(self) -> dict[str, ConsumerMember]:
        """Return all members with their pending changes, sorted by instance id, then by id."""
        found = {**self.group.members, **self.changed}
        left = [each for each in found.values() if each is not None]
        left.sort(key=lambda each: (each.profile.instance_id or "", each.id))
        return {each.id: each for each in left}

    def put(self, member: ConsumerMember) -> None:
        """Add or change a member."""
        if self._is_written and self.group.members.get(member.id) == member:
            self.changed.pop(member.id, None)
        else:
            self.changed[member.id] = member

    def remove(self, member_id: str) -> None:
        """Remove a member."""
        self.changed[member_id] = None

    def take_in(self, classic_members: Iterable[ConsumerMember]) -> None:
        """Begin a new group with the converted members of a classic group."""
        self._is_written = False
        for each in classic_members:
            self.group.set(each.id, each)
            self.put(each)

    def begin_epoch(self) -> None:
        """Increment the group's epoch, so that partitions are assigned again."""
        self.epochs = replace(self.epochs, group=self.epochs.group + 1)

    def assign(self, subscribed_topics: SubscribedTopics) -> None:
        """Compute each member's target, with the assignor that most members prefer."""
        members = self.members()
        reads = {each.id: subscribed_topics.of(each.profile) for each in members.values()}
        partitions = subscribed_topics.partitions(frozenset().union(*set(reads.values())))
        had = {at: each.id for each in members.values() for at in each.target}
        asked = Counter(each.profile.assignor for each in members.values())
        del asked[""]
        targets: dict[str, set[PartitionId]] = {}
        for at, member_id in ASSIGNORS[preferred(asked)](partitions, reads, had).items():
            targets.setdefault(member_id, set()).add(at)
        for member in members.values():
            target = targets.get(member.id, NOTHING)
            if target != member.target:
                self.put(replace(member, target=frozenset(target)))
        self.epochs = Epochs(self.epochs.group, self.epochs.group)
        self.is_assigned = True

    def changes(self) -> Iterator[ConsumerGroupChange]:
        """Return the records to append; removals first, as others may reuse their instance ids."""
        name = self.group.name
        for each, member in self.changed.items():
            if member is None:
                yield ConsumerGroupChange(ConsumerGroupKey(name, each), None)
        for each, member in self.changed.items():
            if member is not None:
                yield ConsumerGroupChange(ConsumerGroupKey(name, each), write_member(member))
        if self.epochs != self.group.epochs:
            yield ConsumerGroupChange(ConsumerGroupKey(name), self.epochs)
