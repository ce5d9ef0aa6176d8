"""Stored members of classic groups: replayed from ``__mainstem_classic_groups``.

How this works: a rebalance in progress is kept in memory only. When a generation becomes stable,
its members are stored with their assignments, so that they continue in it after a restart. There
are two kinds of records: the generation's protocol and leader, and one per member. Neither refers
to the other, so compaction may leave them in any order. Only changes since the last stable
generation are written.

If the stored generation is not the latest one (``generations``), a later one never became stable:
the members are known after a restart, but have to join again.
"""

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from mainstem.broker.fold import Fold
from mainstem.broker.groups.classic.group import ClassicGroup, ClassicMember, Join, Protocols

NOT_YET = 0
"""Stored instead of a generation number while the members have not completed a rebalance."""


class ClassicGroupKey(msgspec.Struct, frozen=True, array_like=True, tag="classic-group"):
    """The record's key: group and member id; the id is empty in the record of the group itself."""

    group: str
    member: str = ""


class Agreement(msgspec.Struct, frozen=True, tag_field="kind", tag="agreement/1"):
    """The record's value for a group: number, protocol and leader of a stable generation."""

    generation: int
    protocol_type: str
    protocol: str = ""
    leader: str = ""


class WrittenMember(
    msgspec.Struct, frozen=True, tag_field="kind", tag="classic-member/1", omit_defaults=True
):
    """The record's value for a member."""

    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: Protocols
    assignment: bytes = b""
    instance_id: str | None = None
    client_id: str = ""
    host: str = ""


Value = Agreement | WrittenMember


class ClassicGroupChange(NamedTuple):
    """One record of the internal topic: a key, and its new value (None: deleted)."""

    key: ClassicGroupKey
    value: Value | None


class WrittenGroup(msgspec.Struct):
    """The latest stable generation of a group."""

    agreement: Agreement = Agreement(NOT_YET, "")
    members: dict[str, WrittenMember] = {}


class ClassicGroupFold(Fold):
    """The latest stable generation of each group that has members."""

    def __init__(self) -> None:
        self.groups: dict[str, WrittenGroup] = {}

    def set(
        self, name: str, agreement: Agreement, members: Mapping[str, WrittenMember]
    ) -> list[ClassicGroupChange]:
        """Return the changes that store a stable generation, without what is stored already."""
        was = self.groups.get(name, WrittenGroup())
        changes = [_change(name, each) for each in was.members if each not in members]
        changes += [
            _change(name, each, member)
            for each, member in members.items()
            if was.members.get(each) != member
        ]
        if was.agreement != agreement:
            changes.append(_change(name, "", agreement))
        return changes

    def replace(self, name: str, old: str, member: ClassicMember) -> list[ClassicGroupChange]:
        """Return the changes that store a static member that rejoined under its new member id."""
        was = self.groups.get(name)
        if was is None or old not in was.members:
            return []
        taken = written(member, was.members[old].assignment)
        changes = [_change(name, old), _change(name, member.id, taken)]
        if was.agreement.leader == old:
            agreement = msgspec.structs.replace(was.agreement, leader=member.id)
            changes.append(_change(name, "", agreement))
        return changes

    def forget(self, name: str) -> list[ClassicGroupChange]:
        """Return the changes that delete a stored group and its members, if there is one."""
        was = self.groups.get(name)
        if was is None:
            return []
        return [*(_change(name, each) for each in was.members), _change(name, "")]

    def apply(self, change: ClassicGroupChange) -> None:
        """Apply one change, new or replayed at start; nothing else modifies this state."""
        (name, member_id), value = (change.key.group, change.key.member), change.value
        if value is None:
            if not member_id:
                self.groups.pop(name, None)
            elif name in self.groups:
                self.groups[name].members.pop(member_id, None)
            return
        group = self.groups.setdefault(name, WrittenGroup())
        if isinstance(value, Agreement):
            group.agreement = value
        else:
            group.members[member_id] = value


def agreed(group: ClassicGroup) -> Agreement:
    """Return the record of a group's current generation."""
    return Agreement(
        group.generation, group.protocol_type, group.protocol or "", group.leader or ""
    )


def written(member: ClassicMember, assignment: bytes) -> WrittenMember:
    """Return the record of a member with its assignment."""
    return WrittenMember(
        member.session_timeout_ms,
        member.rebalance_timeout_ms,
        member.protocols,
        assignment,
        member.instance_id,
        member.client_id,
        member.host,
    )


def read_members(group: WrittenGroup) -> list[ClassicMember]:
    """Return the members of a stored group."""
    return [_read(each, member, group.agreement) for each, member in group.members.items()]


def _read(member_id: str, member: WrittenMember, agreement: Agreement) -> ClassicMember:
    join = Join(
        group="",
        instance_id=member.instance_id,
        client_id=member.client_id,
        host=member.host,
        protocol_type=agreement.protocol_type,
        protocols=member.protocols,
        session_timeout_ms=member.session_timeout_ms,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
    )
    found = ClassicMember(member_id, join)
    found.assignment = member.assignment
    return found


def _change(name: str, member_id: str, value: Value | None = None) -> ClassicGroupChange:
    return ClassicGroupChange(ClassicGroupKey(name, member_id), value)
