"""Groups whose members the broker assigns itself: each shows itself, and hears what to read.

How this works: a member sends heartbeats, and all that happens to it is in the answers. Whoever
comes, goes or wants something else gives the group another epoch; with the next heartbeat of
anybody partitions are assigned for that epoch (``assignors``), and each member comes there at its
own pace (``reconciliation``), a member that is told to give up partitions within its rebalance
timeout. One that is silent for the group's session timeout is taken out, and fenced by that: its
epoch is no longer known. Everything is written down before it is answered, members and what they
own included, so that after a restart they go on as if nothing had happened.

``ConsumerGroups`` is the door; what becomes of groups is decided in ``assignment``. Members of the
classic protocol can be among the others (``classic_members``), so that a group moves from one
protocol to the other member by member, without a pause.
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
    known,
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
from mainstem.broker.journal import Written
from mainstem.broker.state import State
from mainstem.core.errors import (
    IllegalGeneration,
    MainstemError,
    StaleMemberEpoch,
    UnknownMember,
)
from mainstem.log.port import Durable

DEFAULTS = GroupLimits()
_AGAIN_MS = 1_000
"""When to try again what could not be written down."""


class ConsumerGroups:
    """The door to consumer groups; synchronous and thread-safe unless it says otherwise."""

    def __init__(
        self,
        state: State,
        configs: GroupConfigs,
        now_ms: Callable[[], int],
        *,
        monotonic_ms: Callable[[], int] | None = None,
        new_id: Callable[[], str] = lambda: str(uuid.uuid4()),
        limits: GroupLimits = DEFAULTS,
    ) -> None:
        self._state = state
        self._new_id = new_id
        self.assignments = Assignments(state, configs, now_ms, monotonic_ms or now_ms, limits)
        self.classic_members = ClassicMembers(state, self.assignments, new_id)
        """Members that speak the classic protocol."""

    def use_protocol(self, protocol: ConsumerProtocol) -> None:
        """Read and write with it what classic members say; without one none joins such a group."""
        self.classic_members.protocol = protocol

    @property
    def fold(self) -> ConsumerGroupFold:
        """All groups as they are written down."""
        return self.assignments.fold

    # Members

    def heartbeat(self, beat: Heartbeat) -> HeartbeatResponse:
        """Hear a member, and tell it what to own; answer it when that is durable."""
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
        """Let a member go; one that is static may keep its place for its session."""
        with self._state.lock:
            group = self.fold.groups.get(name)
            member = None if group is None else known(group, member_id, instance_id)
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
        """Do what is due by now, in turns: members that are silent or late are taken out."""
        with self._state.lock:
            now_ms, deadlines = self.assignments.monotonic_ms(), self.assignments.deadlines
            for timer in deadlines.due(now_ms):
                try:
                    self.assignments.expire(timer)
                except MainstemError:
                    # There will be space when it is tried again.
                    deadlines.set(timer, now_ms + _AGAIN_MS)

    def next_deadline(self) -> int | None:
        """Return when ``tick`` should be called, on the monotonic clock; None if never."""
        with self._state.lock:
            return self.assignments.deadlines.next()

    # Cursors; used under the lock

    def check_commit(
        self, name: str, member_id: str, epoch: int, *, transactional: bool = False
    ) -> None:
        """Refuse a commit in a group that has members from whoever is not one in that epoch."""
        if transactional and epoch < 0 and not member_id:
            # Older transactional producers cannot say which member they commit for.
            return
        member = self.fold.groups[name].members.get(member_id)
        if member is None:
            raise UnknownMember(name, member_id)
        current, is_guest = member.current.epoch, member.profile.classic is not None
        if current != epoch and (transactional or is_guest):
            raise IllegalGeneration(name, epoch, current)
        if current != epoch:
            raise StaleMemberEpoch(name, member_id, epoch, current)

    def is_native_member(self, name: str, member_id: str) -> bool:
        """Tell whether somebody is a member, and no classic member."""
        with self._state.lock:
            group = self.fold.groups.get(name)
            member = None if group is None else group.members.get(member_id)
            return member is not None and member.profile.classic is None

    def check_fetch(self, name: str, member_id: str | None, epoch: int) -> None:
        """Refuse to tell cursors to somebody who says it is a member, and is not any more."""
        with self._state.lock:
            is_outsider = member_id is None and epoch < 0
            if not is_outsider and name in self.fold.groups:
                self.check_commit(name, member_id or "", epoch)

    # Administration

    def names(self) -> list[str]:
        """Return every group that has members, or was left by the last one."""
        with self._state.lock:
            return sorted(self.fold.groups)

    def describe(self, name: str) -> ConsumerGroupDescription | None:
        """Return a group, None if there is none of this kind."""
        with self._state.lock:
            group = self.fold.groups.get(name)
            return None if group is None else described(group)

    def reads(self, name: str) -> set[str]:
        """Return the topics that members of a group read."""
        with self._state.lock:
            group = self.fold.groups.get(name)
            return (
                set() if group is None else set(self.assignments.subscribed_topics.of_group(group))
            )

    # For the rest of the broker; used under the lock

    def __contains__(self, name: str) -> bool:
        return name in self.fold.groups

    def has_members(self, name: str) -> bool:
        """Tell whether a group has members of this kind."""
        return name in self.fold.groups and bool(self.fold.groups[name].members)

    def members(self, name: str) -> dict[str, tuple[tuple[str, int], ...]]:
        """Return the ids of a group's members, and what each owns."""
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
        """Return the epoch that a group has got to."""
        return self.fold.groups[name].epochs.group

    def forget(self, name: str, beside: Written = ()) -> Durable:
        """Forget a group that has no members, if there is one, and what is written beside it."""
        return self.assignments.forget(name, beside)

    def topic_changed(self, name: str) -> None:
        """Take note that a topic was created, deleted, or got more partitions."""
        regexes = self.assignments.subscribed_topics.topic_changed(name)
        for group in self.fold:
            if name in group.names or not regexes.isdisjoint(group.regexes):
                group.outdated = True
