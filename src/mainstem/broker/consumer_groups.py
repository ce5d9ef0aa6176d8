"""Groups whose members the broker assigns itself: each shows itself, and hears what to read.

How this works: a member sends heartbeats, and all that happens to it is in the answers. Whoever
comes, goes or wants something else gives the group another epoch; with the next heartbeat of
anybody partitions are assigned for that epoch (``assignors``), and each member comes there at its
own pace (``reconciliation``), a member that is told to give up partitions within its rebalance
timeout. One that is silent for the group's session timeout is taken out, and fenced by that: its
epoch is no longer known. Everything is written down before it is answered, members and what they
own included, so that after a restart they go on as if nothing had happened.

    session     a member has been silent
    rebalance   a member has not given up what it was told to
    forget      the group has been empty for a while, and has no cursors: nothing is left of it
"""

import uuid
from collections.abc import Callable, Iterable
from typing import Literal, Protocol

import msgspec
from msgspec.structs import replace

from mainstem.broker.consumer_group_description import ConsumerGroupDescription, described
from mainstem.broker.consumer_group_draft import ConsumerGroupDraft
from mainstem.broker.consumer_group_fold import (
    LEFT_FOR_A_WHILE,
    NOTHING,
    ConsumerGroup,
    ConsumerGroupChange,
    ConsumerGroupFold,
    ConsumerGroupKey,
    ConsumerMember,
    Epochs,
    Stage,
    Value,
    WrittenMember,
)
from mainstem.broker.consumer_heartbeat import (
    Heard,
    Heartbeat,
    check,
    known,
    sender,
    updated,
)
from mainstem.broker.deadlines import Deadlines
from mainstem.broker.group_configs import (
    CONSUMER_HEARTBEAT_INTERVAL,
    CONSUMER_SESSION_TIMEOUT,
    GroupConfigs,
)
from mainstem.broker.group_limits import GroupLimits
from mainstem.broker.journal import CONSUMER_GROUPS, Journal
from mainstem.broker.reconciliation import reconcile
from mainstem.broker.state import State
from mainstem.broker.wishes import Wishes
from mainstem.core.errors import (
    GroupFull,
    IllegalGeneration,
    InvalidSetting,
    MainstemError,
    StaleMemberEpoch,
    UnknownMember,
)
from mainstem.log.durable import AT_ONCE
from mainstem.log.port import Durable

KIND = "consumer protocol"
"""What these groups are called beside those of other kinds."""
DEFAULTS = GroupLimits()
_AGAIN_MS = 1_000
"""When to try again what could not be written down."""

Timer = tuple[str, Literal["session", "rebalance", "forget"], str]


class Before(Protocol):
    """Groups of another kind, which become consumer groups once nobody is in them."""

    def latest(self, name: str) -> int:
        """Return the number that a group has got to, 0 if it is not known."""

    def hand_over(self, name: str) -> None:
        """Forget a group that has become a consumer group."""


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
        self._configs = configs
        self._now_ms = now_ms
        self._monotonic_ms = monotonic_ms or now_ms
        self._new_id = new_id
        self._limits = limits
        self.fold = ConsumerGroupFold()
        self._wishes = Wishes(state.topics)
        self._deadlines = Deadlines[Timer]()
        self.before: Before | None = None
        """Who knows what a group was before it was one of these."""
        self._journal = Journal[ConsumerGroupKey, Value](
            state.log,
            CONSUMER_GROUPS,
            msgspec.json.Decoder(ConsumerGroupKey).decode,
            msgspec.json.Decoder(Epochs | WrittenMember).decode,
        )
        self._load()

    # Members

    def heartbeat(self, beat: Heartbeat) -> Heard:
        """Hear a member, and tell it what to own; answer it when that is durable."""
        check(beat)
        with self._state.lock:
            group = self._group(beat)
            draft = ConsumerGroupDraft(group)
            was = sender(draft, beat, self._new_id)
            member = replace(was, profile=updated(was.profile, beat))
            if member.profile.wishes != was.profile.wishes or was.id not in group.members:
                self._check_room(draft, member)
                draft.begin_epoch()
            draft.put(member)
            self._assign(draft)
            member = draft.member(member.id)
            epoch, owners = draft.epochs.assignment, group.owners
            target, owned = member.target, beat.owned
            current = reconcile(member.id, member.current, target, epoch, owners, owned)
            draft.put(replace(member, current=current))
            durable = self._write(draft)
            self._hear(group.name, member.id)
            is_new = beat.is_full or current.owned != was.current.owned
            return Heard(
                member.id,
                current.epoch,
                self._interval_ms(group.name),
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
                return self._remove(group, member_id)
            current = replace(
                member.current, epoch=LEFT_FOR_A_WHILE, stage=Stage.STABLE, revoked=NOTHING
            )
            draft = ConsumerGroupDraft(group)
            draft.put(replace(member, current=current))
            return self._write(draft)

    def tick(self) -> None:
        """Do what is due by now: members that are silent or late are taken out."""
        with self._state.lock:
            now_ms = self._monotonic_ms()
            while (timer := self._deadlines.take(now_ms)) is not None:
                try:
                    self._expire(timer)
                except MainstemError:
                    # There will be space when it is tried again.
                    self._deadlines.set(timer, now_ms + _AGAIN_MS)

    def next_deadline(self) -> int | None:
        """Return when ``tick`` should be called, on the monotonic clock; None if never."""
        with self._state.lock:
            return self._deadlines.next()

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
        current = member.current.epoch
        if current != epoch and transactional:
            raise IllegalGeneration(name, epoch, current)
        if current != epoch:
            raise StaleMemberEpoch(name, member_id, epoch, current)

    def check_fetch(self, name: str, member_id: str | None, epoch: int) -> None:
        """Refuse to tell cursors to somebody who says it is a member, and is not any more."""
        with self._state.lock:
            if member_id and epoch >= 0 and name in self.fold.groups:
                self.check_commit(name, member_id, epoch)

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
            return set() if group is None else set(self._wishes.of_group(group))

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

    def forget(self, name: str) -> Durable:
        """Forget a group that has no members, if there is one."""
        if name not in self.fold.groups:
            return AT_ONCE
        self._deadlines.clear((name, "forget", ""))
        return self._append([ConsumerGroupChange(ConsumerGroupKey(name), None)])

    def topic_changed(self, name: str) -> None:
        """Take note that a topic was created, deleted, or got more partitions."""
        regexes = self._wishes.topic_changed(name)
        for group in self.fold:
            if name in group.names or not regexes.isdisjoint(group.regexes):
                group.outdated = True

    # Deciding

    def _group(self, beat: Heartbeat) -> ConsumerGroup:
        group = self.fold.groups.get(beat.group)
        if group is None or not group.members:
            if not beat.is_join:
                raise UnknownMember(beat.group, beat.member_id)
            self._state.groups.check_not_live(beat.group, f"joined by {KIND} consumers")
        if group is None:
            group = ConsumerGroup(beat.group)
            number = 0 if self.before is None else self.before.latest(beat.group)
            group.epochs = Epochs(number, number)
        return group

    def _check_room(self, draft: ConsumerGroupDraft, member: ConsumerMember) -> None:
        """Refuse what would be too much."""
        group, limits, size = draft.group, self._limits, member.profile.size_bytes
        # One that comes back takes a place that is there.
        is_new = member.id not in group.members and not draft.changed
        if is_new and len(group.members) >= limits.max_members:
            raise GroupFull(group.name, f"{limits.max_members} members")
        if is_new and self.fold.members >= limits.max_members_of_all:
            raise GroupFull(group.name, f"{limits.max_members_of_all} members in all groups")
        if size > limits.max_member_bytes:
            raise InvalidSetting(
                f"a member of group {group.name!r} names topics in {size} bytes; at most "
                f"{limits.max_member_bytes} are kept: subscribe to fewer topics"
            )
        if self.fold.held_bytes + size > limits.max_bytes:
            raise GroupFull(group.name, f"{limits.max_bytes} bytes for all groups")
        if member.profile.regex:
            self._wishes.learn(member.profile.regex)

    def _assign(self, draft: ConsumerGroupDraft) -> None:
        """Decide who should own what, if the group's epoch says so or topics have changed."""
        group, now_ms = draft.group, self._monotonic_ms()
        if group.outdated and not draft.is_due:
            if self._wishes.are_met(group, group.members.values()):
                group.outdated = False
            else:
                draft.begin_epoch()
        # Thousands who join one after the other must not be assigned anew with each of them:
        # whoever is not served now is served with its next heartbeat.
        pause_ms = (len(group.members) + len(group.owners) // 10) // 50
        is_first = group.assigned_ms is None or draft.epochs.assignment == 0
        if draft.is_due and (is_first or now_ms >= (group.assigned_ms or 0) + pause_ms):
            draft.assign(self._wishes)

    def _remove(self, group: ConsumerGroup, member_id: str) -> Durable:
        draft = ConsumerGroupDraft(group)
        draft.remove(member_id)
        draft.begin_epoch()
        return self._write(draft)

    def _expire(self, timer: Timer) -> None:
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
            self._remove(group, member_id)

    # Writing down

    def _write(self, draft: ConsumerGroupDraft) -> Durable:
        """Write down what was decided, make it true, and see to what follows from it."""
        if not draft.changed and draft.epochs == draft.group.epochs:
            return AT_ONCE
        name, was_empty = draft.group.name, not draft.group.members
        is_new = name not in self.fold.groups
        regexes = set(draft.group.regexes)
        before = {each: draft.group.members.get(each) for each in draft.changed}
        durable = self._append(draft.changes())
        group = self.fold.groups[name]
        if is_new and self.before is not None:
            self.before.hand_over(name)
        if draft.is_assigned:
            group.outdated, group.assigned_ms = False, self._monotonic_ms()
        for member_id, was in before.items():
            self._set_timers(group, member_id, was)
        self._take_name(group, was_empty=was_empty)
        for regex in regexes - group.regexes.keys():
            if not any(regex in each.regexes for each in self.fold):
                self._wishes.unlearn(regex)
        return durable

    def _take_name(self, group: ConsumerGroup, *, was_empty: bool) -> None:
        """Keep the name from groups of other kinds while there are members."""
        if group.members and was_empty:
            self._state.groups.occupy(group.name, KIND)
            self._deadlines.clear((group.name, "forget", ""))
        elif not group.members and not was_empty:
            self._state.groups.vacate(group.name)
            self._remember_for_a_while(group.name)

    def _append(self, changes: Iterable[ConsumerGroupChange]) -> Durable:
        changes = list(changes)
        durable = self._journal.append(changes, self._now_ms())
        for change in changes:
            self.fold.apply(change)
        return durable

    def _set_timers(self, group: ConsumerGroup, member_id: str, was: ConsumerMember | None) -> None:
        """Set how long a member may take to give partitions up; none of one that is gone."""
        member = group.members.get(member_id)
        rebalance: Timer = (group.name, "rebalance", member_id)
        if member is None:
            self._deadlines.clear((group.name, "session", member_id))
        if member is None or member.current.stage is not Stage.REVOKING:
            self._deadlines.clear(rebalance)
        elif (
            was is None
            or was.current.stage is not Stage.REVOKING
            or was.current.epoch != member.current.epoch
        ):
            timeout_ms = member.profile.rebalance_timeout_ms
            self._deadlines.set(rebalance, self._monotonic_ms() + timeout_ms)

    def _hear(self, name: str, member_id: str) -> None:
        timeout_ms = self._configs.number(name, CONSUMER_SESSION_TIMEOUT)
        self._deadlines.set((name, "session", member_id), self._monotonic_ms() + timeout_ms)

    def _interval_ms(self, name: str) -> int:
        """Return how often to show oneself; in large groups less often, if sessions allow."""
        interval_ms = self._configs.number(name, CONSUMER_HEARTBEAT_INTERVAL)
        session_ms = self._configs.number(name, CONSUMER_SESSION_TIMEOUT)
        # A thousand heartbeats a second from one group are enough.
        return max(interval_ms, min(len(self.fold.groups[name].members), session_ms // 3))

    def _remember_for_a_while(self, name: str) -> None:
        due_ms = self._monotonic_ms() + self._limits.forget_after_ms
        self._deadlines.set((name, "forget", ""), due_ms)

    def _load(self) -> None:
        """Read everything back, and let the sessions of all members begin anew."""
        apply = self.fold.apply
        self._journal.replay(lambda key, value: apply(ConsumerGroupChange(key, value)))
        for group in self.fold:
            for regex in group.regexes:
                self._wishes.learn(regex, budget=None)
            # Topics may have changed just before a crash.
            group.outdated = True
            for member_id in group.members:
                self._hear(group.name, member_id)
                self._set_timers(group, member_id, None)
            if group.members:
                self._state.groups.occupy(group.name, KIND)
            else:
                self._remember_for_a_while(group.name)
