"""Brokers, topics and partitions."""

from typing import Annotated

from mainstem.kafka_protocol.api import api
from mainstem.kafka_protocol.fields import IGNORABLE, NO_ID, NullSince, Since, Until, Wire
from mainstem.kafka_protocol.messages.responses import ExplainedError
from mainstem.kafka_protocol.wire import Array, Bool, Int8, Int16, Int32, String, Uuid


class MetadataTopicName(Wire, frozen=True):
    """A requested topic, by name or by id."""

    topic_id: Annotated[Uuid, Since(10), IGNORABLE] = NO_ID
    name: Annotated[String | None, NullSince(10)] = ""


class MetadataRequest(Wire, frozen=True):
    """Ask for brokers and topics; null means all topics, an empty list none (in version 0: all)."""

    topics: Annotated[Array[MetadataTopicName] | None, NullSince(1)] = ()
    allow_auto_topic_creation: Annotated[Bool, Since(4)] = True
    include_cluster_authorized_operations: Annotated[Bool, Since(8), Until(10)] = False
    include_topic_authorized_operations: Annotated[Bool, Since(8)] = False


class MetadataBroker(Wire, frozen=True):
    """A broker and its address."""

    node_id: Int32 = 0
    host: String = ""
    port: Int32 = 0
    rack: Annotated[String | None, Since(1), IGNORABLE] = None


class MetadataPartition(Wire, frozen=True):
    """A partition with its leader, replicas and in-sync replicas."""

    error_code: Int16 = 0
    partition_index: Int32 = 0
    leader_id: Int32 = 0
    leader_epoch: Annotated[Int32, Since(7), IGNORABLE] = -1
    replica_nodes: Array[Int32] = ()
    isr_nodes: Array[Int32] = ()
    offline_replicas: Annotated[Array[Int32], Since(5), IGNORABLE] = ()


class MetadataTopic(Wire, frozen=True):
    """A topic with its partitions, or an error."""

    error_code: Int16 = 0
    name: Annotated[String | None, NullSince(12)] = ""
    topic_id: Annotated[Uuid, Since(10), IGNORABLE] = NO_ID
    is_internal: Annotated[Bool, Since(1), IGNORABLE] = False
    partitions: Array[MetadataPartition] = ()
    topic_authorized_operations: Annotated[Int32, Since(8)] = -(2**31)


class MetadataResponse(Wire, frozen=True):
    """The brokers and the requested topics."""

    throttle_time_ms: Annotated[Int32, Since(3), IGNORABLE] = 0
    brokers: Array[MetadataBroker] = ()
    cluster_id: Annotated[String | None, Since(2), IGNORABLE] = None
    controller_id: Annotated[Int32, Since(1), IGNORABLE] = -1
    topics: Array[MetadataTopic] = ()
    error_code: Annotated[Int16, Since(13), IGNORABLE] = 0
    cluster_authorized_operations: Annotated[Int32, Since(8), Until(10)] = -(2**31)


METADATA = api(3, MetadataRequest, MetadataResponse, "0-13", "9+")


class DescribeClusterRequest(Wire, frozen=True):
    """Ask for the brokers."""

    include_cluster_authorized_operations: Bool = False
    endpoint_type: Annotated[Int8, Since(1)] = 1
    include_fenced_brokers: Annotated[Bool, Since(2)] = False


class ClusterBroker(Wire, frozen=True):
    """A broker and its address."""

    broker_id: Int32 = 0
    host: String = ""
    port: Int32 = 0
    rack: String | None = None
    is_fenced: Annotated[Bool, Since(2), IGNORABLE] = False


class DescribeClusterResponse(ExplainedError, frozen=True):
    """The brokers of the cluster."""

    endpoint_type: Annotated[Int8, Since(1)] = 1
    cluster_id: String = ""
    controller_id: Int32 = -1
    brokers: Array[ClusterBroker] = ()
    cluster_authorized_operations: Int32 = -(2**31)


DESCRIBE_CLUSTER = api(60, DescribeClusterRequest, DescribeClusterResponse, "0-2", "0+")
