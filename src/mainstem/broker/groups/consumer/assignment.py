"""Consumer groups as they change: drafts are assigned and written down, time runs out.

session     a member has been silent
rebalance   a member has not given up what it was told to
join, sync  a member of the classic protocol has not come again, or not asked what it owns
forget      the group has been empty for a while, and has no cursors: nothing is left of it
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Literal, Protocol

import msgspec
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
from mainstem.broker.journal import CONSUMER_GROUPS, Journal, Written
from mainstem.broker.state import State
from mainstem.core.errors import GroupFull, InvalidSetting, StorageFull
from mainstem.log.durable import AT_ONCE
from mainstem.log.port import Durable

KIND = "consumer protocol"
"""What these groups are called beside those of other kinds."""

Timer = tuple[str, Literal["session", "rebalance", "join", "sync", "forget"], str]
"""Whose time it is: group, kind, and the member if it is one's own."""


class Before(Protocol):
    """Groups of the classic protocol, which become consumer groups, and consumer groups them."""

    def latest(self, name: str) -> int:
        """Return the number that a group has got to, 0 if it is not known."""

    def offered(self, name: str) -> Sequence[ConsumerMember] | None:
        """Return the members of a live group as classic members, None if it is not live.

        Raises GroupIsLive if they cannot be among consumers of the other protocol.
        """

    def hand_over_batches(self, name: str) -> Written:
        """Return what has to be appended for a group to become a consumer group."""

    def hand_over(self, name: str) -> None:
        """Forget a group that has become a consumer group; what had to be appended was."""

    def return_batches(self, name: str, number: int, members: Sequence[ConsumerMember]) -> Written:
        """Return what has to be appended for a group to be taken back."""

    def take_back(self, name: str, number: int, members: Sequence[ConsumerMember]) -> None:
        """Go on with a group that has only members of the classic protocol left.

        What has to be appended for that was.
        """

    def answer(self) -> None:
        """Answer who has waited in a group that was handed over; used without the lock."""


class Assignments:
    """All consumer groups; used under the broker's lock."""

    def __init__(
        self,
        state: State,
        configs: GroupConfigs,
        now_ms: Callable[[], int],
        monotonic_ms: Callable[[], int],
        limits: GroupLimits,
    ) -> None:
        self._state = state
        self._configs = configs
        self._now_ms = now_ms
        self.monotonic_ms = monotonic_ms
        self.limits = limits
        self.fold = ConsumerGroupFold()
        self.subscribed_topics = SubscribedTopics(state.topics)
        self.deadlines = Deadlines[Timer](state.alarm)
        self.before: Before | None = None
        """Who knows what a group was before it was one of these."""
        self._journal = Journal[ConsumerGroupKey, Value](
            state.log,
            CONSUMER_GROUPS,
            msgspec.json.Decoder(ConsumerGroupKey).decode,
            msgspec.json.Decoder(Epochs | WrittenMember).decode,
        )
        self._load()

    def draft(self, name: str) -> ConsumerGroupDraft:
        """Begin a change of a group that somebody joins; one of another kind is taken over."""
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
        """Let a member be what it says it is now, and take its next step."""
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
        """Refuse what would be too much."""
        group, limits, size = draft.group, self.limits, member.size_bytes
        # One that comes back takes a place that is there, and so do classic members.
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
        """Decide who should own what, if the group's epoch says so or topics have changed."""
        group, now_ms = draft.group, self.monotonic_ms()
        if not draft.is_due and self.is_outdated(group):
            draft.begin_epoch()
        # Thousands who join one after the other must not be assigned anew with each of them:
        # whoever is not served now is served with its next heartbeat.
        pause_ms = (len(group.members) + len(group.owners) // 10) // 50
        is_first = group.assigned_ms is None or draft.epochs.assignment == 0
        if draft.is_due and (is_first or now_ms >= (group.assigned_ms or 0) + pause_ms):
            draft.assign(self.subscribed_topics)

    def is_outdated(self, group: ConsumerGroup) -> bool:
        """Tell whether topics have changed so that partitions have to be assigned anew."""
        if group.outdated and self.subscribed_topics.are_met(group, group.members.values()):
            group.outdated = False
        return group.outdated

    def remove(self, group: ConsumerGroup, member_id: str) -> Durable:
        """Take a member out; the others are assigned anew."""
        draft = ConsumerGroupDraft(group)
        draft.remove(member_id)
        draft.begin_epoch()
        return self.write(draft)

    def expire(self, timer: Timer) -> None:
        """Do what is to be done when a deadline has passed."""
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

    def forget(self, name: str, beside: Written = ()) -> Durable:
        """Forget a group that has no members, if there is one, and what is written beside it."""
        is_known = name in self.fold.groups
        changes = [ConsumerGroupChange(ConsumerGroupKey(name), None)] if is_known else []
        durable = self._append(changes, beside)
        self.deadlines.clear((name, "forget", ""))
        return durable

    # Writing down

    def write(self, draft: ConsumerGroupDraft) -> Durable:
        """Write down what was decided, make it true, and see to what follows from it."""
        if not draft.changed and draft.epochs == draft.group.epochs:
            return AT_ONCE
        name, is_new = draft.group.name, draft.group.name not in self.fold.groups
        was_empty = is_new or not draft.group.members
        regexes = set(draft.group.regexes)
        before = {each: draft.group.members.get(each) for each in draft.changed}
        beside: Written = ()
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
            # On a full disk it stays a consumer group, which classic members can use as well; the
            # next write to it tries again.
            with suppress(StorageFull):
                self._give_back(group)
        return durable

    def _give_back(self, group: ConsumerGroup) -> None:
        """Let a group be one of the classic protocol, which nobody in it speaks better.

        One append, so that there is always a group of one kind.
        """
        if self.before is None:
            return
        # The epoch that members are in; of the one that has just begun nobody has heard.
        name, number, members = group.name, group.epochs.assignment, tuple(group.members.values())
        gone = [ConsumerGroupChange(ConsumerGroupKey(name, each.id), None) for each in members]
        beside = self.before.return_batches(name, number, members)
        self._append([*gone, ConsumerGroupChange(ConsumerGroupKey(name), None)], beside)
        for each in members:
            self._set_timers(group, each.id, each)
        self._state.groups.vacate(name)
        self.before.take_back(name, number, members)

    def _take_name(self, group: ConsumerGroup, *, was_empty: bool) -> None:
        """Keep the name from groups of other kinds while there are members."""
        if group.members and was_empty:
            self._state.groups.occupy(group.name, KIND)
            self.deadlines.clear((group.name, "forget", ""))
        elif not group.members and not was_empty:
            self._state.groups.vacate(group.name)
            self._remember_for_a_while(group.name)

    def _append(self, changes: Iterable[ConsumerGroupChange], beside: Written = ()) -> Durable:
        changes = list(changes)
        durable = self._journal.append(changes, self._now_ms(), beside)
        for change in changes:
            self.fold.apply(change)
        return durable

    def _set_timers(self, group: ConsumerGroup, member_id: str, was: ConsumerMember | None) -> None:
        """Set how long a member may take to give partitions up; none of one that is gone."""
        member = group.members.get(member_id)
        rebalance: Timer = (group.name, "rebalance", member_id)
        if member is None:
            self.deadlines.clear((group.name, "session", member_id))
        if member is None or member.profile.classic is None:
            self.deadlines.clear((group.name, "join", member_id))
            self.deadlines.clear((group.name, "sync", member_id))
        # Classic members have no such time of their own: they are to join again, and in time.
        is_guest = member is not None and member.profile.classic is not None
        if member is None or is_guest or member.current.stage is not Stage.REVOKING:
            self.deadlines.clear(rebalance)
        elif (
            was is None
            or was.current.stage is not Stage.REVOKING
            or was.current.epoch != member.current.epoch
        ):
            timeout_ms = member.profile.rebalance_timeout_ms
            self.deadlines.set(rebalance, self.monotonic_ms() + timeout_ms)

    def hear(self, name: str, member_id: str) -> None:
        """Let a member's session begin anew."""
        group = self.fold.groups.get(name)
        member = None if group is None else group.members.get(member_id)
        if member is None:
            # With its last step the group became one of the classic protocol.
            return
        timeout_ms = self._configs.number(name, CONSUMER_SESSION_TIMEOUT)
        if member.profile.classic is not None:
            timeout_ms = member.profile.classic.session_timeout_ms
        self.deadlines.set((name, "session", member_id), self.monotonic_ms() + timeout_ms)

    def interval_ms(self, name: str) -> int:
        """Return how often to show oneself; in large groups less often, if sessions allow."""
        interval_ms = self._configs.number(name, CONSUMER_HEARTBEAT_INTERVAL)
        session_ms = self._configs.number(name, CONSUMER_SESSION_TIMEOUT)
        # A thousand heartbeats a second from one group are enough.
        return max(interval_ms, min(len(self.fold.groups[name].members), session_ms // 3))

    def _remember_for_a_while(self, name: str) -> None:
        due_ms = self.monotonic_ms() + self.limits.forget_after_ms
        self.deadlines.set((name, "forget", ""), due_ms)

    def _load(self) -> None:
        """Read everything back, and let the sessions of all members begin anew."""
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
