"""Share groups (KIP-932): consumers that share the events of one or more topics one by one.

How this works: a share group is the set of queues with its name, one on each topic that a member
has ever subscribed to, including queues that were not created by the group. Members only send
heartbeats with their subscriptions, and may acquire from every partition of those topics:
partitions are not divided, so there is no rebalance. Members are not stored; after a restart they
join again. The group's progress is in its queues.
"""

import threading
from collections.abc import Iterable, Mapping

import msgspec

from mainstem.broker.deadlines import Deadlines
from mainstem.broker.groups.configs import GroupConfigs
from mainstem.broker.groups.limits import GroupLimits
from mainstem.broker.groups.memory_estimate import texts_bytes
from mainstem.broker.groups.share.group import (
    AssignedTopics,
    ShareGroup,
    ShareHeartbeat,
    ShareMember,
)
from mainstem.broker.groups.share.offset_reset import back_ms
from mainstem.broker.groups.share.settings import (
    ShareSettings,
    altered_queue,
    fresh_queue,
    settings_of,
)
from mainstem.broker.queues.description import QueueState
from mainstem.broker.queues.queues import Queues
from mainstem.broker.state import State
from mainstem.broker.topics.catalog import Topic
from mainstem.core.errors import (
    GroupFull,
    GroupIsLive,
    InvalidSetting,
    MainstemError,
    OffsetOutOfRange,
    UnknownGroup,
    UnknownMember,
    UnknownPartition,
    UnknownTopic,
)
from mainstem.core.names import check_group
from mainstem.log.commit.durable import AT_ONCE
from mainstem.log.port import Durable

KIND = "share"
"""What error messages call this kind of group."""
DEFAULTS = GroupLimits()


class ShareHeartbeatResponse(msgspec.Struct, frozen=True):
    """The answer to a heartbeat: the member's epoch, the heartbeat interval, its assignment."""

    epoch: int
    heartbeat_ms: int
    places: AssignedTopics | None
    durable: Durable
    """Tells when the queues that this heartbeat created are durable."""


class ShareMemberState(msgspec.Struct, frozen=True):
    """The description of a member, for administrators."""

    id: str
    client_id: str
    host: str
    rack: str | None
    epoch: int
    topics: tuple[str, ...]
    places: AssignedTopics


class ShareGroupState(msgspec.Struct, frozen=True):
    """The description of a share group, for administrators."""

    name: str
    epoch: int
    members: tuple[ShareMemberState, ...]


class ShareGroups:
    """Public interface of share groups; synchronous and thread-safe."""

    def __init__(
        self,
        state: State,
        queues: Queues,
        configs: GroupConfigs,
        limits: GroupLimits = DEFAULTS,
    ) -> None:
        self._state = state
        self._queues, self._configs = queues, configs
        self._now_ms, self._monotonic_ms = state.clocks
        self._limits = limits
        self._lock = threading.Lock()
        """Protects the members; acquired before the queues' lock, never while that is held."""
        self._groups: dict[str, ShareGroup] = {}
        self._members = self._bytes = 0
        """The number of members of all groups, and the estimated bytes of their subscriptions."""
        self._silent = Deadlines[tuple[str, str]](state.alarm)
        # Group settings override the queues' own at read time; removing one restores the queue's.
        queues.lay_over(lambda name, own: altered_queue(own, configs.fold.of(name)))
        configs.changed = queues.overlay_changed

    # Members

    def heartbeat(self, beat: ShareHeartbeat) -> ShareHeartbeatResponse:
        """Join a group or stay in it; creates queues for topics that are new to the group."""
        check_group(beat.group)
        settings = self.settings(beat.group)
        with self._lock:
            group = self._groups.get(beat.group) or ShareGroup(beat.group)
            self._check_size(group, beat)
            is_new = beat.member_id not in group.members
            if is_new:
                self._check_newcomer(group, beat)
            was = _size(group, beat.member_id)
            member = group.heartbeat(beat)
            self._bytes += _size(group, beat.member_id) - was
            self._members += is_new
            self._groups[beat.group] = group
            due_ms = self._monotonic_ms() + settings.session_ms
            self._silent.set((group.name, member.id), due_ms)
            durable = self._create_queues(group, member, settings)
            told = group.assign(member, self._places(member))
        return ShareHeartbeatResponse(member.epoch, settings.heartbeat_ms, told, durable)

    def leave(self, group: str, member_id: str) -> None:
        """Remove a member; its unsettled deliveries stay in flight. Raises UnknownMember."""
        with self._lock:
            found = self._groups.get(group)
            if found is None or member_id not in found.members:
                raise self._unknown_member(group, member_id)
            self._take_out(found, member_id)

    def tick(self) -> None:
        """Remove members whose session has expired."""
        with self._lock:
            while (due := self._silent.take(self._monotonic_ms())) is not None:
                self._take_out(self._groups[due[0]], due[1])

    def next_deadline(self) -> int | None:
        """Return when ``tick`` is next due, on the monotonic clock; None if never."""
        with self._lock:
            return self._silent.next()

    # Administration

    def settings(self, group: str) -> ShareSettings:
        """Return the effective settings of a group."""
        return settings_of(self._configs.fold.all_of(group))

    def names(self) -> list[str]:
        """Return the names of the share groups that have members or queues."""
        with self._lock:
            return sorted({*self._groups, *self._queues.names()})

    def has_members(self, name: str) -> bool:
        """Tell whether a share group of that name has members."""
        with self._lock:
            return name in self._groups

    def describe(self, name: str) -> ShareGroupState:
        """Return the description of a group; raises UnknownGroup."""
        with self._lock:
            group = self._groups.get(name)
            if group is None:
                self._check_known(name)
                return ShareGroupState(name, 0, ())
            return ShareGroupState(
                name, group.epoch, tuple(self._described(each) for each in group.members.values())
            )

    def positions(self, name: str) -> list[QueueState]:
        """Return the group's progress in each of its topics; raises UnknownGroup."""
        with self._lock:
            self._check_known(name)
        return self._queues.every(name)

    def check_movable(self, name: str) -> None:
        """Raise if ``seek`` would refuse this group for every topic, such as GroupIsLive."""
        check_group(name)
        with self._lock:
            self._check_empty(name, "moved")

    def seek(
        self, name: str, topic: str, offsets: Mapping[int, int]
    ) -> tuple[Durable, dict[int, MainstemError]]:
        """Set the offsets of a group without members in a topic; creates missing queues.

        Also returns the refused partitions, each with its error.
        """
        check_group(name)
        with self._lock:
            self._check_empty(name, "moved")
            found, refused = self._state.topics.get(topic), dict[int, MainstemError]()
            if found.internal:
                raise UnknownTopic(topic)
            for number, offset in offsets.items():
                try:
                    self._queues.check_offset(topic, number, offset)
                except (OffsetOutOfRange, UnknownPartition) as error:
                    refused[number] = error
            moved = {at: offset for at, offset in offsets.items() if at not in refused}
            if not moved:
                return AT_ONCE, refused
            if self._queues.settings(topic, name) is None:
                starts = self._starts(found, self.settings(name).start) | moved
                return self._create(name, found, starts), refused
            return self._queues.seek(topic, name, moved), refused

    def forget(self, name: str, topics: Iterable[str]) -> tuple[Durable, dict[str, MainstemError]]:
        """Delete the offsets of a group without members in some topics, in one append.

        Also returns the topics that were refused, each with its error.
        """
        check_group(name)
        with self._lock:
            self._check_empty(name, "forgotten")
            self._check_known(name)
            return self._queues.delete_on(topics, name)

    def delete(self, name: str) -> Durable:
        """Delete a group without members, in one append."""
        with self._lock:
            self._check_empty(name, "deleted")
            self._check_known(name)
            return self._queues.delete_all(name)

    # Helpers, used under the lock

    def _check_newcomer(self, group: ShareGroup, beat: ShareHeartbeat) -> None:
        if beat.epoch:
            raise self._unknown_member(group.name, beat.member_id)
        if len(group.members) >= self._limits.max_members:
            raise GroupFull(group.name, f"{self._limits.max_members} members")
        if self._members >= self._limits.max_members_of_all:
            raise GroupFull(group.name, f"{self._limits.max_members_of_all} members in all groups")
        with self._state.lock:
            self._state.groups.occupy(group.name, KIND)

    def _unknown_member(self, name: str, member_id: str) -> MainstemError:
        """Return the error for a request with an unknown member id.

        After a restart, UnknownMember makes clients join again. They treat UnknownGroup as fatal,
        so it is returned only while another kind of group has the name.
        """
        with self._state.lock:
            if name not in self._groups and self._state.groups.is_live(name):
                return UnknownGroup(name)
        return UnknownMember(name, member_id)

    def _check_size(self, group: ShareGroup, beat: ShareHeartbeat) -> None:
        size, most = texts_bytes(beat.topics or ()), self._limits.max_member_bytes
        if size > most:
            raise InvalidSetting(
                f"a member of group {beat.group!r} names topics in {size} bytes; at most {most} "
                "are kept: subscribe to fewer topics"
            )
        if size and self._bytes - _size(group, beat.member_id) + size > self._limits.max_bytes:
            raise GroupFull(group.name, f"{self._limits.max_bytes} bytes for all groups")

    def _create_queues(
        self, group: ShareGroup, member: ShareMember, settings: ShareSettings
    ) -> Durable:
        """Create the missing queues on existing topics that a member subscribes to.

        Each heartbeat covers only its own member's topics, to bound the work.
        """
        topics = {name: self._state.topics.find(name) for name in member.topics}
        seen: dict[str, str | None] = {name: None for name, it in topics.items() if it is None}
        durable: Durable = AT_ONCE
        try:
            for name, topic in topics.items():
                if topic is None:
                    continue
                is_begun = self._queues.settings(name, group.name) is not None
                if not is_begun and not topic.internal:
                    # A topic that was created after the subscription is read from its start.
                    is_later = group.ids.get(name, topic.id) != topic.id
                    starts = {} if is_later else self._starts(topic, settings.start)
                    durable = self._create(group.name, topic, starts)
                seen[name] = topic.id
        finally:
            # On a full disk the member's next heartbeat tries again.
            group.update_topics(seen)
        return durable

    def _create(self, group: str, topic: Topic, starts: Mapping[int, int]) -> Durable:
        settings = fresh_queue(self._configs.fold.defaults)
        return self._queues.create(topic.name, group, settings, starts)

    def _starts(self, topic: Topic, start: str) -> dict[int, int]:
        log, back = self._state.log, back_ms(start)
        if start == "earliest":
            return {}
        starts = {at.number: log.bounds(at).tail for at in topic.partitions}
        if back is not None:
            for at in topic.partitions:
                found = log.offset_at(at, self._now_ms() - back)
                if found is not None:
                    starts[at.number] = found.offset
        return starts

    def _places(self, member: ShareMember) -> AssignedTopics:
        topics = [self._state.topics.find(name) for name in sorted(member.topics)]
        return tuple(
            (topic.name, topic.id, len(topic.partitions))
            for topic in topics
            if topic is not None and not topic.internal
        )

    def _take_out(self, group: ShareGroup, member_id: str) -> None:
        self._bytes -= _size(group, member_id)
        self._members -= 1
        group.forget(member_id)
        self._silent.clear((group.name, member_id))
        if not group.members:
            del self._groups[group.name]
            with self._state.lock:
                self._state.groups.vacate(group.name)

    def _described(self, member: ShareMember) -> ShareMemberState:
        return ShareMemberState(
            member.id,
            member.client_id,
            member.host,
            member.rack,
            member.epoch,
            member.topics,
            self._places(member),
        )

    def _check_known(self, name: str) -> None:
        if name not in self._groups and name not in self._queues.names():
            raise UnknownGroup(name)

    def _check_empty(self, name: str, deed: str) -> None:
        """Raise if the group, or a group of another kind with this name, has members."""
        if name in self._groups:
            count = len(self._groups[name].members)
            raise GroupIsLive(name, f"{count} members", deed)
        with self._state.lock:
            if self._state.groups.is_live(name):
                raise UnknownGroup(name)


def _size(group: ShareGroup, member_id: str) -> int:
    """Return the estimated bytes of a member's subscription; 0 if there is no such member."""
    member = group.members.get(member_id)
    return 0 if member is None else texts_bytes(member.topics)
