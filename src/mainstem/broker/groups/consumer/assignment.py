"""Applies changes to consumer groups: assigns partitions, stores changes, handles deadlines.

Kinds of deadlines, with what it means that one has passed:

    session     a member sent no heartbeat
    rebalance   a member did not give up revoked partitions
    join, sync  a classic member did not join again, or did not send SyncGroup
    forget      a group that has been empty for a while, and has no cursors, is deleted
"""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Literal, Protocol

from msgspec.structs import replace

from mainstem.broker.deadlines import Deadlines
from mainstem.broker.groups.configs import (
    CONSUMER_HEARTBEAT_INTERVAL,
    CONSUMER_SESSION_TIMEOUT,
    GroupConfigs,
)
from mainstem.broker.groups.consumer.draft import ConsumerGroupDraft
from mainstem.broker.groups.consumer.reconciliation import reconcile
from mainstem.broker.groups.consumer.records import (
    ConsumerGroup,
    ConsumerGroupChange,
    ConsumerGroupFold,
    ConsumerGroupKey,
    ConsumerMember,
    Current,
    Epochs,
    Partitions,
    Stage,
    Value,
    WrittenMember,
)
from mainstem.broker.groups.consumer.subscribed_topics import SubscribedTopics
from mainstem.broker.groups.limits import GroupLimits
from mainstem.broker.journal import CONSUMER_GROUPS, Journal
from mainstem.broker.state import State
from mainstem.core.errors import GroupFull, InvalidSetting, StorageFull
from mainstem.log.commit.durable import AT_ONCE
from mainstem.log.port import Batches, Durable

KIND = "consumer protocol"
"""What error messages call this kind of group."""

Timer = tuple[str, Literal["session", "rebalance", "join", "sync", "forget"], str]
"""The key of a deadline: group, kind, and member id (empty if it concerns the whole group)."""


class Before(Protocol):
    """What is needed of classic groups to convert a group from one kind to the other."""

    def latest(self, name: str) -> int:
        """Return the number of a group's latest generation, 0 if there is none."""

    def offered(self, name: str) -> Sequence[ConsumerMember] | None:
        """Return the members of a classic group, converted; None if it has no members.

        Raises GroupIsLive if they cannot be members of a consumer group.
        """

    def hand_over_batches(self, name: str) -> Batches:
        """Return the batches that delete a classic group when it becomes a consumer group."""

    def hand_over(self, name: str) -> None:
        """Drop a classic group, after the batches of ``hand_over_batches`` were appended."""

    def return_batches(self, name: str, number: int, members: Sequence[ConsumerMember]) -> Batches:
        """Return the batches that store a classic group when a consumer group becomes one."""

    def take_back(self, name: str, number: int, members: Sequence[ConsumerMember]) -> None:
        """Create a classic group of these members, after appending ``return_batches``."""

    def answer(self) -> None:
        """Send pending answers to members of a converted group; the lock must not be held."""


class Assignments:
    """All consumer groups; used under the broker's lock."""

    def __init__(self, state: State, configs: GroupConfigs, limits: GroupLimits) -> None:
        self._state, self._configs, self.limits = state, configs, limits
        self._now_ms, self.monotonic_ms = state.clocks
        self.fold = ConsumerGroupFold()
        self.subscribed_topics = SubscribedTopics(state.topics)
        self.deadlines = Deadlines[Timer](state.alarm)
        self.before: Before | None = None
        """The classic groups, which can become consumer groups and back."""
        self._journal = Journal[ConsumerGroupKey, Value](
            state.log, CONSUMER_GROUPS, ConsumerGroupKey, Epochs | WrittenMember
        )
        self._load()

    def draft(self, name: str) -> ConsumerGroupDraft:
        """Return a draft, in which the caller changes a group before the changes are stored.

        A new group begins without members, a classic group of that name with its converted members.
        """
        group = self.fold.groups.get(name)
        if group is not None and group.members:
            return ConsumerGroupDraft(group)
        classic_members = None if self.before is None else self.before.offered(name)
        if classic_members is None:
            self._state.groups.check_not_live(name, f"joined by {KIND} consumers")
        if group is None:
            group = ConsumerGroup(name)
            number = 0 if self.before is None else self.before.latest(name)
            group.epochs = Epochs(number, number)
        draft = ConsumerGroupDraft(group)
        if classic_members:
            draft.take_in(classic_members)
        return draft

    def settle(
        self,
        draft: ConsumerGroupDraft,
        was: ConsumerMember,
        member: ConsumerMember,
        owned: Partitions | None,
    ) -> tuple[Current, Durable]:
        """Store a member's new profile, and move the member one step towards its target partitions.

        Returns its partitions now, and when all that is durable.
        """
        is_new = was.id not in draft.group.members and not draft.has_room
        is_other = member.profile.subscription != was.profile.subscription
        if is_new or is_other or not self.subscribed_topics.knows(member.profile.regex):
            self.check_room(draft, member)
            draft.begin_epoch()
        draft.put(member)
        self.assign(draft)
        member = draft.member(member.id)
        epoch, owners = draft.epochs.assignment, draft.group.owners
        current = reconcile(member.id, member.current, member.target, epoch, owners, owned)
        draft.put(replace(member, current=current))
        return current, self.write(draft)

    def check_room(self, draft: ConsumerGroupDraft, member: ConsumerMember) -> None:
        """Raise if a member would exceed a limit or its regular expression is invalid."""
        group, limits, size = draft.group, self.limits, member.size_bytes
        # A returning static member replaces one; converted classic members were counted before.
        is_new = member.id not in group.members and not draft.changed
        if is_new and len(group.members) >= limits.max_members:
            raise GroupFull(group.name, f"{limits.max_members} members")
        if is_new and self.fold.members >= limits.max_members_of_all:
            raise GroupFull(group.name, f"{limits.max_members_of_all} members in all groups")
        if size > limits.max_member_bytes:
            raise InvalidSetting(
                f"a member of group {group.name!r} takes {size} bytes with its names; at most "
                f"{limits.max_member_bytes} are kept: subscribe to fewer topics"
            )
        if self.fold.held_bytes + size > limits.max_bytes:
            raise GroupFull(group.name, f"{limits.max_bytes} bytes for all groups")
        self.subscribed_topics.learn(member.profile.regex)

    def assign(self, draft: ConsumerGroupDraft) -> None:
        """Assign partitions anew if the group has a new epoch, or if its topics have changed."""
        group, now_ms = draft.group, self.monotonic_ms()
        if not draft.is_due and self.is_outdated(group):
            draft.begin_epoch()
        # If thousands of members join in a row, do not assign again for each of them: a member
        # that gets nothing now gets its partitions with its next heartbeat.
        pause_ms = (len(group.members) + len(group.owners) // 10) // 50
        is_first = group.assigned_ms is None or draft.epochs.assignment == 0
        if draft.is_due and (is_first or now_ms >= (group.assigned_ms or 0) + pause_ms):
            draft.assign(self.subscribed_topics)

    def is_outdated(self, group: ConsumerGroup) -> bool:
        """Tell whether topics were created, deleted or extended since the last assignment."""
        if group.outdated and self.subscribed_topics.are_met(group, group.members.values()):
            group.outdated = False
        return group.outdated

    def remove(self, group: ConsumerGroup, member_id: str) -> Durable:
        """Remove a member; a new epoch begins for the others."""
        draft = ConsumerGroupDraft(group)
        draft.remove(member_id)
        draft.begin_epoch()
        return self.write(draft)

    def expire(self, timer: Timer) -> None:
        """Act on a passed deadline: remove the silent or slow member, or forget the empty group."""
        name, kind, member_id = timer
        group = self.fold.groups.get(name)
        if group is None:
            return
        if kind == "forget":
            if not group.members and not self._state.cursors.of(name):
                self.forget(name)
            elif not group.members:
                self._remember_for_a_while(name)
        elif member_id in group.members:
            self.remove(group, member_id)

    def forget(self, name: str, beside: Batches = ()) -> Durable:
        """Delete an empty group, if it exists; append the batches ``beside`` in the same append."""
        is_known = name in self.fold.groups
        changes = [ConsumerGroupChange(ConsumerGroupKey(name), None)] if is_known else []
        durable = self._append(changes, beside)
        self.deadlines.clear((name, "forget", ""))
        return durable

    # Storing

    def write(self, draft: ConsumerGroupDraft) -> Durable:
        """Append and apply a draft; then update the group's deadlines, reserved name and kind."""
        if not draft.changed and draft.epochs == draft.group.epochs:
            return AT_ONCE
        name, is_new = draft.group.name, draft.group.name not in self.fold.groups
        was_empty = is_new or not draft.group.members
        regexes = set(draft.group.regexes)
        before = {each: draft.group.members.get(each) for each in draft.changed}
        beside: Batches = ()
        if was_empty and self.before is not None:
            beside = self.before.hand_over_batches(name)
        durable = self._append(draft.changes(), beside)
        group = self.fold.groups[name]
        if was_empty and self.before is not None:
            self.before.hand_over(name)
        if draft.is_assigned:
            group.outdated, group.assigned_ms = False, self.monotonic_ms()
        for member_id, was in before.items():
            self._set_timers(group, member_id, was)
            if (name, "session", member_id) not in self.deadlines:
                self.hear(name, member_id)
        self._take_name(group, was_empty=was_empty)
        for regex in regexes - group.regexes.keys():
            if not any(regex in each.regexes for each in self.fold):
                self.subscribed_topics.unlearn(regex)
        if group.members and len(group.classic_members) == len(group.members):
            # On a full disk it stays a consumer group, which works for classic members as well;
            # the next write tries again.
            with suppress(StorageFull):
                self._give_back(group)
        return durable

    def _give_back(self, group: ConsumerGroup) -> None:
        """Convert the group to a classic group, because only classic members are left.

        This is one append, so that a crash leaves the group with exactly one kind.
        """
        if self.before is None:
            return
        # The members know this epoch; the group's own may just have been incremented.
        name, number, members = group.name, group.epochs.assignment, tuple(group.members.values())
        gone = [ConsumerGroupChange(ConsumerGroupKey(name, each.id), None) for each in members]
        beside = self.before.return_batches(name, number, members)
        self._append([*gone, ConsumerGroupChange(ConsumerGroupKey(name), None)], beside)
        for each in members:
            self._set_timers(group, each.id, each)
        self._state.groups.vacate(name)
        self.before.take_back(name, number, members)

    def _take_name(self, group: ConsumerGroup, *, was_empty: bool) -> None:
        """Reserve the group's name while it has members; free it when the last one has left."""
        if group.members and was_empty:
            self._state.groups.occupy(group.name, KIND)
            self.deadlines.clear((group.name, "forget", ""))
        elif not group.members and not was_empty:
            self._state.groups.vacate(group.name)
            self._remember_for_a_while(group.name)

    def _append(self, changes: Iterable[ConsumerGroupChange], beside: Batches = ()) -> Durable:
        changes = list(changes)
        durable = self._journal.append(changes, self._now_ms(), beside)
        for change in changes:
            self.fold.apply(change)
        return durable

    def _set_timers(self, group: ConsumerGroup, member_id: str, was: ConsumerMember | None) -> None:
        """Set or clear a member's deadline for giving up revoked partitions."""
        member = group.members.get(member_id)
        rebalance: Timer = (group.name, "rebalance", member_id)
        if member is None:
            self.deadlines.clear((group.name, "session", member_id))
        if member is None or member.profile.classic is None:
            self.deadlines.clear((group.name, "join", member_id))
            self.deadlines.clear((group.name, "sync", member_id))
        # Classic members have the join deadline instead.
        is_classic = member is not None and member.profile.classic is not None
        if member is None or is_classic or member.current.stage is not Stage.REVOKING:
            self.deadlines.clear(rebalance)
        elif (
            was is None
            or was.current.stage is not Stage.REVOKING
            or was.current.epoch != member.current.epoch
        ):
            timeout_ms = member.profile.rebalance_timeout_ms
            self.deadlines.set(rebalance, self.monotonic_ms() + timeout_ms)

    def hear(self, name: str, member_id: str) -> None:
        """Restart a member's session timeout, as the member was heard from."""
        group = self.fold.groups.get(name)
        member = None if group is None else group.members.get(member_id)
        if member is None:
            # The last change has just made this a classic group.
            return
        timeout_ms = self._configs.number(name, CONSUMER_SESSION_TIMEOUT)
        if member.profile.classic is not None:
            timeout_ms = member.profile.classic.session_timeout_ms
        self.deadlines.set((name, "session", member_id), self.monotonic_ms() + timeout_ms)

    def interval_ms(self, name: str) -> int:
        """Return the heartbeat interval: in large groups longer, at most a third of the session."""
        interval_ms = self._configs.number(name, CONSUMER_HEARTBEAT_INTERVAL)
        session_ms = self._configs.number(name, CONSUMER_SESSION_TIMEOUT)
        # This limits one group to a thousand heartbeats a second.
        return max(interval_ms, min(len(self.fold.groups[name].members), session_ms // 3))

    def _remember_for_a_while(self, name: str) -> None:
        due_ms = self.monotonic_ms() + self.limits.forget_after_ms
        self.deadlines.set((name, "forget", ""), due_ms)

    def _load(self) -> None:
        """Replay the journal, and restart all sessions."""
        apply = self.fold.apply
        self._journal.replay(lambda key, value: apply(ConsumerGroupChange(key, value)))
        for group in self.fold:
            for regex in group.regexes:
                self.subscribed_topics.learn_again(regex)
            # Topics may have changed just before a crash.
            group.outdated = True
            for member_id in group.members:
                self.hear(group.name, member_id)
                self._set_timers(group, member_id, None)
            if group.members:
                self._state.groups.occupy(group.name, KIND)
            else:
                self._remember_for_a_while(group.name)
