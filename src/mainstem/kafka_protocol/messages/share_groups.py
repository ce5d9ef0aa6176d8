"""Share groups: members, and where their partitions start [KIP-932]."""

from typing import Annotated

from mainstem.kafka_protocol.api import Api
from mainstem.kafka_protocol.fields import (
    IGNORABLE,
    NO_ID,
    Array,
    Bool,
    Int16,
    Int32,
    Int64,
    Since,
    String,
    Uuid,
    Wire,
)


class ShareGroupHeartbeatRequest(Wire, frozen=True):
    """Join, stay, change the subscription, or leave (epoch -1); null is unchanged."""

    group_id: String = ""
    member_id: String = ""
    member_epoch: Int32 = 0
    rack_id: String | None = None
    subscribed_topic_names: Array[String] | None = None


class SharePartitions(Wire, frozen=True):
    """What the member may fetch of one topic."""

    topic_id: Uuid = NO_ID
    partitions: Array[Int32] = ()


class ShareAssignment(Wire, frozen=True):
    """What the member may fetch."""

    topic_partitions: Array[SharePartitions] = ()


class ShareGroupHeartbeatResponse(Wire, frozen=True):
    """The member's epoch, and its assignment if that has changed."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    member_id: String | None = None
    member_epoch: Int32 = 0
    heartbeat_interval_ms: Int32 = 0
    assignment: ShareAssignment | None = None


SHARE_GROUP_HEARTBEAT = Api(
    76, ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse, first=1, last=1, flexible_since=1
)


class ShareGroupDescribeRequest(Wire, frozen=True):
    """Ask for share groups and their members."""

    group_ids: Array[String] = ()
    include_authorized_operations: Bool = False


class DescribedSharePartitions(Wire, frozen=True):
    """What a member may fetch of one topic."""

    topic_id: Uuid = NO_ID
    topic_name: String = ""
    partitions: Array[Int32] = ()


class DescribedShareAssignment(Wire, frozen=True):
    """What a member may fetch."""

    topic_partitions: Array[DescribedSharePartitions] = ()


class DescribedShareMember(Wire, frozen=True):
    """A member, and what it may fetch."""

    member_id: String = ""
    rack_id: String | None = None
    member_epoch: Int32 = 0
    client_id: String = ""
    client_host: String = ""
    subscribed_topic_names: Array[String] = ()
    assignment: DescribedShareAssignment = DescribedShareAssignment()


class DescribedShareGroup(Wire, frozen=True):
    """A group, its epochs and its members."""

    error_code: Int16 = 0
    error_message: String | None = None
    group_id: String = ""
    group_state: String = ""
    group_epoch: Int32 = 0
    assignment_epoch: Int32 = 0
    assignor_name: String = ""
    members: Array[DescribedShareMember] = ()
    authorized_operations: Int32 = -(2**31)


class ShareGroupDescribeResponse(Wire, frozen=True):
    """The groups asked for."""

    throttle_time_ms: Int32 = 0
    groups: Array[DescribedShareGroup] = ()


SHARE_GROUP_DESCRIBE = Api(
    77, ShareGroupDescribeRequest, ShareGroupDescribeResponse, first=1, last=1, flexible_since=1
)


class ShareOffsetsTopic(Wire, frozen=True):
    """Partitions of one topic."""

    topic_name: String = ""
    partitions: Array[Int32] = ()


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


class DescribedShareOffsetsTopic(Wire, frozen=True):
    """Where the partitions of one topic start."""

    topic_name: String = ""
    topic_id: Uuid = NO_ID
    partitions: Array[DescribedShareOffset] = ()


class DescribedShareOffsets(Wire, frozen=True):
    """Where one group's partitions start."""

    group_id: String = ""
    topics: Array[DescribedShareOffsetsTopic] = ()
    error_code: Int16 = 0
    error_message: String | None = None


class DescribeShareGroupOffsetsResponse(Wire, frozen=True):
    """Where the groups' partitions start."""

    throttle_time_ms: Int32 = 0
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


class AlterShareOffsetsTopic(Wire, frozen=True):
    """What changes in one topic."""

    topic_name: String = ""
    partitions: Array[AlterShareOffset] = ()


class AlterShareGroupOffsetsRequest(Wire, frozen=True):
    """Let a group without members start elsewhere."""

    group_id: String = ""
    topics: Array[AlterShareOffsetsTopic] = ()


class AlteredShareOffset(Wire, frozen=True):
    """What became of one partition."""

    partition_index: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None


class AlteredShareOffsetsTopic(Wire, frozen=True):
    """What became of one topic."""

    topic_name: String = ""
    topic_id: Uuid = NO_ID
    partitions: Array[AlteredShareOffset] = ()


class AlterShareGroupOffsetsResponse(Wire, frozen=True):
    """Which starts were changed."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
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


class DeleteShareGroupOffsetsResponse(Wire, frozen=True):
    """What was forgotten."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    responses: Array[DeletedShareOffsetsTopic] = ()


DELETE_SHARE_GROUP_OFFSETS = Api(
    92,
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
    first=0,
    last=0,
    flexible_since=0,
)
