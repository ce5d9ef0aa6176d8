"""Offsets by time and by epoch, and deleting records before an offset."""

from typing import Annotated

from mainstem.kafka_protocol.api import api
from mainstem.kafka_protocol.fields import IGNORABLE, Since, Wire
from mainstem.kafka_protocol.messages.partitions import ByName, ByTopic
from mainstem.kafka_protocol.messages.responses import Throttled, ThrottledSince2
from mainstem.kafka_protocol.wire import Array, Int8, Int16, Int32, Int64


class ListOffsetsPartition(Wire, frozen=True):
    """A partition, and the timestamp to search for."""

    partition_index: Int32 = 0
    current_leader_epoch: Annotated[Int32, Since(4), IGNORABLE] = -1
    timestamp: Int64 = 0


ListOffsetsTopic = ByName[ListOffsetsPartition]


class ListOffsetsRequest(Wire, frozen=True):
    """Find offsets by timestamp; -1: latest offset, -2: earliest, -3: of the latest timestamp."""

    replica_id: Int32 = 0
    isolation_level: Annotated[Int8, Since(2)] = 0
    topics: Array[ListOffsetsTopic] = ()
    timeout_ms: Annotated[Int32, Since(10), IGNORABLE] = 0


class ListedOffset(Wire, frozen=True):
    """The offset found in one partition."""

    partition_index: Int32 = 0
    error_code: Int16 = 0
    timestamp: Int64 = -1
    offset: Int64 = -1
    leader_epoch: Annotated[Int32, Since(4), IGNORABLE] = -1


ListedOffsetsTopic = ByName[ListedOffset]


class ListOffsetsResponse(ThrottledSince2, frozen=True):
    """The offset found in each partition; -1 where there is none."""

    topics: Array[ListedOffsetsTopic] = ()


LIST_OFFSETS = api(2, ListOffsetsRequest, ListOffsetsResponse, "1-11", "6+")


class EpochPartition(Wire, frozen=True):
    """A partition, and the leader epoch whose end offset is requested."""

    partition: Int32 = 0
    current_leader_epoch: Int32 = -1
    leader_epoch: Int32 = 0


EpochTopic = ByTopic[EpochPartition]


class OffsetForLeaderEpochRequest(Wire, frozen=True):
    """Ask for the end offsets of leader epochs, to detect truncation of the log."""

    replica_id: Annotated[Int32, Since(3), IGNORABLE] = -2
    topics: Array[EpochTopic] = ()


class EpochEndOffset(Wire, frozen=True):
    """The end offset in one partition of the epoch, or of the last epoch before it."""

    error_code: Int16 = 0
    partition: Int32 = 0
    leader_epoch: Int32 = -1
    end_offset: Int64 = -1


EpochEndTopic = ByTopic[EpochEndOffset]


class OffsetForLeaderEpochResponse(Throttled, frozen=True):
    """The end offset of the requested epoch in each partition."""

    topics: Array[EpochEndTopic] = ()


OFFSET_FOR_LEADER_EPOCH = api(
    23, OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse, "2-4", "4+"
)


class DeleteRecordsPartition(Wire, frozen=True):
    """A partition, and the offset before which its records are deleted."""

    partition_index: Int32 = 0
    offset: Int64 = 0


DeleteRecordsTopic = ByName[DeleteRecordsPartition]


class DeleteRecordsRequest(Wire, frozen=True):
    """Delete the records before an offset; -1 is the high watermark."""

    topics: Array[DeleteRecordsTopic] = ()
    timeout_ms: Int32 = 0


class DeletedRecordsPartition(Wire, frozen=True):
    """The first offset of one partition after the deletion."""

    partition_index: Int32 = 0
    low_watermark: Int64 = 0
    error_code: Int16 = 0


DeletedRecordsTopic = ByName[DeletedRecordsPartition]


class DeleteRecordsResponse(Throttled, frozen=True):
    """The first offset of each partition after the deletion."""

    topics: Array[DeletedRecordsTopic] = ()


DELETE_RECORDS = api(21, DeleteRecordsRequest, DeleteRecordsResponse, "0-2", "2+")
