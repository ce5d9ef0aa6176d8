"""Rebalances of classic groups: joins, syncs, heartbeats, leaving and timeouts.

How this works: ``group`` defines the phases; this module moves a group from one to the next. All
decisions are made under the broker's lock, without waiting. An answer that depends on other members
or on the disk is given through ``reply``: once, from any thread, without the lock. Deadlines:

    session   a member sent no heartbeat, or an id that was given out was never used
    join      members that have not joined the next generation are left out
    sync      members that have not sent SyncGroup are removed
    forget    a group that has been empty for a while, and has no cursors, is deleted

``ClassicGroups`` uses ``Rebalances`` under the lock; ``MemberSessions`` collects the callbacks to
call without it.
"""

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import TypeVar

import msgspec

from mainstem.broker.deadlines import Alarm
from mainstem.broker.groups.classic.group import (
    PREDECESSORS,
    ClassicGroup,
    ClassicMember,
    Join,
    Joined,
    JoinReply,
    Phase,
    Sync,
    Synced,
    SyncReply,
)
from mainstem.broker.groups.classic.journal import ClassicJournal
from mainstem.broker.groups.classic.members import MemberSessions, Timer
from mainstem.broker.groups.classic.records import WrittenGroup, agreed, read_members, written
from mainstem.broker.groups.limits import GroupLimits
from mainstem.core.errors import (
    GroupFull,
    IllegalGeneration,
    InconsistentProtocol,
    MainstemError,
    MemberIdRequired,
    RebalanceInProgress,
    UnknownMember,
)
from mainstem.core.names import check_group
from mainstem.log.port import Durable

Leaver = tuple[str, str | None]
"""A leaving member: member id (may be empty for a static member) and instance id."""
Answer = TypeVar("Answer", Joined, Synced)


class Rebalances:
    """All classic groups that have members; used under the broker's lock."""

    def __init__(
        self,
        journal: ClassicJournal,
        occupy: Callable[[str], None],
        vacate: Callable[[str], None],
        new_id: Callable[[], str],
        limits: GroupLimits,
        alarm: Alarm,
    ) -> None:
        self.groups: dict[str, ClassicGroup] = {}
        self.sessions = MemberSessions(alarm)
        self._journal = journal
        self._generations = journal.generations
        self._occupy, self._vacate = occupy, vacate
        self._new_id = new_id
        self._limits = limits

    # Requests of members

    def join(self, join: Join, reply: JoinReply) -> None:
        """Add a member to the next generation; ``reply`` is called when that generation begins."""
        check_group(join.group)
        self._limits.check_join(join, self.sessions.held_bytes)
        group = self.groups.get(join.group)
        if group is None:
            if join.member_id:
                raise UnknownMember(join.group, join.member_id)
            latest = self._generations.of(join.group)
            group = ClassicGroup(join.group, latest.number, latest.protocol_type)
        if self._limits.is_full(group, join.member_id):
            self._turn_away(group, join.member_id)
        group.check_protocols(join)
        if not join.member_id:
            self._limits.check_newcomer(group, self.sessions.count)
            self._join_newcomer(group, join, reply)
        elif join.member_id in group.pending and join.instance_id is None:
            self._add(group, ClassicMember(join.member_id, join), join, reply)
        else:
            member = group.check_member(join.member_id, join.instance_id)
            self._join_again(group, member, join, reply)

    def sync(self, sync: Sync, reply: SyncReply) -> None:
        """Answer a member with its assignment, once the leader has sent all assignments."""
        group, member = self.member(sync.group, sync.member_id, sync.instance_id, sync.generation)
        for theirs, ours in (
            (sync.protocol_type, group.protocol_type),
            (sync.protocol, group.protocol),
        ):
            if theirs is not None and ours is not None and theirs != ours:
                raise InconsistentProtocol(group.name, theirs, ours)
        if group.phase is Phase.PREPARING:
            raise RebalanceInProgress(group.name)
        is_leader = group.phase is Phase.COMPLETING and group.leader == member.id
        if is_leader:
            self._limits.check_assignments(group, sync, self.sessions.held_bytes)
            self._write_down(group, sync.assignments)
        group.unsynced.discard(member.id)
        if not group.unsynced:
            self.sessions.deadlines.clear((group.name, "sync", ""))
        if group.phase is Phase.STABLE:
            self.sessions.heartbeat(group, member)
            self._answer_when(group.assigned, reply, group.synced(member))
            return
        self.sessions.answer_sync(group, member.id, RebalanceInProgress(group.name))
        group.syncing[member.id] = reply
        self.sessions.deadlines.clear((group.name, "session", member.id))
        if is_leader:
            self._assign(group, sync)

    def heartbeat(
        self, name: str, member_id: str, instance_id: str | None, generation: int
    ) -> None:
        """Restart a member's session timeout; raises RebalanceInProgress if it must join again."""
        group, member = self.member(name, member_id, instance_id, generation)
        self.sessions.heartbeat(group, member)
        if group.phase is Phase.PREPARING:
            raise RebalanceInProgress(name)

    def leave(self, name: str, leavers: Iterable[Leaver]) -> list[MainstemError | None]:
        """Remove members; return for each one None, or the error if it was refused."""
        group = self.groups.get(name)
        if group is None:
            check_group(name)
            return [UnknownMember(name, member_id) for member_id, _ in leavers]
        before = len(group.members)
        answers: list[MainstemError | None] = []
        for leaver in leavers:
            try:
                self._let_go(group, *leaver)
                answers.append(None)
            except MainstemError as error:
                answers.append(error)
        self._settle(group, any_left=len(group.members) < before)
        return answers

    def member(
        self, name: str, member_id: str, instance_id: str | None, generation: int
    ) -> tuple[ClassicGroup, ClassicMember]:
        """Return a group and its member; raises unless it is in the current generation."""
        group = self.groups.get(name)
        if group is None:
            check_group(name)
            raise UnknownMember(name, member_id)
        member = group.check_member(member_id, instance_id)
        if generation != group.generation:
            raise IllegalGeneration(name, generation, group.generation)
        return group, member

    def expire(self, timer: Timer) -> None:
        """Act on a passed deadline, of a kind that the module's docstring lists."""
        name, kind, member_id = timer
        group = self.groups.get(name)
        if group is None:
            return
        if kind == "join":
            self._wait_over(group)
        elif kind == "sync":
            for each in [group.members[each] for each in group.unsynced]:
                self.sessions.remove(group, each)
            self._prepare(group)
        elif member_id in group.pending:
            self.sessions.drop_id(group, member_id)
            self._settle(group, any_left=False)
        else:
            self.sessions.remove(group, group.members[member_id])
            self._gather(group)

    # Conversion to and from consumer groups, and restarts

    def release(self, name: str) -> None:
        """Drop a group that becomes a consumer group; waiting members get RebalanceInProgress."""
        group = self.groups.pop(name, None)
        if group is None:
            return
        for member in list(group.members.values()):
            self.sessions.answer_join(group, member.id, RebalanceInProgress(name))
            self.sessions.answer_sync(group, member.id, RebalanceInProgress(name))
            self.sessions.remove(group, member)
        for member_id in list(group.pending):
            self.sessions.drop_id(group, member_id)
        self.sessions.deadlines.clear((name, "join", ""))
        self.sessions.deadlines.clear((name, "sync", ""))
        self._vacate(name)

    def adopt(self, name: str, members: Iterable[ClassicMember], protocol_type: str) -> None:
        """Take over the members of a former consumer group, which all have to join again."""
        group = ClassicGroup(name, self._generations.of(name).number, protocol_type)
        self.groups[name] = group
        for member in members:
            member.is_new = False
            self.sessions.add(group, member, protocol_type, member.session_timeout_ms)
        group.enter(Phase.PREPARING)
        self._wait_for_joins(group)

    def resume(self, name: str, kept: WrittenGroup) -> None:
        """Restore the members stored before a restart, with new sessions."""
        latest, agreement, members = self._generations.of(name), kept.agreement, read_members(kept)
        if agreement.generation != latest.number or len(members) > self._limits.max_members:
            # A later generation had begun, but never became stable: the members must rejoin.
            self.adopt(name, members, agreement.protocol_type)
            return
        group = ClassicGroup(name, latest.number, agreement.protocol_type)
        self.groups[name] = group
        for member in members:
            member.is_new = False
            self.sessions.add(group, member, agreement.protocol_type, member.session_timeout_ms)
        group.resume(agreement.protocol, agreement.leader)

    # Joining

    def _join_newcomer(self, group: ClassicGroup, join: Join, reply: JoinReply) -> None:
        member_id = f"{join.instance_id or join.client_id}-{self._new_id()}"
        holder = group.static.get(join.instance_id) if join.instance_id is not None else None
        if holder is not None:
            self._replace(group, group.members[holder], ClassicMember(member_id, join), join, reply)
        elif join.takes_id_first and join.instance_id is None:
            # A client that loses the response requests another id, and leaves this one unused. So
            # an id alone is not a member, rebalances do not wait for it, and it expires soon.
            self.groups[group.name] = group
            self.sessions.give_id(group, member_id, join.session_timeout_ms)
            raise MemberIdRequired(group.name, member_id)
        else:
            self._add(group, ClassicMember(member_id, join), join, reply)

    def _add(
        self, group: ClassicGroup, member: ClassicMember, join: Join, reply: JoinReply
    ) -> None:
        if not group.members:
            self._occupy(group.name)
        self.groups[group.name] = group
        self.sessions.add(group, member, join.protocol_type, self._limits.first_join_timeout_ms)
        group.joining[member.id] = reply
        group.has_newcomers = True
        self._gather(group)

    def _join_again(
        self, group: ClassicGroup, member: ClassicMember, join: Join, reply: JoinReply
    ) -> None:
        is_same = member.protocols == join.protocols
        # The leader of a stable group joins again to trigger a rebalance.
        is_settled = group.phase is Phase.COMPLETING or (
            group.phase is Phase.STABLE and group.leader != member.id
        )
        if is_same and is_settled:
            self._answer_durably(group, reply, member.id)
            return
        self.sessions.update(group, member, join)
        self.sessions.answer_join(group, member.id, RebalanceInProgress(group.name))
        group.joining[member.id] = reply
        if not member.is_new:
            self.sessions.deadlines.clear((group.name, "session", member.id))
        self._gather(group)

    def _replace(
        self,
        group: ClassicGroup,
        old: ClassicMember,
        member: ClassicMember,
        join: Join,
        reply: JoinReply,
    ) -> None:
        """Give a static member that rejoined its new member id, and fence the old id."""
        old_leader = group.leader
        replacement = self._journal.members.replace(group.name, old.id, member)
        durable = self._journal.write(members=replacement)
        self.sessions.replace(group, old, member)
        if group.phase is not Phase.STABLE or group.vote() != group.protocol:
            group.joining[member.id] = reply
            self._gather(group)
            return
        self.sessions.heartbeat(group, member)
        joined = group.joined(member.id)
        if group.leader == member.id and join.skips_assignment:
            joined = msgspec.structs.replace(joined, skip_assignment=True)
        elif group.leader == member.id:
            # Without the leader role it does not compute new assignments.
            joined = msgspec.structs.replace(joined, members=(), leader=old_leader or "")
        self._answer_when(durable, reply, joined)

    # Phase transitions

    def _gather(self, group: ClassicGroup) -> None:
        """Start a rebalance, or begin the next generation if all members have joined."""
        if group.phase in PREDECESSORS[Phase.PREPARING]:
            self._prepare(group)
        elif group.delay_left_ms is None and group.all_joined:
            self._begin_generation(group)

    def _prepare(self, group: ClassicGroup) -> None:
        if group.phase is Phase.COMPLETING:
            self.sessions.assign(group, {})
            for member_id in list(group.syncing):
                self.sessions.answer_sync(group, member_id, RebalanceInProgress(group.name))
                self.sessions.heartbeat(group, group.members[member_id])
        self.sessions.deadlines.clear((group.name, "sync", ""))
        group.unsynced.clear()
        is_first = group.phase is Phase.EMPTY
        group.enter(Phase.PREPARING)
        delay_ms = self._limits.initial_delay_ms
        if is_first and delay_ms:
            group.has_newcomers = False
            group.delay_left_ms = max(0, group.rebalance_timeout_ms - delay_ms)
            self.sessions.deadlines.set((group.name, "join", ""), self.sessions.now_ms + delay_ms)
        elif is_first or group.all_joined:
            self._begin_generation(group)
        else:
            self._wait_for_joins(group)

    def _wait_for_joins(self, group: ClassicGroup) -> None:
        due_ms = self.sessions.now_ms + group.rebalance_timeout_ms
        self.sessions.deadlines.set((group.name, "join", ""), due_ms)

    def _wait_over(self, group: ClassicGroup) -> None:
        """Begin a new group's first generation after its initial delay.

        While members still join, wait once more instead, up to the rebalance timeout in total.
        """
        if group.delay_left_ms and group.has_newcomers:
            group.has_newcomers = False
            delay_ms = min(self._limits.initial_delay_ms, group.delay_left_ms)
            group.delay_left_ms -= delay_ms
            self.sessions.deadlines.set((group.name, "join", ""), self.sessions.now_ms + delay_ms)
        else:
            self._begin_generation(group)

    def _begin_generation(self, group: ClassicGroup) -> None:
        """Begin the next generation with the members that have joined."""
        self.sessions.deadlines.clear((group.name, "join", ""))
        group.delay_left_ms = None
        late = [each for each in group.members.values() if each.id not in group.joining]
        for member in late:
            if member.instance_id is None:
                self.sessions.remove(group, member)
        if not group.members:
            self._empty(group)
            return
        if not group.elect():
            # Static members stay until their sessions end.
            self._wait_for_joins(group)
            return
        try:
            changes = self._generations.begin(group.name, group.protocol_type)
            group.begun = self._journal.write(changes)
        except MainstemError as error:
            self._postpone(group, error)
            return
        group.generation = self._generations.of(group.name).number
        group.protocol = group.vote()
        group.enter(Phase.COMPLETING)
        group.unsynced = set(group.members)
        for member in group.members.values():
            waiting = group.joining.pop(member.id, None)
            if waiting is not None:
                self._answer_durably(group, waiting, member.id)
            member.is_new = False
            self.sessions.heartbeat(group, member)
        self.sessions.deadlines.set(
            (group.name, "sync", ""), self.sessions.now_ms + group.rebalance_timeout_ms
        )

    def _answer_durably(self, group: ClassicGroup, reply: JoinReply, member_id: str) -> None:
        """Answer a member's join when the generation's number is durable."""
        self._answer_when(group.begun, reply, group.joined(member_id))

    def _answer_when(
        self, durable: Durable, reply: Callable[[Answer | MainstemError], None], answer: Answer
    ) -> None:
        """Send an answer once ``durable`` is done, or its error if the commit failed."""
        self.sessions.calls.append(partial(durable.then, partial(once_durable, reply, answer)))

    def _postpone(self, group: ClassicGroup, error: MainstemError) -> None:
        """After a failed write: answer all pending joins with the error, and wait for new joins."""
        for member_id in list(group.joining):
            self.sessions.answer_join(group, member_id, error)
            group.members[member_id].is_new = False
            self.sessions.heartbeat(group, group.members[member_id])
        self._wait_for_joins(group)

    def _write_down(self, group: ClassicGroup, assignments: Mapping[str, bytes]) -> None:
        """Store the members of this generation with their assignments."""
        members = {
            member.id: written(member, assignments.get(member.id, b""))
            for member in group.members.values()
        }
        changes = self._journal.members.set(group.name, agreed(group), members)
        group.assigned = self._journal.write(members=changes)

    def _assign(self, group: ClassicGroup, sync: Sync) -> None:
        """Distribute the leader's assignments; members that are not listed get an empty one."""
        self.sessions.assign(group, sync.assignments)
        group.enter(Phase.STABLE)
        for member_id in list(group.syncing):
            member = group.members[member_id]
            reply = group.syncing.pop(member_id)
            self._answer_when(group.assigned, reply, group.synced(member))
            self.sessions.heartbeat(group, member)

    def _empty(self, group: ClassicGroup) -> None:
        group.enter(Phase.EMPTY)
        group.protocol = None
        with suppress(MainstemError):
            # On a full disk this is tried again when the group is forgotten.
            self._journal.write(members=self._journal.members.forget(group.name))
        self._vacate(group.name)
        self._drop_if_unused(group)

    def _drop_if_unused(self, group: ClassicGroup) -> None:
        if not group.members and not group.pending and group.name in self.groups:
            del self.groups[group.name]
            group.enter(Phase.DEAD)
            self.remember_for_a_while(group.name)

    def remember_for_a_while(self, name: str) -> None:
        """Schedule the deletion of an empty group."""
        due_ms = self.sessions.now_ms + self._limits.forget_after_ms
        self.sessions.deadlines.set((name, "forget", ""), due_ms)

    # Members

    def _let_go(self, group: ClassicGroup, member_id: str, instance_id: str | None) -> None:
        if not member_id and instance_id is not None:
            # An administrator may name a static member by its instance id alone.
            member_id = group.static.get(instance_id, "")
        if member_id in group.pending:
            self.sessions.drop_id(group, member_id)
        else:
            self.sessions.remove(group, group.check_member(member_id, instance_id))

    def _settle(self, group: ClassicGroup, *, any_left: bool) -> None:
        """After removals: rebalance if members have left, else drop the group if unused."""
        if any_left or group.phase is Phase.PREPARING:
            self._gather(group)
        else:
            self._drop_if_unused(group)

    def _turn_away(self, group: ClassicGroup, member_id: str) -> None:
        """Refuse a member: remove it, if it is in the group, and raise GroupFull."""
        known = group.members.get(member_id)
        if known is not None:
            self.sessions.remove(group, known)
            self._gather(group)
        raise GroupFull(group.name, f"{self._limits.max_members} members")


def once_durable(
    reply: Callable[[Answer | MainstemError], None], answer: Answer, error: MainstemError | None
) -> None:
    """Send the answer after a commit, or the error if the commit failed."""
    reply(answer if error is None else error)
