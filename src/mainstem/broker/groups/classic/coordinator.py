"""Classic groups: members assign partitions among themselves (JoinGroup, SyncGroup, Heartbeat).

The broker collects the members, numbers the generations and relays the assignments (``rebalance``).
All kinds of groups share the same cursors. A group has members of one kind at a time: while it has
any, it refuses joins of another kind.
"""

import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import NamedTuple

import msgspec

from mainstem.broker.callbacks import Callback, make
from mainstem.broker.groups.classic.generations import Generation, GenerationChange, GenerationKey
from mainstem.broker.groups.classic.group import (
    ClassicGroup,
    ClassicMember,
    Join,
    JoinReply,
    Phase,
    Sync,
    SyncReply,
)
from mainstem.broker.groups.classic.journal import ClassicJournal
from mainstem.broker.groups.classic.rebalance import Leaver, Rebalances, once_durable
from mainstem.broker.groups.classic.records import (
    NOT_YET,
    Agreement,
    ClassicGroupChange,
    WrittenGroup,
    written,
)
from mainstem.broker.groups.consumer.classic_members import PROTOCOL_TYPE
from mainstem.broker.groups.consumer.coordinator import ConsumerGroups
from mainstem.broker.groups.consumer.records import ConsumerMember
from mainstem.broker.groups.cursors import Cursor
from mainstem.broker.groups.limits import GroupLimits
from mainstem.broker.state import REFUSALS, State
from mainstem.broker.topics.catalog import TopicPartition
from mainstem.core.errors import (
    GroupIsLive,
    IllegalGeneration,
    MainstemError,
    RebalanceInProgress,
    UnknownGroup,
    UnknownMember,
)
from mainstem.core.names import check_group
from mainstem.log.commit.durable import AT_ONCE
from mainstem.log.port import Batches, Durable, PartitionId

KIND = "Kafka"
"""What error messages call this kind of group."""
DEFAULTS = GroupLimits()


class Membership(msgspec.Struct, frozen=True):
    """The member that commits, with its generation; by default no member (a simple consumer)."""

    member_id: str = ""
    generation: int = -1
    instance_id: str | None = None


class PartitionResults(NamedTuple):
    """The result of a request over partitions: when it is durable, and the refused partitions."""

    durable: Durable
    refused: dict[TopicPartition, MainstemError]


class MemberDescription(msgspec.Struct, frozen=True):
    """The description of a member, for administrators."""

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    metadata: bytes
    """Empty until the group is stable."""
    assignment: bytes


class GroupDescription(msgspec.Struct, frozen=True):
    """The description of a group, for administrators."""

    name: str
    phase: Phase
    protocol_type: str
    protocol: str
    generation: int
    members: tuple[MemberDescription, ...] = ()


class ClassicGroups:
    """Public interface of classic groups; synchronous and thread-safe.

    Each ``reply`` is called once, from any thread, without a lock; it must not block.
    """

    def __init__(
        self,
        state: State,
        consumers: ConsumerGroups,
        *,
        new_id: Callable[[], str] = lambda: str(uuid.uuid4()),
        limits: GroupLimits = DEFAULTS,
        resumes: bool = True,
    ) -> None:
        self._state = state
        self._consumers = consumers
        self._now_ms, self._monotonic_ms = state.clocks
        self.journal = ClassicJournal(state.log, self._now_ms)
        self.generations = self.journal.generations
        self._rebalances = Rebalances(
            self.journal, self._occupy, state.groups.vacate, new_id, limits, state.alarm
        )
        with self._turn() as rebalances:
            for group in self.generations:
                rebalances.remember_for_a_while(group)
            for group, kept in list(self.journal.members.groups.items()) if resumes else ():
                self._resume(group, kept)
        consumers.assignments.before = self

    # Members

    def join(self, join: Join, reply: JoinReply) -> None:
        """Join the next generation of a group; later calls ``reply`` with Joined or an error."""
        with self._turn() as rebalances:
            try:
                if self._consumers.has_members(join.group):
                    joined, durable = self._consumers.classic_members.join(join)
                    answer = partial(once_durable, reply, joined)
                    rebalances.sessions.calls.append(partial(durable.then, answer))
                    return
                if join.group not in rebalances.groups:
                    deed = f"joined by {KIND} consumers"
                    self._state.groups.check_not_live(join.group, deed)
                rebalances.join(join, reply)
            except MainstemError as error:
                refusal = error
            else:
                return
        reply(refusal)

    def sync(self, sync: Sync, reply: SyncReply) -> None:
        """Request a member's assignment; calls ``reply``, now or later, with Synced or an error.

        The leader's request contains the assignments of all members.
        """
        with self._turn() as rebalances:
            try:
                if self._consumers.has_members(sync.group):
                    synced = self._consumers.classic_members.sync(sync)
                    rebalances.sessions.calls.append(partial(reply, synced))
                    return
                rebalances.sync(sync, reply)
            except MainstemError as error:
                refusal = error
            else:
                return
        reply(refusal)

    def heartbeat(
        self, group: str, member_id: str, generation: int, instance_id: str | None = None
    ) -> None:
        """Restart a member's session timeout; raises RebalanceInProgress if it must join again."""
        with self._turn() as rebalances:
            if self._consumers.has_members(group):
                self._consumers.classic_members.heartbeat(group, member_id, instance_id, generation)
            else:
                rebalances.heartbeat(group, member_id, instance_id, generation)

    def leave(self, group: str, leavers: Iterable[Leaver]) -> list[MainstemError | None]:
        """Remove members from a group; return for each one None, or the error if it was refused."""
        with self._turn() as rebalances:
            if self._consumers.has_members(group):
                return self._consumers.classic_members.leave(group, leavers)
            return rebalances.leave(group, leavers)

    def tick(self) -> None:
        """Remove members whose session or rebalance timed out, a bounded number per call."""
        with self._turn() as rebalances:
            for timer in rebalances.sessions.deadlines.due(rebalances.sessions.now_ms):
                if timer[1] == "forget":
                    self._forget_if_unused(timer[0])
                else:
                    rebalances.expire(timer)

    def next_deadline(self) -> int | None:
        """Return when ``tick`` is next due, on the monotonic clock; None if never."""
        with self._state.lock:
            return self._rebalances.sessions.deadlines.next()

    # Cursors

    def check_commit(
        self, group: str, membership: Membership, *, transactional: bool = False
    ) -> None:
        """Raise if ``membership`` may not commit for the group; used under the lock."""
        if self._consumers.has_members(group):
            self._consumers.check_commit(
                group, membership.member_id, membership.generation, transactional=transactional
            )
            return
        self._rebalances.sessions.now_ms = self._monotonic_ms()
        found = self._rebalances.groups.get(group)
        is_anonymous = (
            not membership.member_id
            and membership.instance_id is None
            and membership.generation < 0
        )
        if found is None or found.phase is Phase.EMPTY:
            self._state.groups.check_not_live(group, "committed to from outside")
            if membership.generation >= 0:
                if found is not None or self._is_known(group):
                    raise UnknownMember(group, membership.member_id)
                raise IllegalGeneration(group, membership.generation, -1)
            return
        if is_anonymous:
            # Older TxnOffsetCommit requests do not name the member.
            if not transactional:
                raise UnknownMember(group, membership.member_id)
            return
        _, member = self._rebalances.member(
            group, membership.member_id, membership.instance_id, membership.generation
        )
        if found.phase is Phase.COMPLETING and not transactional:
            raise RebalanceInProgress(group)
        self._rebalances.sessions.heartbeat(found, member)

    def commit(
        self, group: str, membership: Membership, cursors: Mapping[TopicPartition, Cursor]
    ) -> PartitionResults:
        """Commit offsets for a member, or for a program that is no member of an empty group."""
        with self._turn():
            self.check_commit(group, membership)
            refused: dict[TopicPartition, MainstemError] = {}
            changes = []
            moved: list[PartitionId] = []
            for place, cursor in cursors.items():
                try:
                    at = self._state.at(*place)
                    changes += self._state.cursors.commit(group, {at: cursor}, may_unset=True)
                    moved.append(at)
                except MainstemError as error:
                    refused[place] = error
            durable = self._state.change_cursors(changes, self._now_ms())
            self._rebalances.sessions.calls += self._state.make_room(moved)
        return PartitionResults(durable, refused)

    def delete_cursors(self, group: str, partitions: Iterable[TopicPartition]) -> PartitionResults:
        """Delete a group's committed offsets in some partitions, even if members read these."""
        check_group(group)
        with self._turn():
            self._check_known(group)
            if group not in self._rebalances.groups and not self._consumers.has_members(group):
                self._state.groups.check_not_live(group, "changed from outside")
            chosen, refused = self._state.find(partitions)
            if not self._state.cursors.of(group):
                return PartitionResults(AT_ONCE, refused)
            changes = self._state.cursors.remove(group, chosen)
            durable = self._state.change_cursors(changes, self._now_ms())
            self._rebalances.sessions.calls += self._state.make_room(chosen)
        return PartitionResults(durable, refused)

    # Administration

    def names(self) -> list[str]:
        """Return the names of classic groups that have offsets, or have or recently had members."""
        with self._state.lock:
            known = {*self._rebalances.groups, *self.generations, *self._state.cursors.groups()}
            return sorted(each for each in known if each not in self._consumers)

    def members(self, name: str) -> dict[str, tuple[TopicPartition, ...]]:
        """Return the partitions of each member, by member id; used under the lock."""
        found = self._rebalances.groups.get(name)
        if found is None:
            return {}
        protocol = self._consumers.classic_members.protocol
        if protocol is None or found.protocol_type != PROTOCOL_TYPE:
            return dict.fromkeys(found.members, ())
        return {
            member.id: tuple(protocol.owned(member.assignment)) if member.assignment else ()
            for member in found.members.values()
        }

    def describe(self, name: str) -> GroupDescription:
        """Return the description of a group; for an unknown group, one with the phase Dead."""
        with self._state.lock:
            group = self._rebalances.groups.get(name)
            if group is not None and group.phase is not Phase.EMPTY:
                return _description(group)
            latest = self.generations.of(name)
            is_known = name not in self._consumers and self._is_known(name)
            phase = Phase.EMPTY if is_known or group is not None else Phase.DEAD
            return GroupDescription(name, phase, latest.protocol_type, "", latest.number)

    def delete(self, name: str) -> Durable:
        """Delete a group and its committed offsets in one append; refused while it has members."""
        now_ms = self._now_ms()
        with self._turn():
            self._check_known(name)
            self._state.groups.check_not_live(name, "deleted")
            cursors = self._state.cursors
            partitions = list(cursors.of(name))
            removed = cursors.remove(name) if partitions else []
            forgotten = self.generations.forget(name), self.journal.members.forget(name)
            beside = (
                *self._state.cursor_batches(removed, now_ms),
                *self.journal.batches(*forgotten),
            )
            durable = self._consumers.forget(name, beside)
            for removal in removed:
                cursors.apply(removal)
            self.journal.apply(*forgotten)
            self._rebalances.sessions.deadlines.clear((name, "forget", ""))
            self._rebalances.sessions.calls += self._state.make_room(partitions)
            return durable

    # Conversion to and from consumer groups; used under the lock

    def latest(self, name: str) -> int:
        """Return the number of the latest generation of a group."""
        return self.generations.of(name).number

    def offered(self, name: str) -> list[ConsumerMember] | None:
        """Return a group's members as members of a consumer group; None if it has none."""
        group, classic_members = self._rebalances.groups.get(name), self._consumers.classic_members
        if group is None or group.phase is Phase.EMPTY:
            return None
        if group.protocol_type != PROTOCOL_TYPE or classic_members.protocol is None:
            deed = "joined by consumers of another protocol"
            raise GroupIsLive(name, f"{len(group.members)} members", deed)
        # A member whose first join was not answered does not know its id, and joins again.
        members = [each for each in group.members.values() if not each.is_new]
        return classic_members.to_consumer_members(members, group.generation, group.protocol)

    def hand_over_batches(self, name: str) -> Batches:
        """Return the batches that delete a classic group when it becomes a consumer group."""
        return self.journal.batches(members=self.journal.members.forget(name))

    def hand_over(self, name: str) -> None:
        """Drop a group that has become a consumer group; the next tick drops its generation."""
        self.journal.apply(members=self.journal.members.forget(name))
        self._rebalances.release(name)
        if name in self.generations:
            self._rebalances.sessions.deadlines.set((name, "forget", ""), self._monotonic_ms())

    def return_batches(self, name: str, number: int, members: Sequence[ConsumerMember]) -> Batches:
        """Return the batches that store a classic group when a consumer group becomes one again."""
        converted = self._consumers.classic_members.to_classic_members(members)
        return self.journal.batches([_reached(name, number)], self._returned(name, converted))

    def take_back(self, name: str, number: int, members: Sequence[ConsumerMember]) -> None:
        """Make a consumer group with only classic members left a classic group again."""
        self._rebalances.sessions.now_ms = self._monotonic_ms()
        converted = self._consumers.classic_members.to_classic_members(members)
        self.journal.apply([_reached(name, number)], self._returned(name, converted))
        self._state.groups.occupy(name, KIND)
        self._rebalances.adopt(name, converted, PROTOCOL_TYPE)

    def _returned(self, name: str, converted: Iterable[ClassicMember]) -> list[ClassicGroupChange]:
        """Return the records that store converted members, who still have to join again."""
        members = {each.id: written(each, each.assignment) for each in converted}
        return self.journal.members.set(name, Agreement(NOT_YET, PROTOCOL_TYPE), members)

    def dissolve(self, name: str) -> None:
        """Delete stored members of a group that cannot reconnect, as this process is no server.

        Called before the group's offsets are changed. Members that later reconnect to a server join
        again, and start at these offsets.
        """
        if name not in self._rebalances.groups:
            self.journal.write(members=self.journal.members.forget(name))

    def _resume(self, name: str, kept: WrittenGroup) -> None:
        """Restore a group from the journal, unless it has become a consumer group."""
        if name in self.generations and name not in self._consumers and kept.members:
            self._state.groups.occupy(name, KIND)
            self._rebalances.resume(name, kept)
            return
        with suppress(*REFUSALS):
            self.journal.write(members=self.journal.members.forget(name))

    def _occupy(self, name: str) -> None:
        """Reserve the group's name.

        If an empty consumer group has the name, it is deleted, and generations continue from its
        epoch.
        """
        self._state.groups.check_not_live(name, f"joined by {KIND} consumers")
        if name in self._consumers:
            self.journal.write([_reached(name, self._consumers.epoch(name))])
            self._consumers.forget(name)
        self._state.groups.occupy(name, KIND)

    def answer(self) -> None:
        """Send pending answers to members of a converted group; the lock must not be held."""
        with self._turn():
            pass

    @contextmanager
    def _turn(self) -> Iterator[Rebalances]:
        """Hold the lock during the ``with`` block, then call the collected callbacks without it."""
        rebalances = self._rebalances
        calls: list[Callback] = []
        try:
            with self._state.lock:
                rebalances.sessions.now_ms = self._monotonic_ms()
                try:
                    yield rebalances
                finally:
                    calls, rebalances.sessions.calls = rebalances.sessions.calls, []
        finally:
            make(calls)

    def _forget_if_unused(self, name: str) -> None:
        if name in self._rebalances.groups or name not in self.generations:
            return
        try:
            if self._state.cursors.of(name) and name not in self._consumers:
                self.journal.write(members=self.journal.members.forget(name))
                self._rebalances.remember_for_a_while(name)
            else:
                self.journal.forget(name)
        except MainstemError:
            # Retry later, when there may be disk space.
            self._rebalances.remember_for_a_while(name)

    def _check_known(self, name: str) -> None:
        has_members = name in self._rebalances.groups or self._state.groups.is_live(name)
        if not has_members and not self._is_known(name):
            raise UnknownGroup(name)

    def _is_known(self, name: str) -> bool:
        """Tell whether a group has a generation or cursors, or is an empty consumer group."""
        cursors = self._state.cursors.of(name)
        return name in self.generations or bool(cursors) or name in self._consumers


def _reached(name: str, number: int) -> GenerationChange:
    """Return the change that sets the generation number to a consumer group's epoch."""
    return GenerationChange(GenerationKey(name), Generation(number, PROTOCOL_TYPE))


def _description(group: ClassicGroup) -> GroupDescription:
    is_stable = group.phase is Phase.STABLE
    return GroupDescription(
        group.name,
        group.phase,
        group.protocol_type,
        (group.protocol or "") if is_stable else "",
        group.generation,
        tuple(
            MemberDescription(
                member.id,
                member.instance_id,
                member.client_id,
                member.host,
                member.metadata(group.protocol) if is_stable else b"",
                member.assignment,
            )
            for member in group.members.values()
        ),
    )
