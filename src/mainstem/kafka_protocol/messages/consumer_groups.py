"""Groups of the consumer protocol, whose coordinator assigns [KIP-848]."""

from typing import Annotated

from mainstem.kafka_protocol.api import Api
from mainstem.kafka_protocol.fields import (
    IGNORABLE,
    NO_ID,
    Array,
    Bool,
    Int8,
    Int16,
    Int32,
    Since,
    String,
    Uuid,
    Wire,
)


class OwnedPartitions(Wire, frozen=True):
    """What the member still owns of one topic."""

    topic_id: Uuid = NO_ID
    partitions: Array[Int32] = ()


class ConsumerGroupHeartbeatRequest(Wire, frozen=True):
    """Join, stay, change the subscription, or leave (epoch -1); null is unchanged."""

    group_id: String = ""
    member_id: String = ""
    member_epoch: Int32 = 0
    instance_id: String | None = None
    rack_id: String | None = None
    rebalance_timeout_ms: Int32 = -1
    subscribed_topic_names: Array[String] | None = None
    subscribed_topic_regex: Annotated[String | None, Since(1)] = None
    server_assignor: String | None = None
    topic_partitions: Array[OwnedPartitions] | None = None


class ConsumerAssignment(Wire, frozen=True):
    """What the member is to own."""

    topic_partitions: Array[OwnedPartitions] = ()


class ConsumerGroupHeartbeatResponse(Wire, frozen=True):
    """The member's epoch, and its assignment if that has changed."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    member_id: String | None = None
    member_epoch: Int32 = 0
    heartbeat_interval_ms: Int32 = 0
    assignment: ConsumerAssignment | None = None


CONSUMER_GROUP_HEARTBEAT = Api(
    68,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    first=0,
    last=1,
    flexible_since=0,
)


class ConsumerGroupDescribeRequest(Wire, frozen=True):
    """Ask for groups of the consumer protocol and their members."""

    group_ids: Array[String] = ()
    include_authorized_operations: Bool = False


class AssignedPartitions(Wire, frozen=True):
    """What a member owns of one topic, or is to own."""

    topic_id: Uuid = NO_ID
    topic_name: String = ""
    partitions: Array[Int32] = ()


class DescribedAssignment(Wire, frozen=True):
    """What a member owns, or is to own."""

    topic_partitions: Array[AssignedPartitions] = ()


class DescribedConsumer(Wire, frozen=True):
    """A member, what it owns and what it is to own."""

    member_id: String = ""
    instance_id: String | None = None
    rack_id: String | None = None
    member_epoch: Int32 = 0
    client_id: String = ""
    client_host: String = ""
    subscribed_topic_names: Array[String] = ()
    subscribed_topic_regex: String | None = None
    assignment: DescribedAssignment = DescribedAssignment()
    target_assignment: DescribedAssignment = DescribedAssignment()
    member_type: Annotated[Int8, Since(1), IGNORABLE] = -1


class DescribedConsumerGroup(Wire, frozen=True):
    """A group, its epochs and its members."""

    error_code: Int16 = 0
    error_message: String | None = None
    group_id: String = ""
    group_state: String = ""
    group_epoch: Int32 = 0
    assignment_epoch: Int32 = 0
    assignor_name: String = ""
    members: Array[DescribedConsumer] = ()
    authorized_operations: Int32 = -(2**31)


class ConsumerGroupDescribeResponse(Wire, frozen=True):
    """The groups asked for."""

    throttle_time_ms: Int32 = 0
    groups: Array[DescribedConsumerGroup] = ()


CONSUMER_GROUP_DESCRIBE = Api(
    69,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    first=0,
    last=1,
    flexible_since=0,
)
