"""One share group while it has members: who they are, what they want, and in which epoch."""

from collections import Counter
from collections.abc import Mapping

import msgspec

from mainstem.core.errors import FencedMemberEpoch, UnknownMember

AssignedTopics = tuple[tuple[str, str, int], ...]
"""Topics by name, each with its id and how many partitions it has."""


class ShareHeartbeat(msgspec.Struct, frozen=True, kw_only=True):
    """A member shows itself; without topics it wants what it wanted before."""

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
        """What it was last told that it may take from."""


class ShareGroup:
    """Every member may take events from every partition of the topics that it wants.

    The epoch counts what has changed for anybody. A member that speaks of its last epoch but one
    has not got the answer that told it the latest.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.epoch = 0
        self.members: dict[str, ShareMember] = {}
        self.wanted: Counter[str] = Counter()
        """How many members want each topic."""
        self.ids: dict[str, str | None] = {}
        """The ids of the topics that are wanted, as last seen; None if there was none."""

    def heartbeat(self, beat: ShareHeartbeat) -> ShareMember:
        """Take in a member, or what it wants now; raises UnknownMember, FencedMemberEpoch."""
        member = self.members.get(beat.member_id)
        if member is None:
            if beat.epoch:
                raise UnknownMember(self.name, beat.member_id)
            member = self.members[beat.member_id] = ShareMember(beat)
            self.epoch += 1
        elif beat.epoch not in (0, member.epoch, member.previous_epoch):
            raise FencedMemberEpoch(self.name, member.id, beat.epoch, member.epoch)
        if beat.epoch == 0 or beat.topics is not None:
            # A member that names its topics has to be told what it may take from.
            member.assigned = None
        if beat.topics is not None and beat.topics != member.topics:
            self._want(member, tuple(dict.fromkeys(beat.topics)))
            self.epoch += 1
        return member

    def assign(self, member: ShareMember, places: AssignedTopics) -> AssignedTopics | None:
        """Return what a member may take from if it does not know; it is in the epoch then."""
        if member.epoch != self.epoch:
            member.previous_epoch, member.epoch = member.epoch, self.epoch
        if member.assigned == places:
            return None
        member.assigned = places
        return places

    def update_topics(self, ids: Mapping[str, str | None]) -> bool:
        """Take note of which topics there are; return whether that has changed."""
        is_changed = any(name in self.ids and self.ids[name] != ids[name] for name in ids)
        self.ids.update(ids)
        if is_changed:
            self.epoch += 1
        return is_changed

    def forget(self, member_id: str) -> None:
        """Take a member out."""
        self._want(self.members.pop(member_id), ())
        self.epoch += 1

    def _want(self, member: ShareMember, topics: tuple[str, ...]) -> None:
        """Let a member want other topics; of those that nobody wants nothing is kept."""
        self.wanted.subtract(member.topics)
        self.wanted.update(topics)
        for name in {*member.topics} - {*topics}:
            if not self.wanted[name]:
                del self.wanted[name]
                self.ids.pop(name, None)
        member.topics = topics
