"""Consumer groups (KIP-848): the broker assigns partitions, and members learn of it by heartbeats.

How this works: a member sends heartbeats; the answers carry its epoch and assignment. When a member
joins, leaves or changes its subscription, the group's epoch is incremented. The next heartbeat of
any member triggers the assignment for that epoch (``assignors``). Each member then moves to it at
its own pace (``reconciliation``), but must give up revoked partitions within its rebalance timeout.
A member without heartbeats for the session timeout is removed, and thereby fenced. All state,
members and assignments included, is stored before the response is sent, and survives a restart.

``ConsumerGroups`` is the public interface; ``assignment`` makes the decisions. A group may also
have classic members (``classic_members``), so that it can move from one protocol to the other
member by member, without downtime.
"""

import uuid
from collections.abc import Callable

from msgspec.structs import replace

from mainstem.broker.groups.configs import GroupConfigs
from mainstem.broker.groups.consumer.assignment import Assignments
from mainstem.broker.groups.consumer.classic_members import ClassicMembers, ConsumerProtocol
from mainstem.broker.groups.consumer.description import ConsumerGroupDescription, described
from mainstem.broker.groups.consumer.draft import ConsumerGroupDraft
from mainstem.broker.groups.consumer.heartbeat import (
    Heartbeat,
    HeartbeatResponse,
    check,
    sender,
    updated,
)
from mainstem.broker.groups.consumer.records import (
    LEFT_FOR_A_WHILE,
    NOTHING,
    ConsumerGroupFold,
    Stage,
)
from mainstem.broker.groups.limits import GroupLimits
from mainstem.broker.groups.static_members import known_member
from mainstem.broker.state import State
from mainstem.core.errors import IllegalGeneration, MainstemError, StaleMemberEpoch, UnknownMember
from mainstem.log.port import Batches, Durable

DEFAULTS = GroupLimits()
_AGAIN_MS = 1_000
"""Delay in ms before the next attempt after a failed write."""


class ConsumerGroups:
    """Public interface of consumer groups; thread-safe, except methods that say otherwise."""

    def __init__(
        self,
        state: State,
        configs: GroupConfigs,
        *,
        new_id: Callable[[], str] = lambda: str(uuid.uuid4()),
        limits: GroupLimits = DEFAULTS,
    ) -> None:
        self._state = state
        self._new_id = new_id
        self.assignments = Assignments(state, configs, limits)
        self.classic_members = ClassicMembers(state, self.assignments, new_id)
        """Members that speak the classic protocol."""

    def use_protocol(self, protocol: ConsumerProtocol) -> None:
        """Set the codec for subscriptions of classic members; without it none of them can join."""
        self.classic_members.protocol = protocol

    @property
    def fold(self) -> ConsumerGroupFold:
        """The state of all consumer groups, as the journal stores it."""
        return self.assignments.fold

    # Members

    def heartbeat(self, beat: Heartbeat) -> HeartbeatResponse:
        """Handle a heartbeat; the caller sends the response once its ``durable`` is done."""
        check(beat)
        with self._state.lock:
            heard = self._hear(beat)
        if beat.is_join and self.assignments.before is not None:
            self.assignments.before.answer()
        return heard

    def _hear(self, beat: Heartbeat) -> HeartbeatResponse:
        if not beat.is_join and not self.has_members(beat.group):
            raise UnknownMember(beat.group, beat.member_id)
        draft = self.assignments.draft(beat.group)
        was = sender(draft, beat, self._new_id)
        member = replace(was, profile=updated(was.profile, beat))
        current, durable = self.assignments.settle(draft, was, member, beat.owned)
        self.assignments.hear(beat.group, member.id)
        is_new = beat.is_full or current.owned != was.current.owned
        return HeartbeatResponse(
            member.id,
            current.epoch,
            self.assignments.interval_ms(beat.group),
            current.owned if is_new else None,
            durable,
        )

    def leave(
        self, name: str, member_id: str, instance_id: str | None, *, for_a_while: bool = False
    ) -> Durable:
        """Remove a member.

        ``for_a_while``: a static member keeps its partitions until its session times out, so that
        it may return.
        """
        with self._state.lock:
            group = self.fold.groups.get(name)
            member = None if group is None else known_member(group, member_id, instance_id)
            if group is None or member is None:
                raise UnknownMember(name, member_id)
            if not for_a_while:
                return self.assignments.remove(group, member_id)
            current = replace(
                member.current, epoch=LEFT_FOR_A_WHILE, stage=Stage.STABLE, revoked=NOTHING
            )
            draft = ConsumerGroupDraft(group)
            draft.put(replace(member, current=current))
            return self.assignments.write(draft)

    def tick(self) -> None:
        """Remove members whose session or rebalance timed out, a bounded number per call."""
        with self._state.lock:
            now_ms, deadlines = self.assignments.monotonic_ms(), self.assignments.deadlines
            for timer in deadlines.due(now_ms):
                try:
                    self.assignments.expire(timer)
                except MainstemError:
                    # Try again later, when there may be disk space.
                    deadlines.set(timer, now_ms + _AGAIN_MS)

    def next_deadline(self) -> int | None:
        """Return when ``tick`` is next due, on the monotonic clock; None if never."""
        with self._state.lock:
            return self.assignments.deadlines.next()

    # Cursors; used under the lock

    def check_commit(
        self, name: str, member_id: str, epoch: int, *, transactional: bool = False
    ) -> None:
        """Raise unless a commit comes from a member, and carries the member's current epoch."""
        if transactional and epoch < 0 and not member_id:
            # Older TxnOffsetCommit requests do not name the member.
            return
        member = self.fold.groups[name].members.get(member_id)
        if member is None:
            raise UnknownMember(name, member_id)
        current, is_classic = member.current.epoch, member.profile.classic is not None
        if current != epoch and (transactional or is_classic):
            raise IllegalGeneration(name, epoch, current)
        if current != epoch:
            raise StaleMemberEpoch(name, member_id, epoch, current)

    def is_native_member(self, name: str, member_id: str) -> bool:
        """Tell whether a member uses the consumer protocol, not the classic one."""
        with self._state.lock:
            group = self.fold.groups.get(name)
            member = None if group is None else group.members.get(member_id)
            return member is not None and member.profile.classic is None

    def check_fetch(self, name: str, member_id: str | None, epoch: int) -> None:
        """Raise if an offset fetch has an unknown member id or an outdated member epoch."""
        with self._state.lock:
            is_outsider = member_id is None and epoch < 0
            if not is_outsider and name in self.fold.groups:
                self.check_commit(name, member_id or "", epoch)

    # Administration

    def names(self) -> list[str]:
        """Return the names of consumer groups, also of empty ones that are still remembered."""
        with self._state.lock:
            return sorted(self.fold.groups)

    def describe(self, name: str) -> ConsumerGroupDescription | None:
        """Return the description of a group, None if there is no consumer group of that name."""
        with self._state.lock:
            group = self.fold.groups.get(name)
            return None if group is None else described(group)

    def reads(self, name: str) -> set[str]:
        """Return the topics that any member of the group subscribes to."""
        with self._state.lock:
            group = self.fold.groups.get(name)
            return (
                set() if group is None else set(self.assignments.subscribed_topics.of_group(group))
            )

    # For the rest of the broker; used under the lock

    def __contains__(self, name: str) -> bool:
        return name in self.fold.groups

    def has_members(self, name: str) -> bool:
        """Tell whether there is a consumer group of this name with members."""
        return name in self.fold.groups and bool(self.fold.groups[name].members)

    def members(self, name: str) -> dict[str, tuple[tuple[str, int], ...]]:
        """Return the partitions of each member, by member id."""
        group = self.fold.groups.get(name)
        return {
            member.id: tuple(
                (topic.name, at.number)
                for at in sorted(member.current.owned)
                if (topic := self._state.topics.by_id(at.topic_id)) is not None
            )
            for member in (group.members.values() if group is not None else ())
        }

    def epoch(self, name: str) -> int:
        """Return a group's current epoch."""
        return self.fold.groups[name].epochs.group

    def forget(self, name: str, beside: Batches = ()) -> Durable:
        """Delete an empty group, if it exists; append the batches ``beside`` in the same append."""
        return self.assignments.forget(name, beside)

    def topic_changed(self, name: str) -> None:
        """Update groups after a topic was created, deleted, or got more partitions."""
        regexes = self.assignments.subscribed_topics.topic_changed(name)
        for group in self.fold:
            if name in group.names or not regexes.isdisjoint(group.regexes):
                group.outdated = True
