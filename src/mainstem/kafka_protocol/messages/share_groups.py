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
from mainstem.kafka_protocol.messages.partitions import (
    ByNameAndId,
    ByTopicName,
    ExplainedResult,
)
from mainstem.kafka_protocol.messages.responses import ExplainedError, Throttled
from mainstem.kafka_protocol.wire import Array, Int16, Int32, Int64, String, Uuid


class ShareGroupHeartbeatRequest(Wire, frozen=True):
    """Join, stay, change the subscription, or leave (epoch -1); null is unchanged."""

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
    """Ask for share groups and their members."""


DescribedSharePartitions = AssignedPartitions
DescribedShareAssignment = DescribedAssignment


class DescribedShareMember(Wire, frozen=True):
    """A member and its assignment."""

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
    """A requested group; null topics means all."""

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
    """The start offsets of one group."""

    group_id: String = ""
    topics: Array[DescribedShareOffsetsTopic] = ()
    error_code: Int16 = 0
    error_message: String | None = None


class DescribeShareGroupOffsetsResponse(Throttled, frozen=True):
    """The start offsets of the groups."""

    groups: Array[DescribedShareOffsets] = ()


DESCRIBE_SHARE_GROUP_OFFSETS = api(
    90, DescribeShareGroupOffsetsRequest, DescribeShareGroupOffsetsResponse, "0-1", "0+"
)


class AlterShareOffset(Wire, frozen=True):
    """The new start offset of one partition."""

    partition_index: Int32 = 0
    start_offset: Int64 = 0


AlterShareOffsetsTopic = ByTopicName[AlterShareOffset]


class AlterShareGroupOffsetsRequest(Wire, frozen=True):
    """Change the start offsets of a group without members."""

    group_id: String = ""
    topics: Array[AlterShareOffsetsTopic] = ()


AlteredShareOffset = ExplainedResult
AlteredShareOffsetsTopic = ByNameAndId[AlteredShareOffset]


class AlterShareGroupOffsetsResponse(ExplainedError, frozen=True):
    """The results, by partition."""

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
    """The result of one topic."""

    topic_name: String = ""
    topic_id: Uuid = NO_ID
    error_code: Int16 = 0
    error_message: String | None = None


class DeleteShareGroupOffsetsResponse(ExplainedError, frozen=True):
    """The results of the deletion."""

    responses: Array[DeletedShareOffsetsTopic] = ()


DELETE_SHARE_GROUP_OFFSETS = api(
    92, DeleteShareGroupOffsetsRequest, DeleteShareGroupOffsetsResponse, "0", "0+"
)
