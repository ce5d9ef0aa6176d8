"""Members of classic groups: their sessions, the memory they use, and their pending answers.

``rebalance`` uses this to add, remove and answer members; each method updates the group, the
session deadline and the memory count together.
"""

from collections.abc import Mapping
from functools import partial
from typing import Literal

from mainstem.broker.callbacks import Callback
from mainstem.broker.deadlines import Alarm, Deadlines
from mainstem.broker.groups.classic.group import ClassicGroup, ClassicMember, Join
from mainstem.broker.groups.memory_estimate import texts_bytes
from mainstem.core.errors import FencedInstance, MainstemError, UnknownMember

Kind = Literal["session", "join", "sync", "forget"]
Timer = tuple[str, Kind, str]
"""The key of a deadline: group, kind, and member id (empty if it concerns the whole group)."""


class MemberSessions:
    """The members of all classic groups; used under the broker's lock."""

    def __init__(self, alarm: Alarm) -> None:
        self.calls: list[Callback] = []
        """Callbacks to be called after the lock is released."""
        self.deadlines = Deadlines[Timer](alarm)
        self.now_ms = 0
        """The present time on the monotonic clock; set before each use."""
        self.count = 0
        """Number of members, plus assigned member ids with which no member has joined yet."""
        self.held_bytes = 0
        """Estimated memory in bytes for members, their assignments, and assigned ids not yet used.
        """

    def give_id(self, group: ClassicGroup, member_id: str, timeout_ms: int) -> None:
        """Remember an assigned member id until a member joins with it, or until it expires."""
        group.pending.add(member_id)
        self.count += 1
        self.held_bytes += texts_bytes((member_id,))
        self.deadlines.set((group.name, "session", member_id), self.now_ms + timeout_ms)

    def drop_id(self, group: ClassicGroup, member_id: str) -> None:
        """Forget an assigned member id with which no member has joined."""
        group.pending.remove(member_id)
        self.count -= 1
        self.held_bytes -= texts_bytes((member_id,))
        self.deadlines.clear((group.name, "session", member_id))

    def add(
        self, group: ClassicGroup, member: ClassicMember, protocol_type: str, timeout_ms: int
    ) -> None:
        """Add a member; ``timeout_ms``: how long its first join may wait for an answer."""
        if member.id in group.pending:
            self.drop_id(group, member.id)
        self.count += 1
        self.held_bytes += member.size_bytes
        group.add(member, protocol_type)
        self.deadlines.set((group.name, "session", member.id), self.now_ms + timeout_ms)

    def update(self, group: ClassicGroup, member: ClassicMember, join: Join) -> None:
        """Update a member from a new join."""
        self.held_bytes -= member.size_bytes
        group.update(member, join)
        self.held_bytes += member.size_bytes

    def replace(self, group: ClassicGroup, old: ClassicMember, member: ClassicMember) -> None:
        """Give a static member that rejoined its new member id, and fence the old id."""
        fenced = FencedInstance(group.name, old.instance_id or "")
        self.answer_join(group, old.id, fenced)
        self.answer_sync(group, old.id, fenced)
        self.deadlines.clear((group.name, "session", old.id))
        self.held_bytes -= old.size_bytes
        group.replace(old, member)
        self.held_bytes += member.size_bytes
        member.is_new = False

    def remove(self, group: ClassicGroup, member: ClassicMember) -> None:
        """Remove a member; if it waits for an answer, it gets UnknownMember."""
        unknown = UnknownMember(group.name, member.id)
        self.answer_join(group, member.id, unknown)
        self.answer_sync(group, member.id, unknown)
        self.deadlines.clear((group.name, "session", member.id))
        self.count -= 1
        self.held_bytes -= member.size_bytes
        group.remove(member)

    def heartbeat(self, group: ClassicGroup, member: ClassicMember) -> None:
        """Restart a member's session timeout, unless it is waiting for an answer."""
        if member.id not in group.joining and member.id not in group.syncing:
            due_ms = self.now_ms + member.session_timeout_ms
            self.deadlines.set((group.name, "session", member.id), due_ms)

    def assign(self, group: ClassicGroup, assignments: Mapping[str, bytes]) -> None:
        """Set every member's assignment; members that are not listed get an empty one."""
        for member in group.members.values():
            self.held_bytes -= len(member.assignment)
            member.assignment = assignments.get(member.id, b"")
            self.held_bytes += len(member.assignment)

    def answer_join(self, group: ClassicGroup, member_id: str, answer: MainstemError) -> None:
        """Answer a member's pending join, if there is one."""
        reply = group.joining.pop(member_id, None)
        if reply is not None:
            self.calls.append(partial(reply, answer))

    def answer_sync(self, group: ClassicGroup, member_id: str, answer: MainstemError) -> None:
        """Answer a member's pending sync, if there is one."""
        reply = group.syncing.pop(member_id, None)
        if reply is not None:
            self.calls.append(partial(reply, answer))
