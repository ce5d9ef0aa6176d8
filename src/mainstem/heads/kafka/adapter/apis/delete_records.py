"""DeleteRecords, versions 0 to 2: deletes all records of partitions before an offset."""

from functools import partial

from mainstem.core.errors import MainstemError
from mainstem.heads.kafka.adapter.errors import code_of
from mainstem.heads.kafka.adapter.partitions import each_partition
from mainstem.heads.kafka.adapter.registry import serves
from mainstem.heads.kafka.adapter.service import Asked, Reply, Service
from mainstem.kafka_protocol.error_codes import Code
from mainstem.kafka_protocol.messages import offsets as messages

_TO_THE_TAIL = -1


@serves(messages.DELETE_RECORDS, 0, 2)
def answer(asked: Asked, request: messages.DeleteRecordsRequest, reply: Reply) -> None:
    """Delete all records before the given offset of each partition."""
    topics = each_partition(request.topics, partial(_deleted, asked.service))
    reply(messages.DeleteRecordsResponse(topics=topics))


def _deleted(
    service: Service, topic: str, asked: messages.DeleteRecordsPartition
) -> messages.DeletedRecordsPartition:
    number, before = asked.partition_index, asked.offset
    try:
        bounds = service.broker.bounds(topic, number)
        if before == _TO_THE_TAIL:
            before = bounds.tail
        elif before < 0:
            # For the log this is below the start offset, where there is nothing to delete.
            return messages.DeletedRecordsPartition(number, -1, Code.OFFSET_OUT_OF_RANGE)
        bounds = service.broker.trim(topic, number, before)
    except MainstemError as error:
        return messages.DeletedRecordsPartition(number, -1, code_of(error))
    return messages.DeletedRecordsPartition(number, bounds.start)
