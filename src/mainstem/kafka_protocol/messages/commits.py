"""Offsets that groups have committed."""

from typing import Annotated

from mainstem.kafka_protocol.api import api
from mainstem.kafka_protocol.fields import IGNORABLE, NO_ID, NullSince, Since, Until, Wire
from mainstem.kafka_protocol.messages.partitions import ByName, PartitionIndex, PartitionResult
from mainstem.kafka_protocol.messages.responses import ThrottledSince3
from mainstem.kafka_protocol.wire import Array, Bool, Int16, Int32, Int64, String, Uuid


class TopicOfCommits(Wire, frozen=True):
    """A topic, named by its id since version 10."""

    topic_id: Annotated[Uuid, Since(10), IGNORABLE] = NO_ID
    name: Annotated[String, Until(9), IGNORABLE] = ""


class CommitPartition(Wire, frozen=True):
    """The offset to commit in one partition."""

    partition_index: Int32 = 0
    committed_offset: Int64 = 0
    committed_leader_epoch: Annotated[Int32, Since(6), IGNORABLE] = -1
    committed_metadata: String | None = ""


class CommitTopic(TopicOfCommits, frozen=True):
    """The offsets to commit in one topic."""

    partitions: Array[CommitPartition] = ()


class OffsetCommitRequest(Wire, frozen=True):
    """Commit offsets of a group."""

    group_id: String = ""
    generation_id_or_member_epoch: Int32 = -1
    member_id: String = ""
    group_instance_id: Annotated[String | None, Since(7)] = None
    retention_time_ms: Annotated[Int64, Until(4), IGNORABLE] = -1
    topics: Array[CommitTopic] = ()


CommittedPartition = PartitionResult


class CommittedTopic(TopicOfCommits, frozen=True):
    """The results of a commit in one topic, by partition."""

    partitions: Array[CommittedPartition] = ()


class OffsetCommitResponse(ThrottledSince3, frozen=True):
    """The results of the commit, by topic and partition."""

    topics: Array[CommittedTopic] = ()


OFFSET_COMMIT = api(8, OffsetCommitRequest, OffsetCommitResponse, "2-10", "8+")


class OffsetFetchTopic(TopicOfCommits, frozen=True):
    """The partitions of one topic whose committed offsets are requested."""

    partition_indexes: Array[Int32] = ()


class OffsetFetchGroup(Wire, frozen=True):
    """A group whose committed offsets are requested; null topics means all topics."""

    group_id: String = ""
    member_id: Annotated[String | None, Since(9), IGNORABLE] = None
    member_epoch: Annotated[Int32, Since(9), IGNORABLE] = -1
    topics: Array[OffsetFetchTopic] | None = ()


class OffsetFetchRequest(Wire, frozen=True):
    """Ask for the committed offsets of a group; of several groups since version 8."""

    groups: Annotated[Array[OffsetFetchGroup], Since(8)] = ()
    group_id: Annotated[String, Until(7)] = ""
    topics: Annotated[Array[OffsetFetchTopic] | None, Until(7), NullSince(2)] = ()
    require_stable: Annotated[Bool, Since(7)] = False


class FetchedOffset(Wire, frozen=True):
    """The committed offset of one partition; -1 if the group has none."""

    partition_index: Int32 = 0
    committed_offset: Int64 = 0
    committed_leader_epoch: Annotated[Int32, Since(5), IGNORABLE] = -1
    metadata: String | None = ""
    error_code: Int16 = 0


class FetchedOffsetsTopic(TopicOfCommits, frozen=True):
    """The committed offsets of one topic."""

    partitions: Array[FetchedOffset] = ()


class FetchedOffsetsGroup(Wire, frozen=True):
    """The committed offsets of one group."""

    group_id: String = ""
    topics: Array[FetchedOffsetsTopic] = ()
    error_code: Int16 = 0


class OffsetFetchResponse(ThrottledSince3, frozen=True):
    """The committed offsets of the groups."""

    groups: Annotated[Array[FetchedOffsetsGroup], Since(8)] = ()
    topics: Annotated[Array[FetchedOffsetsTopic], Until(7)] = ()
    error_code: Annotated[Int16, Since(2), Until(7), IGNORABLE] = 0


OFFSET_FETCH = api(9, OffsetFetchRequest, OffsetFetchResponse, "1-10", "6+")


OffsetDeletePartition = PartitionIndex
OffsetDeleteTopic = ByName[OffsetDeletePartition]


class OffsetDeleteRequest(Wire, frozen=True):
    """Delete committed offsets of a group."""

    group_id: String = ""
    topics: Array[OffsetDeleteTopic] = ()


DeletedOffset = PartitionResult
DeletedOffsetsTopic = ByName[DeletedOffset]


class OffsetDeleteResponse(Wire, frozen=True):
    """For each partition, whether the committed offset was deleted."""

    error_code: Int16 = 0
    throttle_time_ms: Int32 = 0
    topics: Array[DeletedOffsetsTopic] = ()


OFFSET_DELETE = api(47, OffsetDeleteRequest, OffsetDeleteResponse, "0")
