"""Classic-protocol members in a consumer group, while the group is upgraded or downgraded.

How this works: a classic member is assigned partitions and reconciled like every other member
(``reconciliation``); only the requests differ. It learns of changes by RebalanceInProgress in the
answer to its heartbeat. Its JoinGroup says what it owns, and returns its epoch as the generation;
its SyncGroup returns what it is to own. Each is answered at once: there is no leader, and no member
waits for another.

The metadata and assignments of classic members are bytes of a format that the broker does not
know; the Kafka head supplies the codec (``ConsumerProtocol``).
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Literal, NamedTuple, Protocol

from msgspec.structs import replace

from mainstem.broker.groups.classic.group import ClassicMember, Join, Joined, Sync, Synced
from mainstem.broker.groups.consumer.assignment import Assignments, Timer
from mainstem.broker.groups.consumer.draft import ConsumerGroupDraft
from mainstem.broker.groups.consumer.heartbeat import known
from mainstem.broker.groups.consumer.records import (
    ClassicSide,
    ConsumerGroup,
    ConsumerMember,
    Current,
    Partitions,
    Profile,
    Stage,
)
from mainstem.broker.state import State
from mainstem.broker.topics.catalog import TopicPartition
from mainstem.core.errors import (
    GroupIsLive,
    IllegalGeneration,
    InconsistentProtocol,
    MainstemError,
    MemberIdRequired,
    RebalanceInProgress,
    UnknownMember,
)
from mainstem.log.port import Durable, PartitionId

PROTOCOL_TYPE = "consumer"


class MemberSubscription(NamedTuple):
    """What a member of the classic protocol says when it joins."""

    names: Sequence[str]
    owned: Sequence[TopicPartition]
    rack: str = ""


class ConsumerProtocol(Protocol):
    """The form in which members of the classic protocol speak of topics and partitions."""

    def subscription(self, metadata: bytes) -> MemberSubscription | None:
        """Read what a member says when it joins; None if that cannot be read."""

    def owned(self, assignment: bytes) -> Sequence[TopicPartition]:
        """Read what a member was assigned; nothing if that cannot be read."""

    def assignment(self, places: Iterable[TopicPartition], metadata: bytes) -> bytes:
        """Write what a member is to own, so that one who has joined with that metadata reads it."""


class ClassicMembers:
    """Members of the classic protocol in consumer groups; used under the broker's lock."""

    def __init__(self, state: State, assignments: Assignments, new_id: Callable[[], str]) -> None:
        self._state = state
        self._assignments = assignments
        self._new_id = new_id
        self.protocol: ConsumerProtocol | None = None
        """Set by whoever speaks the protocol; without, nobody is taken in."""

    def join(self, join: Join) -> tuple[Joined, Durable]:
        """Take a member in, or let it come again; to be answered when that is durable."""
        assignments = self._assignments
        assignments.limits.check_join(join, assignments.fold.held_bytes)
        group = assignments.fold.groups[join.group]
        said = self._said(group, join)
        if not join.member_id and join.takes_id_first and join.instance_id is None:
            raise MemberIdRequired(join.group, self._id(join))
        draft = ConsumerGroupDraft(group)
        was = self._sender(draft, join)
        profile = _profile(join, said)
        member = replace(was, profile=profile)
        current, durable = assignments.settle(draft, was, member, self.partitions(said.owned))
        if member.id in group.members:
            # The last of the others may have gone with this, and the group been given back.
            assignments.hear(group.name, member.id)
            assignments.deadlines.clear((group.name, "join", member.id))
            self._await("sync", group, member)
        name = join.protocols[0][0]
        return Joined(current.epoch, PROTOCOL_TYPE, name, "", member.id), durable

    def sync(self, sync: Sync) -> Synced:
        """Tell a member what to own."""
        group, member, classic = self._guest(
            sync.group, sync.member_id, sync.instance_id, sync.generation
        )
        name, metadata = classic.protocols[0]
        for theirs, ours in ((sync.protocol_type, PROTOCOL_TYPE), (sync.protocol, name)):
            if theirs is not None and theirs != ours:
                raise InconsistentProtocol(group.name, theirs, ours)
        if group.epochs.group > member.current.epoch and member.current.stage is not Stage.REVOKING:
            self._await("join", group, member)
            raise RebalanceInProgress(group.name)
        self._assignments.deadlines.clear((group.name, "sync", member.id))
        self._assignments.hear(group.name, member.id)
        assignment = self.assignment(member.current.owned, metadata)
        return Synced(PROTOCOL_TYPE, name, assignment)

    def heartbeat(
        self, name: str, member_id: str, instance_id: str | None, generation: int
    ) -> None:
        """Hear that a member is there; RebalanceInProgress tells it to join again."""
        group, member, _ = self._guest(name, member_id, instance_id, generation)
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
            raise RebalanceInProgress(name)

    def leave(
        self, name: str, leavers: Iterable[tuple[str, str | None]]
    ) -> list[MainstemError | None]:
        """Take classic members out; what is wrong with each, None if it is out."""
        answers: list[MainstemError | None] = []
        for member_id, instance_id in leavers:
            try:
                self._let_go(name, member_id, instance_id)
                answers.append(None)
            except MainstemError as error:
                answers.append(error)
        return answers

    def _let_go(self, name: str, member_id: str, instance_id: str | None) -> None:
        group = self._assignments.fold.groups.get(name)
        if group is None:
            raise UnknownMember(name, member_id)
        if not member_id and instance_id is not None:
            # An administrator names a static member by its instance id alone.
            member_id = group.static.get(instance_id, "")
        self._assignments.remove(group, known(group, member_id, instance_id).id)

    def welcomed(
        self, members: Iterable[ClassicMember], generation: int, protocol: str | None
    ) -> list[ConsumerMember]:
        """Return members of a classic group with what they were assigned there."""
        found: list[ConsumerMember] = []
        taken: set[PartitionId] = set()
        for member in members:
            metadata = member.metadata(protocol) or member.protocols[0][1]
            said = None if self.protocol is None else self.protocol.subscription(metadata)
            if self.protocol is None or said is None:
                # It comes again, and is told then what is wrong with it.
                continue
            owned = self.partitions(self.protocol.owned(member.assignment)) - taken
            taken |= owned
            current = Current(generation, generation, Stage.STABLE, owned)
            found.append(ConsumerMember(member.id, _profile(member, said), owned, current))
        return found

    def sent_home(self, members: Iterable[ConsumerMember]) -> list[ClassicMember]:
        """Return classic members as members of a classic group, with what they own."""
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
            home = ClassicMember(member.id, join)
            home.assignment = self.assignment(member.current.owned, classic.protocols[0][1])
            found.append(home)
        return found

    def partitions(self, places: Iterable[TopicPartition]) -> Partitions:
        """Return the partitions of places that there are."""
        return frozenset(
            PartitionId(topic.id, number)
            for name, number in places
            if (topic := self._state.topics.find(name)) is not None
            and 0 <= number < len(topic.partitions)
        )

    def assignment(self, partitions: Partitions, metadata: bytes) -> bytes:
        """Return what a member is to own as it reads it."""
        places = [
            (topic.name, at.number)
            for at in sorted(partitions)
            if (topic := self._state.topics.by_id(at.topic_id)) is not None
        ]
        return b"" if self.protocol is None else self.protocol.assignment(places, metadata)

    def _said(self, group: ConsumerGroup, join: Join) -> MemberSubscription:
        """Return what a member says, if it can be among those who are there."""
        if self.protocol is None:
            raise GroupIsLive(group.name, "consumers of the other protocol", "joined")
        names = dict(join.protocols)
        sides = (group.members[each].profile.classic for each in group.classic_members)
        said = self.protocol.subscription(join.protocols[0][1]) if join.protocols else None
        if join.protocol_type != PROTOCOL_TYPE or not all(
            any(name in names for name, _ in side.protocols) for side in sides if side is not None
        ):
            said = None
        if said is None:
            offered = f"{join.protocol_type} {[*names]!r:.300}"
            raise InconsistentProtocol(group.name, offered, "a protocol of consumers in common")
        return said

    def _sender(self, draft: ConsumerGroupDraft, join: Join) -> ConsumerMember:
        """Return the member that joins, as it was, or as it begins."""
        group = draft.group
        holder = group.static.get(join.instance_id) if join.instance_id is not None else None
        if holder is None or holder == join.member_id:
            member_id = join.member_id or self._id(join)
            return group.members.get(member_id) or ConsumerMember(member_id, Profile(0))
        if join.member_id:
            known(group, join.member_id, join.instance_id)
        old = group.members[holder]
        draft.remove(holder)
        current = replace(old.current, epoch=0, previous_epoch=0)
        return replace(old, id=self._id(join), current=current)

    def _guest(
        self, name: str, member_id: str, instance_id: str | None, generation: int
    ) -> tuple[ConsumerGroup, ConsumerMember, ClassicSide]:
        group = self._assignments.fold.groups[name]
        member = known(group, member_id, instance_id)
        if member.profile.classic is None:
            raise UnknownMember(name, member_id)
        if generation != member.current.epoch:
            raise IllegalGeneration(name, generation, member.current.epoch)
        return group, member, member.profile.classic

    def _await(
        self, what: Literal["join", "sync"], group: ConsumerGroup, member: ConsumerMember
    ) -> None:
        """Let a member have its rebalance timeout for what it is to do next, once."""
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
