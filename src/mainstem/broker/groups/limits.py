"""Limits of groups: session timeouts, number of members, memory."""

from typing import Annotated

import msgspec

from mainstem.broker.groups.classic.group import ClassicGroup, Join, Phase, Sync
from mainstem.core.errors import GroupFull, InvalidSessionTimeout, InvalidSetting
from mainstem.core.setting_types import MIB, Bytes, NonNegativeInt, PositiveInt


class GroupLimits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Limits of groups, with their defaults."""

    initial_delay_ms: Annotated[
        NonNegativeInt,
        "Milliseconds that the first rebalance of an empty classic group waits for "
        "more members, as Kafka's group.initial.rebalance.delay.ms.",
    ] = 0
    min_session_timeout_ms: Annotated[
        PositiveInt, "Milliseconds: the shortest session timeout of a member."
    ] = 6_000
    max_session_timeout_ms: Annotated[
        PositiveInt, "Milliseconds: the longest session timeout of a member."
    ] = 1_800_000
    first_join_timeout_ms: int = 300_000
    """How long a first JoinGroup may wait: the member sends no heartbeats before the answer."""
    max_members: Annotated[PositiveInt, "Members of one group."] = 10_000
    max_members_of_all: Annotated[
        PositiveInt,
        "Members of all groups, including member ids that were assigned but not used yet.",
    ] = 100_000
    max_member_bytes: Annotated[
        Bytes, "Bytes of one member: its ids, names of topics, protocols and metadata."
    ] = MIB
    max_bytes: Annotated[Bytes, "Bytes of all members of all groups, with their assignments."] = (
        64 * MIB
    )
    max_protocols: int = 100
    """Maximum number of protocols of a member; each is compared with those of all others."""
    cursor_retention_ms: Annotated[
        PositiveInt,
        "Milliseconds that a group's cursors are kept after its last commit and "
        "its last member, as Kafka's offsets.retention.minutes.",
    ] = 7 * 86_400_000
    forget_after_ms: int = 600_000
    """After how many ms an empty group without committed offsets is deleted."""

    def check_join(self, join: Join, held_bytes: int) -> None:
        """Raise if a JoinGroup exceeds a limit that does not depend on the state of its group."""
        least, most = self.min_session_timeout_ms, self.max_session_timeout_ms
        if not least <= join.session_timeout_ms <= most:
            raise InvalidSessionTimeout(join.session_timeout_ms, least, most)
        if join.rebalance_timeout_ms < 0:
            raise InvalidSetting(f"rebalance timeout {join.rebalance_timeout_ms} ms is below 0")
        if len(join.protocols) > self.max_protocols:
            raise InvalidSetting(
                f"a member of group {join.group!r} brings {len(join.protocols)} protocols; "
                f"at most {self.max_protocols} are allowed: offer fewer"
            )
        size = join.size_bytes
        if size > self.max_member_bytes:
            raise InvalidSetting(
                f"a member of group {join.group!r} brings {size} bytes of names and metadata; "
                f"at most {self.max_member_bytes} are kept: subscribe to fewer topics"
            )
        if held_bytes + size > self.max_bytes:
            raise GroupFull(join.group, f"{self.max_bytes} bytes for all groups")

    def check_newcomer(self, group: ClassicGroup, members_of_all: int) -> None:
        """Raise GroupFull if there is no room for a new member."""
        if len(group.pending) >= self.max_members:
            raise GroupFull(group.name, f"{self.max_members} members about to join")
        if members_of_all >= self.max_members_of_all:
            raise GroupFull(group.name, f"{self.max_members_of_all} members in all groups")

    def is_full(self, group: ClassicGroup, member_id: str) -> bool:
        """Tell whether a group has the maximum number of members, not counting this member."""
        places = group.joining if group.phase is Phase.PREPARING else group.members
        return len(places) >= self.max_members and member_id not in places

    def check_assignments(self, group: ClassicGroup, sync: Sync, held_bytes: int) -> None:
        """Raise GroupFull if the assignments would take too much memory."""
        known = group.members
        size = sum(len(data) for member, data in sync.assignments.items() if member in known)
        if held_bytes + size > self.max_bytes:
            raise GroupFull(group.name, f"{self.max_bytes} bytes for all groups")
