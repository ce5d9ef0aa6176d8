"""DescribeLogDirs, versions 1 to 5: one directory, which holds all partitions."""

from collections.abc import Iterable

from mainstem.auth import CLUSTER, Action
from mainstem.core.errors import MainstemError
from mainstem.heads.kafka.adapter.registry import requires, serves
from mainstem.heads.kafka.adapter.service import Asked, Reply, Service
from mainstem.kafka_protocol.messages import log_dirs as messages

LOG_DIR = "/mainstem"
"""A made-up path, as the real one is not disclosed over the network; clients only compare it."""


@serves(messages.DESCRIBE_LOG_DIRS, 1, 5)
@requires(Action.DESCRIBE, CLUSTER, messages.DescribeLogDirsResponse)
def answer(asked: Asked, request: messages.DescribeLogDirsRequest, reply: Reply) -> None:
    """Return the only log directory with the sizes of the requested partitions."""
    service = asked.service
    wanted: Iterable[tuple[str, Iterable[int]]]
    if request.topics is None:
        wanted = [(each.name, range(len(each.partitions))) for each in service.broker.topics()]
    else:
        wanted = [(each.topic, each.partitions) for each in request.topics]
    topics = tuple(_topic(service, name, numbers) for name, numbers in wanted)
    found = tuple(each for each in topics if each.partitions)
    reply(messages.DescribeLogDirsResponse(results=(messages.LogDir(0, LOG_DIR, found),)))


def _topic(service: Service, name: str, numbers: Iterable[int]) -> messages.LogDirTopic:
    partitions = []
    for number in numbers:
        try:
            bounds = service.broker.bounds(name, number)
        except MainstemError:
            # Missing partitions are left out, as in Kafka.
            continue
        partitions.append(messages.LogDirPartition(number, bounds.size_bytes))
    return messages.LogDirTopic(name, partitions)
