"""Groups as Kafka's protocols know them: classic, consumer and share groups, and their configs."""

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
        """Ask for an assignment, or bring them all; ``reply`` gets Synced or the error."""

    def heartbeat(
        self, group: str, member_id: str, generation: int, instance_id: str | None = None
    ) -> None:
        """Show that a member is there; RebalanceInProgress tells it to join again."""

    def leave(self, group: str, leavers: Iterable[Leaver]) -> list[MainstemError | None]:
        """Leave a group, several members at once; what is wrong with each, None if it is out."""

    def commit(
        self, group: str, who: Membership, cursors: Mapping[TopicPartition, Cursor]
    ) -> PartitionResults:
        """Move cursors of a group for one of its members, or for nobody while it is empty."""

    def delete_cursors(self, group: str, places: Iterable[TopicPartition]) -> PartitionResults:
        """Forget some cursors of a group; whether its members still need them is not known here."""

    def names(self) -> list[str]:
        """Return every group with members or cursors, or with members lately, of no other kind."""

    def describe(self, name: str) -> GroupDescription:
        """Return a group; one that nobody knows is Dead."""

    def delete(self, name: str) -> Durable:
        """Forget a group and its cursors, in one append; refused while it is live."""


class ConsumerGroups(Protocol):
    """Members that the broker assigns partitions to (ConsumerGroupHeartbeat, KIP-848)."""

    def use_protocol(self, protocol: ConsumerProtocol) -> None:
        """Read and write with it what classic members say; without one none joins such a group."""

    def heartbeat(self, beat: Heartbeat) -> HeartbeatResponse:
        """Hear a member, and tell it what to own; answer it when that is durable."""

    def leave(
        self, name: str, member_id: str, instance_id: str | None, *, for_a_while: bool = False
    ) -> Durable:
        """Let a member go; one that is static may keep its place for its session."""

    def is_native_member(self, name: str, member_id: str) -> bool:
        """Tell whether somebody is a member, and no classic member."""

    def check_fetch(self, name: str, member_id: str | None, epoch: int) -> None:
        """Refuse to tell cursors to somebody who says it is a member, and is not any more."""

    def names(self) -> list[str]:
        """Return every group that has members, or was left by the last one."""

    def describe(self, name: str) -> ConsumerGroupDescription | None:
        """Return a group, None if there is none of this kind."""

    def reads(self, name: str) -> set[str]:
        """Return the topics that members of a group read."""


class ShareGroups(Protocol):
    """Members that share events one by one (ShareGroupHeartbeat, KIP-932); see ``Queues``."""

    def heartbeat(self, beat: ShareHeartbeat) -> ShareHeartbeatResponse:
        """Join a group, or stay in it; what is new to it begins as the group's settings say."""

    def leave(self, group: str, member_id: str) -> None:
        """Take a member out; what is out with it is not touched. Raises UnknownMember."""

    def settings(self, group: str) -> ShareSettings:
        """Return how a group behaves."""

    def names(self) -> list[str]:
        """Return every share group that has members or queues."""

    def has_members(self, name: str) -> bool:
        """Tell whether a share group of that name has members."""

    def describe(self, name: str) -> ShareGroupState:
        """Return a group; raises UnknownGroup."""

    def positions(self, name: str) -> list[QueueState]:
        """Return how far a group has got in each of its topics; raises UnknownGroup."""

    def check_movable(self, name: str) -> None:
        """Refuse a group that ``seek`` refuses, whatever the topic."""

    def seek(
        self, name: str, topic: str, offsets: Mapping[int, int]
    ) -> tuple[Durable, dict[int, MainstemError]]:
        """Let a group without members go on from elsewhere in a topic; it may be new, both may.

        Returns also the partitions that were not moved, and why.
        """

    def forget(self, name: str, topics: Iterable[str]) -> tuple[Durable, dict[str, MainstemError]]:
        """Forget how far a group without members has got in some topics, in one append.

        Returns also the topics that nothing was known of, and why.
        """

    def delete(self, name: str) -> Durable:
        """Forget a group without members altogether, in one append."""


class GroupConfigs(Protocol):
    """Settings of groups by name, as IncrementalAlterConfigs sets them."""

    def names(self) -> list[str]:
        """Return the groups that have settings of their own."""

    def text(self, group: str, name: str) -> str:
        """Return what a setting is for a group; needs no lock."""

    def shown(self, group: str) -> list[tuple[str, str, bool]]:
        """Return name, value and whether it is the default, of every setting of a group."""

    def alter(
        self,
        group: str,
        changes: Mapping[str, str | None],
        *,
        fresh: bool = False,
        validate_only: bool = False,
    ) -> Durable:
        """Set some settings of a group, all or nothing, or only see whether that could be done."""
