"""DescribeProducers, version 0: producers of partitions and their open transactions."""

from mainstem.core.errors import MainstemError
from mainstem.heads.kafka.adapter.errors import code_of
from mainstem.heads.kafka.adapter.registry import serves
from mainstem.heads.kafka.adapter.service import Asked, Reply, Service
from mainstem.kafka_protocol.messages import producers as messages

_NONE = -1


@serves(messages.DESCRIBE_PRODUCERS, 0, 0)
def answer(asked: Asked, request: messages.DescribeProducersRequest, reply: Reply) -> None:
    """Return the active producers of partitions, and the first offsets of their transactions."""
    places: dict[str, dict[int, None]] = {}
    for topic in request.topics:
        places.setdefault(topic.name, {}).update(dict.fromkeys(topic.partition_indexes))
    topics = tuple(
        messages.DescribedProducersTopic(
            name, tuple(_partition(asked.service, name, number) for number in numbers)
        )
        for name, numbers in places.items()
    )
    reply(messages.DescribeProducersResponse(topics=topics))


def _partition(service: Service, topic: str, number: int) -> messages.DescribedProducersPartition:
    try:
        producers = service.broker.producers.describe(topic, number)
        started = service.broker.transactions.started_at(topic, number)
    except MainstemError as error:
        return messages.DescribedProducersPartition(number, code_of(error), str(error))
    now_ms = service.now_ms()
    active = tuple(
        messages.ActiveProducer(
            each.producer_id,
            each.epoch,
            each.last_sequence,
            now_ms - each.silent_ms,
            _NONE,
            started.get(each.producer_id, _NONE),
        )
        for each in producers
    )
    return messages.DescribedProducersPartition(number, active_producers=active)
