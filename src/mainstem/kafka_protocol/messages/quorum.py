"""The quorum of brokers or controllers that replicate the cluster's metadata log."""

from typing import Annotated

from mainstem.kafka_protocol.api import api
from mainstem.kafka_protocol.fields import IGNORABLE, NO_ID, Since, Wire
from mainstem.kafka_protocol.messages.partitions import ByTopicName, PartitionIndex
from mainstem.kafka_protocol.wire import Array, Int16, Int32, Int64, String, UInt16, Uuid

QuorumPartitionNumber = PartitionIndex
QuorumTopicName = ByTopicName[QuorumPartitionNumber]


class DescribeQuorumRequest(Wire, frozen=True):
    """Ask for the state of the metadata quorum."""

    topics: Array[QuorumTopicName] = ()


class Voter(Wire, frozen=True):
    """A replica of the metadata log, and how far it has replicated."""

    replica_id: Int32 = 0
    replica_directory_id: Annotated[Uuid, Since(2), IGNORABLE] = NO_ID
    log_end_offset: Int64 = 0
    last_fetch_timestamp: Annotated[Int64, Since(1), IGNORABLE] = -1
    last_caught_up_timestamp: Annotated[Int64, Since(1), IGNORABLE] = -1


class QuorumPartition(Wire, frozen=True):
    """The leader, voters and observers of the metadata log."""

    partition_index: Int32 = 0
    error_code: Int16 = 0
    error_message: Annotated[String | None, Since(2), IGNORABLE] = None
    leader_id: Int32 = 0
    leader_epoch: Int32 = 0
    high_watermark: Int64 = 0
    current_voters: Array[Voter] = ()
    observers: Array[Voter] = ()


QuorumTopic = ByTopicName[QuorumPartition]


class QuorumListener(Wire, frozen=True):
    """An address at which a node of the quorum listens."""

    name: String = ""
    host: String = ""
    port: UInt16 = 0


class QuorumNode(Wire, frozen=True):
    """A node of the quorum, with its addresses."""

    node_id: Int32 = 0
    listeners: Array[QuorumListener] = ()


class DescribeQuorumResponse(Wire, frozen=True):
    """The state of the metadata quorum, and its nodes."""

    error_code: Int16 = 0
    error_message: Annotated[String | None, Since(2), IGNORABLE] = None
    topics: Array[QuorumTopic] = ()
    nodes: Annotated[Array[QuorumNode], Since(2), IGNORABLE] = ()


DESCRIBE_QUORUM = api(55, DescribeQuorumRequest, DescribeQuorumResponse, "0-2", "0+")
