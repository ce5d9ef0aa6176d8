"""Heartbeats of consumer groups: the request, its sender, and the check of its epoch."""

from collections.abc import Callable

import msgspec
from msgspec.structs import replace

from mainstem.broker.groups.assignors import ASSIGNORS
from mainstem.broker.groups.consumer.draft import ConsumerGroupDraft
from mainstem.broker.groups.consumer.records import (
    LEFT_FOR_A_WHILE,
    ConsumerGroup,
    ConsumerMember,
    Current,
    Partitions,
    Profile,
)
from mainstem.broker.groups.static_members import known_member
from mainstem.core.errors import (
    FencedMemberEpoch,
    InvalidSetting,
    UnreleasedInstance,
    UnsupportedAssignor,
)
from mainstem.core.names import check_group
from mainstem.log.port import Durable

MAX_ID_LENGTH = 300


class Heartbeat(msgspec.Struct, frozen=True, kw_only=True):
    """A ConsumerGroupHeartbeat request; a field that is None is unchanged."""

    group: str
    member_id: str
    """Chosen by the member; if empty, the broker chooses one."""
    epoch: int
    """The member's epoch; 0 to join."""
    instance_id: str | None = None
    rack: str | None = None
    client_id: str = ""
    host: str = ""
    rebalance_timeout_ms: int | None = None
    names: tuple[str, ...] | None = None
    regex: str | None = None
    assignor: str | None = None
    owned: Partitions | None = None
    """The partitions that the member owns now, with revoked ones not given up yet."""

    @property
    def is_join(self) -> bool:
        """Whether the member joins, for the first time or again."""
        return self.epoch == 0

    @property
    def is_full(self) -> bool:
        """Whether the request carries all fields, so that the response must carry all, too."""
        says_all = None not in (self.rebalance_timeout_ms, self.names, self.owned)
        return self.is_join or says_all


class HeartbeatResponse(msgspec.Struct, frozen=True):
    """The answer to a heartbeat."""

    member_id: str
    epoch: int
    interval_ms: int
    """After how many ms the member sends its next heartbeat."""
    owned: Partitions | None
    """The partitions assigned to the member; None if unchanged."""
    durable: Durable


def check(beat: Heartbeat) -> None:
    """Raise if the request is invalid, whatever the state of the group."""
    check_group(beat.group)
    for text in (beat.member_id, beat.instance_id, beat.rack, beat.client_id):
        if text is not None and len(text) > MAX_ID_LENGTH:
            raise InvalidSetting(
                f"an id of {len(text)} characters ({text!r:.100}); {MAX_ID_LENGTH} are allowed"
            )
    if beat.assignor is not None and beat.assignor not in ASSIGNORS:
        raise UnsupportedAssignor(beat.assignor, tuple(ASSIGNORS))


def sender(draft: ConsumerGroupDraft, beat: Heartbeat, new_id: Callable[[], str]) -> ConsumerMember:
    """Return the stored state of the member that sent a heartbeat, or a new member."""
    group = draft.group
    if not beat.is_join:
        member = known_member(group, beat.member_id, beat.instance_id)
        _check_epoch(group, member, beat)
        return member
    holder = group.static.get(beat.instance_id) if beat.instance_id is not None else None
    if holder is not None and holder != beat.member_id:
        old = group.members[holder]
        if old.current.epoch != LEFT_FOR_A_WHILE and old.profile.classic is None:
            raise UnreleasedInstance(group.name, beat.instance_id or "")
        draft.remove(holder)
        current = replace(old.current, epoch=0, previous_epoch=0)
        return replace(old, id=beat.member_id or new_id(), current=current)
    member_id = beat.member_id or new_id()
    was = group.members.get(member_id)
    if was is None:
        return ConsumerMember(member_id, Profile(0))
    if was.current.previous_epoch != 0 or was.current.epoch < 0:
        # The member lost its state and starts again with no partitions.
        return replace(was, current=Current())
    return was


def _check_epoch(group: ConsumerGroup, member: ConsumerMember, beat: Heartbeat) -> None:
    """Raise FencedMemberEpoch on a wrong epoch, unless the member only lost the last response."""
    current = member.current
    if beat.epoch == current.epoch:
        return
    lost = beat.epoch == current.previous_epoch and beat.epoch < current.epoch
    if not lost or beat.owned is None or not beat.owned <= current.owned | current.revoked:
        raise FencedMemberEpoch(group.name, member.id, beat.epoch, current.epoch)


def updated(profile: Profile, beat: Heartbeat) -> Profile:
    """Return a member's profile with the heartbeat's fields; a join replaces all fields."""
    profile = Profile(0) if beat.is_join else profile
    timeout_ms, names = beat.rebalance_timeout_ms, beat.names
    return Profile(
        rebalance_timeout_ms=profile.rebalance_timeout_ms if timeout_ms is None else timeout_ms,
        names=profile.names if names is None else tuple(sorted(set(names))),
        regex=profile.regex if beat.regex is None else beat.regex,
        assignor=profile.assignor if beat.assignor is None else beat.assignor,
        instance_id=profile.instance_id if beat.instance_id is None else beat.instance_id,
        rack=profile.rack if beat.rack is None else beat.rack,
        client_id=beat.client_id,
        host=beat.host,
    )
