"""ListOffsets, OffsetForLeaderEpoch, DeleteRecords: offsets by time and epoch, and trimming."""

from mainstem.core.errors import MainstemError
from mainstem.heads.kafka.adapter.errors import Code, code_of
from mainstem.heads.kafka.adapter.service import Asked, Reply, Service
from mainstem.heads.kafka.messages.offsets import (
    DeletedRecordsPartition,
    DeletedRecordsTopic,
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    ListedOffset,
    ListedOffsetsTopic,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
)

FIRST, LAST = 1, 6
DELETE_FIRST, DELETE_LAST = 0, 2

_LATEST, _EARLIEST = -1, -2


def answer(asked: Asked, request: ListOffsetsRequest, reply: Reply) -> None:
    """Find offsets by time, or at an end of the log."""
    topics = tuple(
        ListedOffsetsTopic(
            topic.name,
            tuple(_listed(asked.service, topic.name, each) for each in topic.partitions),
        )
        for topic in request.topics
    )
    reply(ListOffsetsResponse(topics=topics))


def _listed(service: Service, topic: str, asked: ListOffsetsPartition) -> ListedOffset:
    number = asked.partition_index
    try:
        bounds = service.broker.bounds(topic, number)
        if asked.timestamp == _LATEST:
            return ListedOffset(number, 0, -1, bounds.tail, bounds.epoch)
        if asked.timestamp == _EARLIEST:
            return ListedOffset(number, 0, -1, bounds.start, bounds.epoch)
        if asked.timestamp < 0:
            return ListedOffset(number, Code.UNSUPPORTED_VERSION)
        found = service.broker.offset_at(topic, number, asked.timestamp)
    except MainstemError as error:
        return ListedOffset(number, code_of(error))
    if found is None:
        return ListedOffset(number)
    return ListedOffset(number, 0, found.timestamp_ms, found.offset, bounds.epoch)


def delete_records(asked: Asked, request: DeleteRecordsRequest, reply: Reply) -> None:
    """Delete what is before offsets."""
    topics = tuple(
        DeletedRecordsTopic(
            topic.name,
            tuple(_deleted(asked.service, topic.name, each) for each in topic.partitions),
        )
        for topic in request.topics
    )
    reply(DeleteRecordsResponse(topics=topics))


def _deleted(
    service: Service, topic: str, asked: DeleteRecordsPartition
) -> DeletedRecordsPartition:
    number, before = asked.partition_index, asked.offset
    try:
        if before == -1:
            before = service.broker.bounds(topic, number).tail
        bounds = service.broker.trim(topic, number, before)
    except MainstemError as error:
        return DeletedRecordsPartition(number, -1, code_of(error))
    return DeletedRecordsPartition(number, bounds.start)
