"""Classic-protocol members in a consumer group, while the group is upgraded or downgraded.

How this works: a classic member is assigned partitions and reconciled like every other member
(``reconciliation``); only the requests differ. It learns of changes by RebalanceInProgress in the
answer to its heartbeat. Its JoinGroup reports the partitions it owns, and returns its epoch as the
generation; its SyncGroup returns its assignment. Both are answered at once: there is no leader, and
no member waits for another.

The metadata and assignments of classic members are bytes of a format that the broker does not
know; the Kafka head supplies the codec (``ConsumerProtocol``).
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Literal, NamedTuple, Protocol

from msgspec.structs import replace

from mainstem.broker.groups.classic.group import ClassicMember, Join, Joined, Sync, Synced
from mainstem.broker.groups.consumer.assignment import Assignments, Timer
from mainstem.broker.groups.consumer.draft import ConsumerGroupDraft
from mainstem.broker.groups.consumer.records import (
    ClassicSide,
    ConsumerGroup,
    ConsumerMember,
    Current,
    Partitions,
    Profile,
    Stage,
)
from mainstem.broker.groups.static_members import known_member
from mainstem.broker.state import State
from mainstem.broker.topics.catalog import TopicPartition
from mainstem.core import errors
from mainstem.log.port import Durable, PartitionId

PROTOCOL_TYPE = "consumer"


class MemberSubscription(NamedTuple):
    """The subscription in a classic member's metadata."""

    names: Sequence[str]
    owned: Sequence[TopicPartition]
    rack: str = ""


class ConsumerProtocol(Protocol):
    """The codec for subscriptions and assignments of classic members."""

    def subscription(self, metadata: bytes) -> MemberSubscription | None:
        """Decode a subscription; None if it is malformed."""

    def owned(self, assignment: bytes) -> Sequence[TopicPartition]:
        """Decode the partitions of an assignment; empty if it is malformed."""

    def assignment(self, places: Iterable[TopicPartition], metadata: bytes) -> bytes:
        """Encode an assignment, in the version of the member's subscription ``metadata``."""


class ClassicMembers:
    """Members of the classic protocol in consumer groups; used under the broker's lock."""

    def __init__(self, state: State, assignments: Assignments, new_id: Callable[[], str]) -> None:
        self._state = state
        self._assignments = assignments
        self._new_id = new_id
        self.protocol: ConsumerProtocol | None = None
        """The codec, set by the Kafka head; without it no classic member can join."""

    def join(self, join: Join) -> tuple[Joined, Durable]:
        """Handle a JoinGroup; send the answer once the member's state is durable."""
        assignments = self._assignments
        assignments.limits.check_join(join, assignments.fold.held_bytes)
        group = assignments.fold.groups[join.group]
        said = self._said(group, join)
        if not join.member_id and join.takes_id_first and join.instance_id is None:
            raise errors.MemberIdRequired(join.group, self._id(join))
        draft = ConsumerGroupDraft(group)
        was = self._sender(draft, join)
        profile = _profile(join, said)
        member = replace(was, profile=profile)
        current, durable = assignments.settle(draft, was, member, self.partitions(said.owned))
        if member.id in group.members:
            # Otherwise the last consumer-protocol member has left, and this is a classic group now.
            assignments.hear(group.name, member.id)
            assignments.deadlines.clear((group.name, "join", member.id))
            self._await("sync", group, member)
        name = join.protocols[0][0]
        return Joined(current.epoch, PROTOCOL_TYPE, name, "", member.id), durable

    def sync(self, sync: Sync) -> Synced:
        """Handle a SyncGroup: return the member's assignment."""
        group, member, classic = self._classic_member(
            sync.group, sync.member_id, sync.instance_id, sync.generation
        )
        name, metadata = classic.protocols[0]
        for theirs, ours in ((sync.protocol_type, PROTOCOL_TYPE), (sync.protocol, name)):
            if theirs is not None and theirs != ours:
                raise errors.InconsistentProtocol(group.name, theirs, ours)
        if group.epochs.group > member.current.epoch and member.current.stage is not Stage.REVOKING:
            self._await("join", group, member)
            raise errors.RebalanceInProgress(group.name)
        self._assignments.deadlines.clear((group.name, "sync", member.id))
        self._assignments.hear(group.name, member.id)
        assignment = self.assignment(member.current.owned, metadata)
        return Synced(PROTOCOL_TYPE, name, assignment)

    def heartbeat(
        self, name: str, member_id: str, instance_id: str | None, generation: int
    ) -> None:
        """Restart a member's session timeout; raises RebalanceInProgress if it must join again."""
        group, member, _ = self._classic_member(name, member_id, instance_id, generation)
        self._assignments.hear(name, member_id)
        current = member.current
        can_have_more = current.stage is Stage.WAITING and any(
            at not in group.owners for at in member.target - current.owned
        )
        if (
            current.epoch < group.epochs.group
            or current.stage is Stage.REVOKING
            or can_have_more
            or self._assignments.is_outdated(group)
        ):
            self._await("join", group, member)
            raise errors.RebalanceInProgress(name)

    def leave(
        self, name: str, leavers: Iterable[tuple[str, str | None]]
    ) -> list[errors.MainstemError | None]:
        """Remove members; return for each one None, or the error if it was refused."""
        answers: list[errors.MainstemError | None] = []
        for member_id, instance_id in leavers:
            try:
                self._let_go(name, member_id, instance_id)
                answers.append(None)
            except errors.MainstemError as error:
                answers.append(error)
        return answers

    def _let_go(self, name: str, member_id: str, instance_id: str | None) -> None:
        group = self._assignments.fold.groups.get(name)
        if group is None:
            raise errors.UnknownMember(name, member_id)
        if not member_id and instance_id is not None:
            # An administrator may name a static member by its instance id alone.
            member_id = group.static.get(instance_id, "")
        self._assignments.remove(group, known_member(group, member_id, instance_id).id)

    def to_consumer_members(
        self, members: Iterable[ClassicMember], generation: int, protocol: str | None
    ) -> list[ConsumerMember]:
        """Convert the members of a classic group, with their assignments."""
        found: list[ConsumerMember] = []
        taken: set[PartitionId] = set()
        for member in members:
            metadata = member.metadata(protocol) or member.protocols[0][1]
            said = None if self.protocol is None else self.protocol.subscription(metadata)
            if self.protocol is None or said is None:
                # Its next request is refused with the reason.
                continue
            owned = self.partitions(self.protocol.owned(member.assignment)) - taken
            taken |= owned
            current = Current(generation, generation, Stage.STABLE, owned)
            found.append(ConsumerMember(member.id, _profile(member, said), owned, current))
        return found

    def to_classic_members(self, members: Iterable[ConsumerMember]) -> list[ClassicMember]:
        """Convert classic members back to members of a classic group, with their assignments."""
        found: list[ClassicMember] = []
        for member in members:
            profile, classic = member.profile, member.profile.classic
            if classic is None:
                continue
            join = Join(
                group="",
                instance_id=profile.instance_id,
                client_id=profile.client_id,
                host=profile.host,
                protocol_type=PROTOCOL_TYPE,
                protocols=classic.protocols,
                session_timeout_ms=classic.session_timeout_ms,
                rebalance_timeout_ms=profile.rebalance_timeout_ms,
            )
            converted = ClassicMember(member.id, join)
            converted.assignment = self.assignment(member.current.owned, classic.protocols[0][1])
            found.append(converted)
        return found

    def partitions(self, places: Iterable[TopicPartition]) -> Partitions:
        """Return the ids of those partitions that exist."""
        return frozenset(
            PartitionId(topic.id, number)
            for name, number in places
            if (topic := self._state.topics.find(name)) is not None
            and 0 <= number < len(topic.partitions)
        )

    def assignment(self, partitions: Partitions, metadata: bytes) -> bytes:
        """Encode partitions as an assignment in the classic protocol's format."""
        places = [
            (topic.name, at.number)
            for at in sorted(partitions)
            if (topic := self._state.topics.by_id(at.topic_id)) is not None
        ]
        return b"" if self.protocol is None else self.protocol.assignment(places, metadata)

    def _said(self, group: ConsumerGroup, join: Join) -> MemberSubscription:
        """Decode a join's subscription; raises if no protocol is common to all members."""
        if self.protocol is None:
            raise errors.GroupIsLive(group.name, "consumers of the other protocol", "joined")
        names = dict(join.protocols)
        sides = (group.members[each].profile.classic for each in group.classic_members)
        said = self.protocol.subscription(join.protocols[0][1]) if join.protocols else None
        if join.protocol_type != PROTOCOL_TYPE or not all(
            any(name in names for name, _ in side.protocols) for side in sides if side is not None
        ):
            said = None
        if said is None:
            offered = f"{join.protocol_type} {[*names]!r:.300}"
            raise errors.InconsistentProtocol(
                group.name, offered, "a protocol of consumers in common"
            )
        return said

    def _sender(self, draft: ConsumerGroupDraft, join: Join) -> ConsumerMember:
        """Return the stored state of the joining member, or a new member."""
        group = draft.group
        holder = group.static.get(join.instance_id) if join.instance_id is not None else None
        if holder is None or holder == join.member_id:
            member_id = join.member_id or self._id(join)
            return group.members.get(member_id) or ConsumerMember(member_id, Profile(0))
        if join.member_id:
            known_member(group, join.member_id, join.instance_id)
        old = group.members[holder]
        draft.remove(holder)
        current = replace(old.current, epoch=0, previous_epoch=0)
        return replace(old, id=self._id(join), current=current)

    def _classic_member(
        self, name: str, member_id: str, instance_id: str | None, generation: int
    ) -> tuple[ConsumerGroup, ConsumerMember, ClassicSide]:
        group = self._assignments.fold.groups[name]
        member = known_member(group, member_id, instance_id)
        if member.profile.classic is None:
            raise errors.UnknownMember(name, member_id)
        if generation != member.current.epoch:
            raise errors.IllegalGeneration(name, generation, member.current.epoch)
        return group, member, member.profile.classic

    def _await(
        self, what: Literal["join", "sync"], group: ConsumerGroup, member: ConsumerMember
    ) -> None:
        """Start the timeout for a member's next JoinGroup or SyncGroup, unless it is running."""
        timer: Timer = (group.name, what, member.id)
        deadlines = self._assignments.deadlines
        if timer not in deadlines:
            due_ms = self._assignments.monotonic_ms() + member.profile.rebalance_timeout_ms
            deadlines.set(timer, due_ms)

    def _id(self, join: Join) -> str:
        return f"{join.instance_id or join.client_id}-{self._new_id()}"


def _profile(source: Join | ClassicMember, said: MemberSubscription) -> Profile:
    return Profile(
        rebalance_timeout_ms=source.rebalance_timeout_ms,
        names=tuple(sorted(set(said.names))),
        instance_id=source.instance_id,
        rack=said.rack,
        client_id=source.client_id,
        host=source.host,
        classic=ClassicSide(source.session_timeout_ms, source.protocols),
    )
