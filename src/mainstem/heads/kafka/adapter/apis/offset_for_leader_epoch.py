"""OffsetForLeaderEpoch, versions 2 to 4: the end offsets of leader epochs."""

from mainstem.core.errors import MainstemError
from mainstem.heads.kafka.adapter.errors import code_of
from mainstem.heads.kafka.adapter.fetching.leader_epochs import compare, end_of
from mainstem.heads.kafka.adapter.registry import serves
from mainstem.heads.kafka.adapter.service import Asked, Reply, Service
from mainstem.kafka_protocol.messages import offsets as messages


@serves(messages.OFFSET_FOR_LEADER_EPOCH, 2, 4)
def answer(asked: Asked, request: messages.OffsetForLeaderEpochRequest, reply: Reply) -> None:
    """Return the end offset of each requested epoch, so that consumers can detect truncation."""
    topics = tuple(
        messages.EpochEndTopic(
            topic.topic,
            tuple(_ended(asked.service, topic.topic, each) for each in topic.partitions),
        )
        for topic in request.topics
    )
    reply(messages.OffsetForLeaderEpochResponse(topics=topics))


def _ended(service: Service, topic: str, asked: messages.EpochPartition) -> messages.EpochEndOffset:
    number, epoch = asked.partition, asked.leader_epoch
    try:
        bounds = service.broker.bounds(topic, number)
        code = compare(asked.current_leader_epoch, bounds.epoch)
        if code:
            return messages.EpochEndOffset(code, number)
        if epoch > bounds.epoch or epoch < 0:
            return messages.EpochEndOffset(0, number)
        if epoch == bounds.epoch:
            return messages.EpochEndOffset(0, number, epoch, bounds.tail)
        found, end = end_of(service.broker, topic, number, epoch)
    except MainstemError as error:
        return messages.EpochEndOffset(code_of(error), number)
    return messages.EpochEndOffset(0, number, found, end)
