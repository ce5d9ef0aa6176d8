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
    """Groups whose leader assigns the partitions (JoinGroup, SyncGroup, Heartbeat)."""

    def join(self, join: Join, reply: JoinReply) -> None:
        """Join the next generation of a group; later calls ``reply`` with Joined or an error."""

    def sync(self, sync: Sync, reply: SyncReply) -> None:
        """Request a member's assignment; calls ``reply``, now or later, with Synced or an error.

        The leader's request contains the assignments of all members.
        """

    def heartbeat(
        self, group: str, member_id: str, generation: int, instance_id: str | None = None
    ) -> None:
        """Restart a member's session timeout; raises RebalanceInProgress if it must join again."""

    def leave(self, group: str, leavers: Iterable[Leaver]) -> list[MainstemError | None]:
        """Remove members from a group; return for each one None, or the error if it was refused."""

    def commit(
        self, group: str, membership: Membership, cursors: Mapping[TopicPartition, Cursor]
    ) -> PartitionResults:
        """Commit offsets for a member, or for a program that is no member of an empty group."""

    def delete_cursors(self, group: str, partitions: Iterable[TopicPartition]) -> PartitionResults:
        """Delete a group's committed offsets in some partitions, even if members read these."""

    def names(self) -> list[str]:
        """Return the names of classic groups that have offsets, or have or recently had members."""

    def describe(self, name: str) -> GroupDescription:
        """Return the description of a group; for an unknown group, one with the phase Dead."""

    def delete(self, name: str) -> Durable:
        """Delete a group and its committed offsets in one append; refused while it has members."""


class ConsumerGroups(Protocol):
    """Groups whose partitions the broker assigns (ConsumerGroupHeartbeat, KIP-848)."""

    def use_protocol(self, protocol: ConsumerProtocol) -> None:
        """Set the codec for subscriptions of classic members; without it none of them can join."""

    def heartbeat(self, beat: Heartbeat) -> HeartbeatResponse:
        """Handle a heartbeat; the caller sends the response once its ``durable`` is done."""

    def leave(
        self, name: str, member_id: str, instance_id: str | None, *, for_a_while: bool = False
    ) -> Durable:
        """Remove a member.

        ``for_a_while``: a static member keeps its partitions until its session times out, so that
        it may return.
        """

    def is_native_member(self, name: str, member_id: str) -> bool:
        """Tell whether a member uses the consumer protocol, not the classic one."""

    def check_fetch(self, name: str, member_id: str | None, epoch: int) -> None:
        """Raise if an offset fetch has an unknown member id or an outdated member epoch."""

    def names(self) -> list[str]:
        """Return the names of consumer groups, also of empty ones that are still remembered."""

    def describe(self, name: str) -> ConsumerGroupDescription | None:
        """Return the description of a group, None if there is no consumer group of that name."""

    def reads(self, name: str) -> set[str]:
        """Return the topics that any member of the group subscribes to."""


class ShareGroups(Protocol):
    """Groups that share events one by one (ShareGroupHeartbeat, KIP-932); see ``Queues``."""

    def heartbeat(self, beat: ShareHeartbeat) -> ShareHeartbeatResponse:
        """Join a group or stay in it; creates queues for topics that are new to the group."""

    def leave(self, group: str, member_id: str) -> None:
        """Remove a member; its unsettled deliveries stay in flight. Raises UnknownMember."""

    def settings(self, group: str) -> ShareSettings:
        """Return the effective settings of a group."""

    def names(self) -> list[str]:
        """Return the names of the share groups that have members or queues."""

    def has_members(self, name: str) -> bool:
        """Tell whether a share group of that name has members."""

    def describe(self, name: str) -> ShareGroupState:
        """Return the description of a group; raises UnknownGroup."""

    def positions(self, name: str) -> list[QueueState]:
        """Return the group's progress in each of its topics; raises UnknownGroup."""

    def check_movable(self, name: str) -> None:
        """Raise if ``seek`` would refuse this group for every topic, such as GroupIsLive."""

    def seek(
        self, name: str, topic: str, offsets: Mapping[int, int]
    ) -> tuple[Durable, dict[int, MainstemError]]:
        """Set the offsets of a group without members in a topic; creates missing queues.

        Also returns the refused partitions, each with its error.
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
        """Return the names of groups with at least one setting that is not the default."""

    def text(self, group: str, name: str) -> str:
        """Return the value of a group's setting, or its default, as text; needs no lock."""

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

        ``fresh``: settings that are not named go back to their defaults. ``validate_only``: check
        the changes, but do not make them.
        """
