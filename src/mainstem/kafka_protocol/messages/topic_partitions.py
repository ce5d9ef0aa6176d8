"""Descriptions of topic partitions, page by page."""

from mainstem.kafka_protocol.api import api
from mainstem.kafka_protocol.fields import NO_ID, Wire
from mainstem.kafka_protocol.messages.responses import Throttled
from mainstem.kafka_protocol.wire import Array, Bool, Int16, Int32, String, Uuid


class DescribeTopicName(Wire, frozen=True):
    """A requested topic."""

    name: String = ""


class PartitionsCursor(Wire, frozen=True):
    """The topic and partition at which a page of the response starts."""

    topic_name: String = ""
    partition_index: Int32 = 0


class DescribeTopicPartitionsRequest(Wire, frozen=True):
    """Ask for the partitions of topics, from a cursor on; no topics means all."""

    topics: Array[DescribeTopicName] = ()
    response_partition_limit: Int32 = 2000
    cursor: PartitionsCursor | None = None


class DescribedPartition(Wire, frozen=True):
    """A partition, its leader and its replicas."""

    error_code: Int16 = 0
    partition_index: Int32 = 0
    leader_id: Int32 = 0
    leader_epoch: Int32 = -1
    replica_nodes: Array[Int32] = ()
    isr_nodes: Array[Int32] = ()
    eligible_leader_replicas: Array[Int32] | None = None
    last_known_elr: Array[Int32] | None = None
    offline_replicas: Array[Int32] = ()


class DescribedTopic(Wire, frozen=True):
    """A topic, with those of its partitions that are on this page."""

    error_code: Int16 = 0
    name: String | None = ""
    topic_id: Uuid = NO_ID
    is_internal: Bool = False
    partitions: Array[DescribedPartition] = ()
    topic_authorized_operations: Int32 = -(2**31)


class DescribeTopicPartitionsResponse(Throttled, frozen=True):
    """A page of topics, and the start of the next one."""

    topics: Array[DescribedTopic] = ()
    next_cursor: PartitionsCursor | None = None


DESCRIBE_TOPIC_PARTITIONS = api(
    75, DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse, "0", "0+"
)
