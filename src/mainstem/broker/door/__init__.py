"""The door: the broker's only interface for heads (protocols), connectors, the client and admin.

One small Protocol per port, each in its own module with its value types:

| port | |
|---|---|
| ``topics`` | create, alter, delete, find |
| ``publishing`` | append events and record batches, also to several topics at once; backpressure |
| ``reading`` | events of a partition from an offset on |
| ``queues`` | deliveries: events shared one by one, each settled once |
| ``delays`` | events that are published later |
| ``groups`` | consumers that own partitions, and cursors; ``kafka_groups`` for Kafka's own kinds |
| ``transactions`` | transactions, idempotent producers, read_committed |
| ``definitions`` | a head's own state, by kind and key |
| ``duties`` | work that one node does at a time |

Errors are those of ``mainstem.core.errors``. Three rules make it possible to implement the door on
top of a Kafka cluster, too. A caller reads offsets, ids and refusals of a result only after its
``durable``, a future of the commit, is done. Reading never blocks. Other nodes may exist, so work
that only one node may do needs a duty. ``Broker`` is the one implementation so far; mypy checks
that it fits where a node passes it to its heads.
"""

from typing import Protocol

from mainstem.broker.authorization import guarded
from mainstem.broker.callbacks import Callback
from mainstem.broker.door.definitions import Definitions, HeadDefinitions
from mainstem.broker.door.delays import DelayedEvent, DelayedRouter, Delays, Waiting
from mainstem.broker.door.duties import Duties, Duty
from mainstem.broker.door.groups import (
    AssignedPartition,
    Assignment,
    Cursor,
    Groups,
    GroupState,
    Lag,
    Member,
    TopicPartition,
)
from mainstem.broker.door.kafka_groups import (
    ACQUIRE_MODE,
    GROUP_CONFIGS,
    RECORD_LIMIT,
    AssignedTopics,
    ClassicGroups,
    ConsumerGroupDescription,
    ConsumerGroups,
    ConsumerMember,
    ConsumerProtocol,
    GroupConfigs,
    GroupDescription,
    Heartbeat,
    HeartbeatResponse,
    Join,
    Joined,
    Membership,
    MemberSubscription,
    PartitionResults,
    Partitions,
    Phase,
    ShareGroups,
    ShareGroupState,
    ShareHeartbeat,
    ShareSettings,
    Sync,
    Synced,
    partitions_of,
    written,
)
from mainstem.broker.door.publishing import (
    AppendedBatch,
    AppendOutcome,
    AppendOutcomes,
    HeadChanges,
    HeldPublish,
    Published,
    PublishedAll,
    Publishing,
    QueueSettlements,
    TopicEvents,
)
from mainstem.broker.door.queues import (
    MAX_DELIVERIES,
    MAX_LOCK_MS,
    AcquiredBatches,
    AcquiredRecords,
    Cause,
    DeadEvent,
    DeadLetterRouter,
    Delivery,
    Order,
    Outcome,
    Queues,
    QueueSettings,
    QueueState,
    RoutedEvent,
    Settled,
    Settlement,
    Unsettled,
)
from mainstem.broker.door.reading import Bounds, Feed, Reading, Slice, TimedOffset
from mainstem.broker.door.topics import (
    MATCH_BUDGET,
    TOPIC_JOURNAL,
    Limits,
    Topic,
    TopicDone,
    TopicRegex,
    Topics,
)
from mainstem.broker.door.transactions import (
    Committed,
    NewProducer,
    ProducerIdAndEpoch,
    Producers,
    ProducerSession,
    ProducerState,
    TransactionDescription,
    TransactionPhase,
    Transactions,
)
from mainstem.log.commit.durable import AT_ONCE, Commit
from mainstem.log.port import Durable, PartitionId

__all__ = [
    "ACQUIRE_MODE",
    "AT_ONCE",
    "GROUP_CONFIGS",
    "MATCH_BUDGET",
    "MAX_DELIVERIES",
    "MAX_LOCK_MS",
    "RECORD_LIMIT",
    "TOPIC_JOURNAL",
    "AcquiredBatches",
    "AcquiredRecords",
    "AppendOutcome",
    "AppendOutcomes",
    "AppendedBatch",
    "AssignedPartition",
    "AssignedTopics",
    "Assignment",
    "Bounds",
    "Callback",
    "Cause",
    "ClassicGroups",
    "Commit",
    "Committed",
    "ConsumerGroupDescription",
    "ConsumerGroups",
    "ConsumerMember",
    "ConsumerProtocol",
    "Cursor",
    "DeadEvent",
    "DeadLetterRouter",
    "Definitions",
    "DelayedEvent",
    "DelayedRouter",
    "Delays",
    "Delivery",
    "Door",
    "Durable",
    "Duties",
    "Duty",
    "Feed",
    "GroupConfigs",
    "GroupDescription",
    "GroupState",
    "Groups",
    "HeadChanges",
    "HeadDefinitions",
    "Heartbeat",
    "HeartbeatResponse",
    "HeldPublish",
    "Join",
    "Joined",
    "Lag",
    "Limits",
    "Member",
    "MemberSubscription",
    "Membership",
    "NewProducer",
    "Order",
    "Outcome",
    "PartitionId",
    "PartitionResults",
    "Partitions",
    "Phase",
    "ProducerIdAndEpoch",
    "ProducerSession",
    "ProducerState",
    "Producers",
    "Published",
    "PublishedAll",
    "Publishing",
    "QueueSettings",
    "QueueSettlements",
    "QueueState",
    "Queues",
    "Reading",
    "RoutedEvent",
    "Settled",
    "Settlement",
    "ShareGroupState",
    "ShareGroups",
    "ShareHeartbeat",
    "ShareSettings",
    "Slice",
    "Sync",
    "Synced",
    "TimedOffset",
    "Topic",
    "TopicDone",
    "TopicEvents",
    "TopicPartition",
    "TopicRegex",
    "Topics",
    "TransactionDescription",
    "TransactionPhase",
    "Transactions",
    "Unsettled",
    "Waiting",
    "guarded",
    "partitions_of",
    "written",
]


class Door(Topics, Publishing, Reading, Groups, Protocol):
    """The broker's public interface, divided into Protocols; synchronous and thread-safe."""

    @property
    def queues(self) -> Queues:
        """Operations on queues."""

    @property
    def delays(self) -> Delays:
        """Operations on delayed events."""

    @property
    def transactions(self) -> Transactions:
        """Operations on transactions."""

    @property
    def producers(self) -> Producers:
        """Operations on idempotent producers."""

    @property
    def classic(self) -> ClassicGroups:
        """Groups of Kafka's classic protocol."""

    @property
    def consumers(self) -> ConsumerGroups:
        """Kafka's consumer groups."""

    @property
    def share(self) -> ShareGroups:
        """Kafka's share groups."""

    @property
    def group_configs(self) -> GroupConfigs:
        """Settings of groups."""

    @property
    def definitions(self) -> Definitions:
        """State that heads store."""

    @property
    def duties(self) -> Duties:
        """The port for work that one node does at a time."""
