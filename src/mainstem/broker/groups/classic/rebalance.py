"""What happens to classic groups, and when: joins, syncs, silence, leaving, and time running out.

How this works: ``classic_group`` tells what the phases of a group are; here is what moves it from
one to the next. Everything is decided under the broker's lock and never waits there. An answer
that has to wait, for other members or for the disk, is given through ``reply``: once, from any
thread, without the lock. What happens when nothing happens is a deadline:

    session   a member has been silent, or an id that was given out was never used
    join      the members that have not joined the next generation by now are left out
    sync      the members that have not asked for their assignment by now are taken out
    forget    the group has been empty for a while, and has no cursors: nothing is left of it

``Rebalances`` is used under the lock, through ``ClassicGroups``; calls to be made without the lock
are collected by the ``members``.
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
"""Who leaves: member id (may be empty if static) and instance id."""
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
        self._occupy = occupy
        self._vacate = vacate
        self._new_id = new_id
        self._limits = limits

    # What members ask for

    def join(self, join: Join, reply: JoinReply) -> None:
        """Take a member into the next generation; answered when that begins."""
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
        """Give a member its assignment; answered when the leader has brought it."""
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
        """Hear that a member is there; RebalanceInProgress tells it to join again."""
        group, member = self.member(name, member_id, instance_id, generation)
        self.sessions.heartbeat(group, member)
        if group.phase is Phase.PREPARING:
            raise RebalanceInProgress(name)

    def leave(self, name: str, leavers: Iterable[Leaver]) -> list[MainstemError | None]:
        """Take members out, all at once; return what is wrong with each, None if it is out."""
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
        """Return a group and its member, if the member belongs to the current generation."""
        group = self.groups.get(name)
        if group is None:
            check_group(name)
            raise UnknownMember(name, member_id)
        member = group.check_member(member_id, instance_id)
        if generation != group.generation:
            raise IllegalGeneration(name, generation, group.generation)
        return group, member

    def expire(self, timer: Timer) -> None:
        """Do what is to be done when a deadline has passed."""
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

    # Groups that change their kind

    def release(self, name: str) -> None:
        """Give up a group that goes on in another way; who waits is told to join again."""
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
        """Go on with members that were in a group of another kind; all are to join again."""
        group = ClassicGroup(name, self._generations.of(name).number, protocol_type)
        self.groups[name] = group
        for member in members:
            member.is_new = False
            self.sessions.add(group, member, protocol_type, member.session_timeout_ms)
        group.enter(Phase.PREPARING)
        self._wait_for_joins(group)

    def resume(self, name: str, kept: WrittenGroup) -> None:
        """Go on with members that were written down before a restart; their sessions begin anew."""
        latest, agreement, members = self._generations.of(name), kept.agreement, read_members(kept)
        if agreement.generation != latest.number or len(members) > self._limits.max_members:
            # Some may know of a later generation, in which nobody has been assigned anything.
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
            # Whoever loses the answer asks for another id, and leaves one behind each time: an id
            # alone is not a member, so nobody waits for it for long.
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
        # The leader of a stable group joins again when it wants to assign anew.
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
        """Give a static member's place to the program that came back, and fence the one before."""
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
            # It must not think that it is the leader, or it would assign anew.
            joined = msgspec.structs.replace(joined, members=(), leader=old_leader or "")
        self._answer_when(durable, reply, joined)

    # From one phase to the next

    def _gather(self, group: ClassicGroup) -> None:
        """Begin to gather the members anew, or see whether all are there."""
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
        """Begin the generation, unless the first members of a group may wait for more."""
        if group.delay_left_ms and group.has_newcomers:
            group.has_newcomers = False
            delay_ms = min(self._limits.initial_delay_ms, group.delay_left_ms)
            group.delay_left_ms -= delay_ms
            self.sessions.deadlines.set((group.name, "join", ""), self.sessions.now_ms + delay_ms)
        else:
            self._begin_generation(group)

    def _begin_generation(self, group: ClassicGroup) -> None:
        """Let those who have joined be the next generation; the others are left out."""
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
            # Static members keep their places until their sessions end.
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
        """Tell a member its generation, once the number of that can no longer be lost."""
        self._answer_when(group.begun, reply, group.joined(member_id))

    def _answer_when(
        self, durable: Durable, reply: Callable[[Answer | MainstemError], None], answer: Answer
    ) -> None:
        """Answer once what the answer tells can no longer be lost."""
        self.sessions.calls.append(partial(durable.then, partial(once_durable, reply, answer)))

    def _postpone(self, group: ClassicGroup, error: MainstemError) -> None:
        """Tell everybody that the generation could not be written down, and wait for them again."""
        for member_id in list(group.joining):
            self.sessions.answer_join(group, member_id, error)
            group.members[member_id].is_new = False
            self.sessions.heartbeat(group, group.members[member_id])
        self._wait_for_joins(group)

    def _write_down(self, group: ClassicGroup, assignments: Mapping[str, bytes]) -> None:
        """Write down who is in this generation, and what each was assigned."""
        members = {
            member.id: written(member, assignments.get(member.id, b""))
            for member in group.members.values()
        }
        changes = self._journal.members.set(group.name, agreed(group), members)
        group.assigned = self._journal.write(members=changes)

    def _assign(self, group: ClassicGroup, sync: Sync) -> None:
        """Give everybody what the leader has assigned; who is not mentioned gets nothing."""
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
            # Without space this is tried again when the group is forgotten.
            self._journal.write(members=self._journal.members.forget(group.name))
        self._vacate(group.name)
        self._drop_if_unused(group)

    def _drop_if_unused(self, group: ClassicGroup) -> None:
        if not group.members and not group.pending and group.name in self.groups:
            del self.groups[group.name]
            group.enter(Phase.DEAD)
            self.remember_for_a_while(group.name)

    def remember_for_a_while(self, name: str) -> None:
        """Look later whether anything is left of an empty group."""
        due_ms = self.sessions.now_ms + self._limits.forget_after_ms
        self.sessions.deadlines.set((name, "forget", ""), due_ms)

    # Members

    def _let_go(self, group: ClassicGroup, member_id: str, instance_id: str | None) -> None:
        if not member_id and instance_id is not None:
            # An administrator names a static member by its instance id alone.
            member_id = group.static.get(instance_id, "")
        if member_id in group.pending:
            self.sessions.drop_id(group, member_id)
        else:
            self.sessions.remove(group, group.check_member(member_id, instance_id))

    def _settle(self, group: ClassicGroup, *, any_left: bool) -> None:
        """Gather the members anew if some have left; go on without the ids that were not used."""
        if any_left or group.phase is Phase.PREPARING:
            self._gather(group)
        else:
            self._drop_if_unused(group)

    def _turn_away(self, group: ClassicGroup, member_id: str) -> None:
        """Refuse a member that comes too late to have a place in a group that is full."""
        known = group.members.get(member_id)
        if known is not None:
            self.sessions.remove(group, known)
            self._gather(group)
        raise GroupFull(group.name, f"{self._limits.max_members} members")


def once_durable(
    reply: Callable[[Answer | MainstemError], None], answer: Answer, error: MainstemError | None
) -> None:
    """Answer a member when what it is told is durable, or will never be."""
    reply(answer if error is None else error)
