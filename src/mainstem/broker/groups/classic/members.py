"""Everybody in a classic group: how long each may be silent, what it makes us hold, and is owed.

What must happen to several things at once when a member comes, goes or is answered is here, so
that ``rebalance`` can speak of groups alone.
"""

from collections.abc import Mapping
from functools import partial
from typing import Literal

from mainstem.broker.callbacks import Callback
from mainstem.broker.deadlines import Alarm, Deadlines
from mainstem.broker.groups.classic.group import ClassicGroup, ClassicMember, Join
from mainstem.broker.groups.memory import texts_bytes
from mainstem.core.errors import FencedInstance, MainstemError, UnknownMember

Kind = Literal["session", "join", "sync", "forget"]
Timer = tuple[str, Kind, str]
"""Whose time it is: group, kind, and the member if it is one's own."""


class MemberSessions:
    """The members of all classic groups; used under the broker's lock."""

    def __init__(self, alarm: Alarm) -> None:
        self.calls: list[Callback] = []
        """To be made without the lock."""
        self.deadlines = Deadlines[Timer](alarm)
        self.now_ms = 0
        """The time on the clock that deadlines are measured with; set before each use."""
        self.count = 0
        """Members, and ids that were given out and not used yet."""
        self.held_bytes = 0
        """What all members say, their assignments, and ids that were given out."""

    def give_id(self, group: ClassicGroup, member_id: str, timeout_ms: int) -> None:
        """Expect somebody to join with an id that was given out."""
        group.pending.add(member_id)
        self.count += 1
        self.held_bytes += texts_bytes((member_id,))
        self.deadlines.set((group.name, "session", member_id), self.now_ms + timeout_ms)

    def drop_id(self, group: ClassicGroup, member_id: str) -> None:
        """Expect nobody any more to join with that id."""
        group.pending.remove(member_id)
        self.count -= 1
        self.held_bytes -= texts_bytes((member_id,))
        self.deadlines.clear((group.name, "session", member_id))

    def add(
        self, group: ClassicGroup, member: ClassicMember, protocol_type: str, timeout_ms: int
    ) -> None:
        """Take in a member; its first answer may take that long."""
        if member.id in group.pending:
            self.drop_id(group, member.id)
        self.count += 1
        self.held_bytes += member.size_bytes
        group.add(member, protocol_type)
        self.deadlines.set((group.name, "session", member.id), self.now_ms + timeout_ms)

    def update(self, group: ClassicGroup, member: ClassicMember, join: Join) -> None:
        """Take over what a member says of itself now."""
        self.held_bytes -= member.size_bytes
        group.update(member, join)
        self.held_bytes += member.size_bytes

    def replace(self, group: ClassicGroup, old: ClassicMember, member: ClassicMember) -> None:
        """Give a static member's place to the program that came back; fence the one before."""
        fenced = FencedInstance(group.name, old.instance_id or "")
        self.answer_join(group, old.id, fenced)
        self.answer_sync(group, old.id, fenced)
        self.deadlines.clear((group.name, "session", old.id))
        self.held_bytes -= old.size_bytes
        group.replace(old, member)
        self.held_bytes += member.size_bytes
        member.is_new = False

    def remove(self, group: ClassicGroup, member: ClassicMember) -> None:
        """Take a member out; if it waits for an answer, this is the answer."""
        unknown = UnknownMember(group.name, member.id)
        self.answer_join(group, member.id, unknown)
        self.answer_sync(group, member.id, unknown)
        self.deadlines.clear((group.name, "session", member.id))
        self.count -= 1
        self.held_bytes -= member.size_bytes
        group.remove(member)

    def heartbeat(self, group: ClassicGroup, member: ClassicMember) -> None:
        """Let a member's session begin anew, unless it is waiting for an answer."""
        if member.id not in group.joining and member.id not in group.syncing:
            due_ms = self.now_ms + member.session_timeout_ms
            self.deadlines.set((group.name, "session", member.id), due_ms)

    def assign(self, group: ClassicGroup, assignments: Mapping[str, bytes]) -> None:
        """Give everybody an assignment; who is not mentioned gets an empty one."""
        for member in group.members.values():
            self.held_bytes -= len(member.assignment)
            member.assignment = assignments.get(member.id, b"")
            self.held_bytes += len(member.assignment)

    def answer_join(self, group: ClassicGroup, member_id: str, answer: MainstemError) -> None:
        """Answer a member that waits for the next generation, if it does."""
        reply = group.joining.pop(member_id, None)
        if reply is not None:
            self.calls.append(partial(reply, answer))

    def answer_sync(self, group: ClassicGroup, member_id: str, answer: MainstemError) -> None:
        """Answer a member that waits for its assignment, if it does."""
        reply = group.syncing.pop(member_id, None)
        if reply is not None:
            self.calls.append(partial(reply, answer))
