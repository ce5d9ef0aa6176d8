"""DescribeTopicPartitions, version 0: partitions of topics, page by page."""

from mainstem.broker.door import Topic
from mainstem.core.errors import MainstemError
from mainstem.core.names import check_topic
from mainstem.heads.kafka.adapter.authorized_operations import ON_TOPIC
from mainstem.heads.kafka.adapter.errors import code_of
from mainstem.heads.kafka.adapter.registry import serves
from mainstem.heads.kafka.adapter.service import Asked, Reply, Service
from mainstem.heads.kafka.adapter.topics import id_of
from mainstem.kafka_protocol.messages import topic_partitions as messages

_MOST = 2000
"""Maximum partitions per page, even if the request allows more."""


@serves(messages.DESCRIBE_TOPIC_PARTITIONS, 0, 0)
def answer(asked: Asked, request: messages.DescribeTopicPartitionsRequest, reply: Reply) -> None:
    """Describe topics by name, from the request's cursor on, at most one page of partitions."""
    service = asked.service
    names = sorted({each.name for each in request.topics})
    if not names:
        names = [each.name for each in service.broker.topics()]
    first = 0
    if request.cursor is not None:
        names = [name for name in names if name >= request.cursor.topic_name]
        if names and names[0] == request.cursor.topic_name:
            first = max(0, request.cursor.partition_index)
    room = min(max(request.response_partition_limit, 1), _MOST)
    topics: list[messages.DescribedTopic] = []
    following = None
    for name in names:
        if room <= 0:
            following = messages.PartitionsCursor(name, 0)
            break
        topic, left = _described(service, name, first, room)
        topics.append(topic)
        room -= len(topic.partitions)
        if left:
            following = messages.PartitionsCursor(name, first + len(topic.partitions))
            break
        first = 0
    reply(messages.DescribeTopicPartitionsResponse(topics=topics, next_cursor=following))


def _described(
    service: Service, name: str, first: int, room: int
) -> tuple[messages.DescribedTopic, bool]:
    """Return a topic with at most ``room`` partitions from ``first`` on, and whether more exist."""
    try:
        topic = _find(service, name)
        numbers = range(first, min(len(topic.partitions), first + room))
        partitions = [_partition(service, name, number) for number in numbers]
    except MainstemError as error:
        return messages.DescribedTopic(code_of(error), name), False
    described = messages.DescribedTopic(0, name, id_of(topic), topic.internal, partitions, ON_TOPIC)
    return described, numbers.stop < len(topic.partitions)


def _find(service: Service, name: str) -> Topic:
    check_topic(name, internal=True)
    return service.broker.topic(name)


def _partition(service: Service, name: str, number: int) -> messages.DescribedPartition:
    node = (service.settings.node_id,)
    epoch = service.broker.bounds(name, number).epoch
    # The Java client fails if the last two lists are null, though the protocol allows it.
    return messages.DescribedPartition(0, number, node[0], epoch, node, node, (), ())
