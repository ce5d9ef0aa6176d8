"""Share groups: members and start offsets [KIP-932]."""

from typing import Annotated

from mainstem.kafka_protocol.api import api
from mainstem.kafka_protocol.fields import IGNORABLE, NO_ID, Since, Wire
from mainstem.kafka_protocol.messages.group_common import (
    AssignedGroup,
    AssignedPartitions,
    Assignment,
    AssignmentResponse,
    DescribedAssignment,
    GroupIdsRequest,
    TopicPartitions,
)
from mainstem.kafka_protocol.messages.partitions import ByNameAndId, ByTopicName, ExplainedResult
from mainstem.kafka_protocol.messages.responses import ExplainedError, Throttled
from mainstem.kafka_protocol.wire import Array, Int16, Int32, Int64, String, Uuid


class ShareGroupHeartbeatRequest(Wire, frozen=True):
    """Join, stay, change the subscription, or leave (epoch -1); a null field is unchanged."""

    group_id: String = ""
    member_id: String = ""
    member_epoch: Int32 = 0
    rack_id: String | None = None
    subscribed_topic_names: Array[String] | None = None


SharePartitions = TopicPartitions
ShareAssignment = Assignment


class ShareGroupHeartbeatResponse(AssignmentResponse, frozen=True):
    """The member's epoch, and its assignment if that has changed."""


SHARE_GROUP_HEARTBEAT = api(76, ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse, "1", "1+")


class ShareGroupDescribeRequest(GroupIdsRequest, frozen=True):
    """Ask for the state and the members of share groups."""


DescribedSharePartitions = AssignedPartitions
DescribedShareAssignment = DescribedAssignment


class DescribedShareMember(Wire, frozen=True):
    """A share group member and its assignment."""

    member_id: String = ""
    rack_id: String | None = None
    member_epoch: Int32 = 0
    client_id: String = ""
    client_host: String = ""
    subscribed_topic_names: Array[String] = ()
    assignment: DescribedShareAssignment = DescribedShareAssignment()


DescribedShareGroup = AssignedGroup[DescribedShareMember]


class ShareGroupDescribeResponse(Throttled, frozen=True):
    """The requested groups."""

    groups: Array[DescribedShareGroup] = ()


SHARE_GROUP_DESCRIBE = api(77, ShareGroupDescribeRequest, ShareGroupDescribeResponse, "1", "1+")


ShareOffsetsTopic = ByTopicName[Int32]


class ShareOffsetsGroup(Wire, frozen=True):
    """A share group whose offsets are requested; null topics means all topics."""

    group_id: String = ""
    topics: Array[ShareOffsetsTopic] | None = ()


class DescribeShareGroupOffsetsRequest(Wire, frozen=True):
    """Ask for the start offsets of share groups."""

    groups: Array[ShareOffsetsGroup] = ()


class DescribedShareOffset(Wire, frozen=True):
    """The start offset and lag of one partition."""

    partition_index: Int32 = 0
    start_offset: Int64 = 0
    leader_epoch: Int32 = 0
    lag: Annotated[Int64, Since(1), IGNORABLE] = -1
    error_code: Int16 = 0
    error_message: String | None = None


DescribedShareOffsetsTopic = ByNameAndId[DescribedShareOffset]


class DescribedShareOffsets(Wire, frozen=True):
    """The start offsets of one group, by topic and partition."""

    group_id: String = ""
    topics: Array[DescribedShareOffsetsTopic] = ()
    error_code: Int16 = 0
    error_message: String | None = None


class DescribeShareGroupOffsetsResponse(Throttled, frozen=True):
    """The start offsets of the requested groups."""

    groups: Array[DescribedShareOffsets] = ()


DESCRIBE_SHARE_GROUP_OFFSETS = api(
    90, DescribeShareGroupOffsetsRequest, DescribeShareGroupOffsetsResponse, "0-1", "0+"
)


class AlterShareOffset(Wire, frozen=True):
    """A partition and its new start offset."""

    partition_index: Int32 = 0
    start_offset: Int64 = 0


AlterShareOffsetsTopic = ByTopicName[AlterShareOffset]


class AlterShareGroupOffsetsRequest(Wire, frozen=True):
    """Set the start offsets of a share group that has no members."""

    group_id: String = ""
    topics: Array[AlterShareOffsetsTopic] = ()


AlteredShareOffset = ExplainedResult
AlteredShareOffsetsTopic = ByNameAndId[AlteredShareOffset]


class AlterShareGroupOffsetsResponse(ExplainedError, frozen=True):
    """For each partition, whether its start offset was set."""

    responses: Array[AlteredShareOffsetsTopic] = ()


ALTER_SHARE_GROUP_OFFSETS = api(
    91, AlterShareGroupOffsetsRequest, AlterShareGroupOffsetsResponse, "0", "0+"
)


class DeleteShareOffsetsTopic(Wire, frozen=True):
    """A topic whose offsets are deleted."""

    topic_name: String = ""


class DeleteShareGroupOffsetsRequest(Wire, frozen=True):
    """Delete the offsets of a share group in some topics."""

    group_id: String = ""
    topics: Array[DeleteShareOffsetsTopic] = ()


class DeletedShareOffsetsTopic(Wire, frozen=True):
    """For one topic, whether the group's offsets were deleted."""

    topic_name: String = ""
    topic_id: Uuid = NO_ID
    error_code: Int16 = 0
    error_message: String | None = None


class DeleteShareGroupOffsetsResponse(ExplainedError, frozen=True):
    """For each topic, whether the group's offsets were deleted."""

    responses: Array[DeletedShareOffsetsTopic] = ()


DELETE_SHARE_GROUP_OFFSETS = api(
    92, DeleteShareGroupOffsetsRequest, DeleteShareGroupOffsetsResponse, "0", "0+"
)
