"""Share groups: members, and where their partitions start [KIP-932]."""

from typing import Annotated

from mainstem.kafka_protocol.api import Api
from mainstem.kafka_protocol.fields import IGNORABLE, NO_ID, Since, Wire
from mainstem.kafka_protocol.messages.assigned_groups import (
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


SHARE_GROUP_HEARTBEAT = Api(
    76, ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse, first=1, last=1, flexible_since=1
)


class ShareGroupDescribeRequest(GroupIdsRequest, frozen=True):
    """Ask for share groups and their members."""


DescribedSharePartitions = AssignedPartitions
DescribedShareAssignment = DescribedAssignment


class DescribedShareMember(Wire, frozen=True):
    """A member, and what it may fetch."""

    member_id: String = ""
    rack_id: String | None = None
    member_epoch: Int32 = 0
    client_id: String = ""
    client_host: String = ""
    subscribed_topic_names: Array[String] = ()
    assignment: DescribedShareAssignment = DescribedShareAssignment()


DescribedShareGroup = AssignedGroup[DescribedShareMember]


class ShareGroupDescribeResponse(Throttled, frozen=True):
    """The groups asked for."""

    groups: Array[DescribedShareGroup] = ()


SHARE_GROUP_DESCRIBE = Api(
    77, ShareGroupDescribeRequest, ShareGroupDescribeResponse, first=1, last=1, flexible_since=1
)


ShareOffsetsTopic = ByTopicName[Int32]


class ShareOffsetsGroup(Wire, frozen=True):
    """A group that is asked about; null topics means all."""

    group_id: String = ""
    topics: Array[ShareOffsetsTopic] | None = ()


class DescribeShareGroupOffsetsRequest(Wire, frozen=True):
    """Ask where groups' partitions start."""

    groups: Array[ShareOffsetsGroup] = ()


class DescribedShareOffset(Wire, frozen=True):
    """Where one partition starts, and how far that is from its end."""

    partition_index: Int32 = 0
    start_offset: Int64 = 0
    leader_epoch: Int32 = 0
    lag: Annotated[Int64, Since(1), IGNORABLE] = -1
    error_code: Int16 = 0
    error_message: String | None = None


DescribedShareOffsetsTopic = ByNameAndId[DescribedShareOffset]


class DescribedShareOffsets(Wire, frozen=True):
    """Where one group's partitions start."""

    group_id: String = ""
    topics: Array[DescribedShareOffsetsTopic] = ()
    error_code: Int16 = 0
    error_message: String | None = None


class DescribeShareGroupOffsetsResponse(Throttled, frozen=True):
    """Where the groups' partitions start."""

    groups: Array[DescribedShareOffsets] = ()


DESCRIBE_SHARE_GROUP_OFFSETS = Api(
    90,
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsResponse,
    first=0,
    last=1,
    flexible_since=0,
)


class AlterShareOffset(Wire, frozen=True):
    """Where one partition is to start."""

    partition_index: Int32 = 0
    start_offset: Int64 = 0


AlterShareOffsetsTopic = ByTopicName[AlterShareOffset]


class AlterShareGroupOffsetsRequest(Wire, frozen=True):
    """Let a group without members start elsewhere."""

    group_id: String = ""
    topics: Array[AlterShareOffsetsTopic] = ()


AlteredShareOffset = ExplainedResult
AlteredShareOffsetsTopic = ByNameAndId[AlteredShareOffset]


class AlterShareGroupOffsetsResponse(ExplainedError, frozen=True):
    """Which starts were changed."""

    responses: Array[AlteredShareOffsetsTopic] = ()


ALTER_SHARE_GROUP_OFFSETS = Api(
    91,
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsResponse,
    first=0,
    last=0,
    flexible_since=0,
)


class DeleteShareOffsetsTopic(Wire, frozen=True):
    """A topic that is forgotten."""

    topic_name: String = ""


class DeleteShareGroupOffsetsRequest(Wire, frozen=True):
    """Forget where a group is in some topics."""

    group_id: String = ""
    topics: Array[DeleteShareOffsetsTopic] = ()


class DeletedShareOffsetsTopic(Wire, frozen=True):
    """What became of one topic."""

    topic_name: String = ""
    topic_id: Uuid = NO_ID
    error_code: Int16 = 0
    error_message: String | None = None


class DeleteShareGroupOffsetsResponse(ExplainedError, frozen=True):
    """What was forgotten."""

    responses: Array[DeletedShareOffsetsTopic] = ()


DELETE_SHARE_GROUP_OFFSETS = Api(
    92,
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
    first=0,
    last=0,
    flexible_since=0,
)
