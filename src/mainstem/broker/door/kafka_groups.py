"""Kafka's kinds of groups: classic, consumer and share groups, and group configs."""

from collections.abc import Iterable, Mapping
from typing import Protocol

from mainstem.broker.groups.classic.coordinator import (
    GroupDescription,
    Membership,
    PartitionResults,
)
from mainstem.broker.groups.classic.group import (
    Join,
    Joined,
    JoinReply,
    Phase,
    Sync,
    Synced,
    SyncReply,
)
from mainstem.broker.groups.classic.rebalance import Leaver
from mainstem.broker.groups.configs import KNOWN as GROUP_CONFIGS
from mainstem.broker.groups.consumer.classic_members import ConsumerProtocol, MemberSubscription
from mainstem.broker.groups.consumer.description import ConsumerGroupDescription
from mainstem.broker.groups.consumer.heartbeat import Heartbeat, HeartbeatResponse
from mainstem.broker.groups.consumer.records import (
    ConsumerMember,
    Partitions,
    partitions_of,
    written,
)
from mainstem.broker.groups.cursors import Cursor
from mainstem.broker.groups.share.coordinator import ShareGroupState, ShareHeartbeatResponse
from mainstem.broker.groups.share.group import AssignedTopics, ShareHeartbeat
from mainstem.broker.groups.share.settings import ACQUIRE_MODE, RECORD_LIMIT, ShareSettings
from mainstem.broker.queues.description import QueueState
from mainstem.broker.topics.catalog import TopicPartition
from mainstem.core.errors import MainstemError
from mainstem.log.port import Durable

__all__ = [
    "ACQUIRE_MODE",
    "GROUP_CONFIGS",
    "RECORD_LIMIT",
    "AssignedTopics",
    "ClassicGroups",
    "ConsumerGroupDescription",
    "ConsumerGroups",
    "ConsumerMember",
    "ConsumerProtocol",
    "GroupConfigs",
    "GroupDescription",
    "Heartbeat",
    "HeartbeatResponse",
    "Join",
    "Joined",
    "MemberSubscription",
    "Membership",
    "PartitionResults",
    "Partitions",
    "Phase",
    "ShareGroupState",
    "ShareGroups",
    "ShareHeartbeat",
    "ShareSettings",
    "Sync",
    "Synced",
    "partitions_of",
    "written",
]


class ClassicGroups(Protocol):
    """Members that assign partitions among themselves (JoinGroup, SyncGroup, Heartbeat)."""

    def join(self, join: Join, reply: JoinReply) -> None:
        """Join the next generation of a group; ``reply`` gets Joined or the error."""

    def sync(self, sync: Sync, reply: SyncReply) -> None:
        """Request an assignment (the leader sends all); ``reply`` gets Synced or the error."""

    def heartbeat(
        self, group: str, member_id: str, generation: int, instance_id: str | None = None
    ) -> None:
        """Keep a member's session alive; RebalanceInProgress tells it to join again."""

    def leave(self, group: str, leavers: Iterable[Leaver]) -> list[MainstemError | None]:
        """Remove members from a group; return one result each: None, or why it was refused."""

    def commit(
        self, group: str, membership: Membership, cursors: Mapping[TopicPartition, Cursor]
    ) -> PartitionResults:
        """Commit offsets for a member, or without a member while the group is empty."""

    def delete_cursors(self, group: str, partitions: Iterable[TopicPartition]) -> PartitionResults:
        """Delete some cursors of a group, without a check whether members still read there."""

    def names(self) -> list[str]:
        """Return every classic group that has members, had some lately, or has cursors."""

    def describe(self, name: str) -> GroupDescription:
        """Return a group; an unknown group is described as Dead."""

    def delete(self, name: str) -> Durable:
        """Delete a group and its cursors, in one append; refused while it has members."""


class ConsumerGroups(Protocol):
    """Members that the broker assigns partitions to (ConsumerGroupHeartbeat, KIP-848)."""

    def use_protocol(self, protocol: ConsumerProtocol) -> None:
        """Set the codec for classic members; without it no classic member can join."""

    def heartbeat(self, beat: Heartbeat) -> HeartbeatResponse:
        """Handle a heartbeat; send the response, with the assignment, once it is durable."""

    def leave(
        self, name: str, member_id: str, instance_id: str | None, *, for_a_while: bool = False
    ) -> Durable:
        """Remove a member; ``for_a_while``: keep a static member's place until its session ends."""

    def is_native_member(self, name: str, member_id: str) -> bool:
        """Tell whether this is a member that speaks the consumer protocol."""

    def check_fetch(self, name: str, member_id: str | None, epoch: int) -> None:
        """Refuse an offset fetch with an unknown member id or an old member epoch."""

    def names(self) -> list[str]:
        """Return every group of this type, including empty ones that are still remembered."""

    def describe(self, name: str) -> ConsumerGroupDescription | None:
        """Return a group, None if there is no group of this kind."""

    def reads(self, name: str) -> set[str]:
        """Return the topics that a group's members subscribe to."""


class ShareGroups(Protocol):
    """Members that share events one by one (ShareGroupHeartbeat, KIP-932); see ``Queues``."""

    def heartbeat(self, beat: ShareHeartbeat) -> ShareHeartbeatResponse:
        """Join a group or stay in it; queues on topics that are new to the group are created."""

    def leave(self, group: str, member_id: str) -> None:
        """Remove a member, but not its unsettled deliveries; raises UnknownMember."""

    def settings(self, group: str) -> ShareSettings:
        """Return the effective settings of a group."""

    def names(self) -> list[str]:
        """Return every share group that has members or queues."""

    def has_members(self, name: str) -> bool:
        """Tell whether a share group of that name has members."""

    def describe(self, name: str) -> ShareGroupState:
        """Return a group; raises UnknownGroup."""

    def positions(self, name: str) -> list[QueueState]:
        """Return the group's progress in each of its topics; raises UnknownGroup."""

    def check_movable(self, name: str) -> None:
        """Raise the error that ``seek`` would raise for this group on any topic."""

    def seek(
        self, name: str, topic: str, offsets: Mapping[int, int]
    ) -> tuple[Durable, dict[int, MainstemError]]:
        """Move a group without members to other offsets of a topic; creates what does not exist.

        Also returns the partitions that were refused, each with its error.
        """

    def forget(self, name: str, topics: Iterable[str]) -> tuple[Durable, dict[str, MainstemError]]:
        """Delete the offsets of a group without members in some topics, in one append.

        Also returns the topics that were refused, each with its error.
        """

    def delete(self, name: str) -> Durable:
        """Delete a group without members, in one append."""


class GroupConfigs(Protocol):
    """Settings of groups by name, as IncrementalAlterConfigs sets them."""

    def names(self) -> list[str]:
        """Return the groups that have settings of their own, not only defaults."""

    def text(self, group: str, name: str) -> str:
        """Return the value of a group's setting; needs no lock."""

    def shown(self, group: str) -> list[tuple[str, str, bool]]:
        """Return every setting of a group: name, value, and whether that is the default."""

    def alter(
        self,
        group: str,
        changes: Mapping[str, str | None],
        *,
        fresh: bool = False,
        validate_only: bool = False,
    ) -> Durable:
        """Change settings of a group, all or nothing.

        ``fresh``: all other settings go back to their defaults. ``validate_only``: only check.
        """
