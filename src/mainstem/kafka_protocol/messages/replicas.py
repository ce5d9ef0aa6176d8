"""Leader elections, reassignments and log directories of partitions."""

from typing import Annotated

from mainstem.kafka_protocol.api import api
from mainstem.kafka_protocol.fields import IGNORABLE, Since, Wire
from mainstem.kafka_protocol.messages.partitions import (
    ByName,
    ByTopic,
    ByTopicName,
    ExplainedResult,
    PartitionIndexes,
    PartitionResult,
)
from mainstem.kafka_protocol.messages.responses import ExplainedError, Throttled
from mainstem.kafka_protocol.wire import Array, Bool, Int8, Int16, Int32, String

ReplicaDirTopic = ByName[Int32]


class ReplicaDir(Wire, frozen=True):
    """A log directory, and the partitions to move into it."""

    path: String = ""
    topics: Array[ReplicaDirTopic] = ()


class AlterReplicaLogDirsRequest(Wire, frozen=True):
    """Move partitions to other log directories of the broker."""

    dirs: Array[ReplicaDir] = ()


MovedPartition = PartitionResult
MovedTopic = ByTopicName[MovedPartition]


class AlterReplicaLogDirsResponse(Throttled, frozen=True):
    """For each partition, whether the move was started."""

    results: Array[MovedTopic] = ()


ALTER_REPLICA_LOG_DIRS = api(
    34, AlterReplicaLogDirsRequest, AlterReplicaLogDirsResponse, "1-2", "2+"
)


ElectionTopic = ByTopic[Int32]


class ElectLeadersRequest(Wire, frozen=True):
    """Elect leaders of partitions; null means all partitions."""

    election_type: Annotated[Int8, Since(1)] = 0
    topic_partitions: Array[ElectionTopic] | None = ()
    timeout_ms: Int32 = 60_000


ElectedPartition = ExplainedResult
ElectedTopic = ByTopic[ElectedPartition]


class ElectLeadersResponse(Throttled, frozen=True):
    """For each partition, whether a leader was elected."""

    error_code: Annotated[Int16, Since(1), IGNORABLE] = 0
    replica_election_results: Array[ElectedTopic] = ()


ELECT_LEADERS = api(43, ElectLeadersRequest, ElectLeadersResponse, "0-2", "2+")


class ReassignablePartition(Wire, frozen=True):
    """A partition and its new replicas; null cancels its reassignment."""

    partition_index: Int32 = 0
    replicas: Array[Int32] | None = None


ReassignableTopic = ByName[ReassignablePartition]


class AlterPartitionReassignmentsRequest(Wire, frozen=True):
    """Assign partitions to other brokers."""

    timeout_ms: Int32 = 60_000
    allow_replication_factor_change: Annotated[Bool, Since(1)] = True
    topics: Array[ReassignableTopic] = ()


ReassignedPartition = ExplainedResult
ReassignedTopic = ByName[ReassignedPartition]


class AlterPartitionReassignmentsResponse(Throttled, frozen=True):
    """For each partition, whether its reassignment was accepted."""

    allow_replication_factor_change: Annotated[Bool, Since(1), IGNORABLE] = True
    error_code: Int16 = 0
    error_message: String | None = None
    responses: Array[ReassignedTopic] = ()


ALTER_PARTITION_REASSIGNMENTS = api(
    45, AlterPartitionReassignmentsRequest, AlterPartitionReassignmentsResponse, "0-1", "0+"
)


ReassignmentsTopic = PartitionIndexes


class ListPartitionReassignmentsRequest(Wire, frozen=True):
    """Ask which partitions are being reassigned; null asks about all partitions."""

    timeout_ms: Int32 = 60_000
    topics: Array[ReassignmentsTopic] | None = None


class OngoingReassignment(Wire, frozen=True):
    """A partition that is being reassigned, with its replicas."""

    partition_index: Int32 = 0
    replicas: Array[Int32] = ()
    adding_replicas: Array[Int32] = ()
    removing_replicas: Array[Int32] = ()


OngoingTopic = ByName[OngoingReassignment]


class ListPartitionReassignmentsResponse(ExplainedError, frozen=True):
    """The partitions that are being reassigned."""

    topics: Array[OngoingTopic] = ()


LIST_PARTITION_REASSIGNMENTS = api(
    46, ListPartitionReassignmentsRequest, ListPartitionReassignmentsResponse, "0", "0+"
)
