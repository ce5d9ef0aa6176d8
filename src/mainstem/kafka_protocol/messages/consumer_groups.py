"""Groups of the consumer protocol [KIP-848]."""

from typing import Annotated

from mainstem.kafka_protocol.api import api
from mainstem.kafka_protocol.fields import IGNORABLE, Since, Wire
from mainstem.kafka_protocol.messages.group_common import (
    AssignedGroup,
    Assignment,
    AssignmentResponse,
    DescribedAssignment,
    GroupIdsRequest,
    TopicPartitions,
)
from mainstem.kafka_protocol.messages.responses import Throttled
from mainstem.kafka_protocol.wire import Array, Int8, Int32, String

OwnedPartitions = TopicPartitions
ConsumerAssignment = Assignment


class ConsumerGroupHeartbeatRequest(Wire, frozen=True):
    """Join, stay, change the subscription, or leave (epoch -1); a null field is unchanged."""

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


class ConsumerGroupHeartbeatResponse(AssignmentResponse, frozen=True):
    """The member's epoch, and its assignment if that has changed."""


CONSUMER_GROUP_HEARTBEAT = api(
    68, ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse, "0-1", "0+"
)


class ConsumerGroupDescribeRequest(GroupIdsRequest, frozen=True):
    """Ask for the state and the members of groups of the consumer protocol."""


class DescribedConsumer(Wire, frozen=True):
    """A group member with its current and target assignment."""

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


DescribedConsumerGroup = AssignedGroup[DescribedConsumer]


class ConsumerGroupDescribeResponse(Throttled, frozen=True):
    """The requested groups."""

    groups: Array[DescribedConsumerGroup] = ()


CONSUMER_GROUP_DESCRIBE = api(
    69, ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse, "0-1", "0+"
)
