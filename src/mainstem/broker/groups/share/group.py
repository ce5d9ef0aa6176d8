"""One share group while it has members: the members, their subscriptions and epochs.

Its events and their locks are in the queues with its name (``broker/queues``).
"""

from collections import Counter
from collections.abc import Mapping

import msgspec

from mainstem.core.errors import FencedMemberEpoch, UnknownMember

AssignedTopics = tuple[tuple[str, str, int], ...]
"""Assigned topics, each with name, id and number of partitions."""


class ShareHeartbeat(msgspec.Struct, frozen=True, kw_only=True):
    """A ShareGroupHeartbeat request; ``topics`` is None if the subscription is unchanged."""

    group: str
    member_id: str
    epoch: int
    topics: tuple[str, ...] | None = None
    client_id: str = ""
    host: str = ""
    rack: str | None = None


class ShareMember:
    """One consumer of a share group."""

    def __init__(self, beat: ShareHeartbeat) -> None:
        self.id = beat.member_id
        self.client_id = beat.client_id
        self.host = beat.host
        self.rack = beat.rack
        self.topics: tuple[str, ...] = ()
        self.epoch = self.previous_epoch = 0
        self.assigned: AssignedTopics | None = None
        """The assignment that was last sent to the member."""


class ShareGroup:
    """One share group: each member may acquire events of all partitions of its topics.

    The epoch is incremented with every change in the group. A member that sends its previous epoch
    has not received the last response.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.epoch = 0
        self.members: dict[str, ShareMember] = {}
        self.wanted: Counter[str] = Counter()
        """The number of members that subscribe to each topic."""
        self.ids: dict[str, str | None] = {}
        """The id of each subscribed topic when last checked; None if there was no such topic."""

    def heartbeat(self, beat: ShareHeartbeat) -> ShareMember:
        """Add a member or update its subscription; raises UnknownMember, FencedMemberEpoch."""
        member = self.members.get(beat.member_id)
        if member is None:
            if beat.epoch:
                raise UnknownMember(self.name, beat.member_id)
            member = self.members[beat.member_id] = ShareMember(beat)
            self.epoch += 1
        elif beat.epoch not in (0, member.epoch, member.previous_epoch):
            raise FencedMemberEpoch(self.name, member.id, beat.epoch, member.epoch)
        if beat.epoch == 0 or beat.topics is not None:
            # A member that sends its topics expects its assignment in the answer.
            member.assigned = None
        if beat.topics is not None and beat.topics != member.topics:
            self._want(member, tuple(dict.fromkeys(beat.topics)))
            self.epoch += 1
        return member

    def assign(self, member: ShareMember, places: AssignedTopics) -> AssignedTopics | None:
        """Move a member to the current epoch; return its assignment, None if it is unchanged."""
        if member.epoch != self.epoch:
            member.previous_epoch, member.epoch = member.epoch, self.epoch
        if member.assigned == places:
            return None
        member.assigned = places
        return places

    def update_topics(self, ids: Mapping[str, str | None]) -> bool:
        """Update the ids of subscribed topics; return whether one has changed."""
        is_changed = any(name in self.ids and self.ids[name] != ids[name] for name in ids)
        self.ids.update(ids)
        if is_changed:
            self.epoch += 1
        return is_changed

    def forget(self, member_id: str) -> None:
        """Remove a member."""
        self._want(self.members.pop(member_id), ())
        self.epoch += 1

    def _want(self, member: ShareMember, topics: tuple[str, ...]) -> None:
        """Replace a member's subscription; forget topics that no member subscribes to any more."""
        self.wanted.subtract(member.topics)
        self.wanted.update(topics)
        for name in {*member.topics} - {*topics}:
            if not self.wanted[name]:
                del self.wanted[name]
                self.ids.pop(name, None)
        member.topics = topics
