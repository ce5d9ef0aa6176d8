"""CreatePartitions, versions 0 to 3: adds partitions to topics; answered when durable."""

from functools import partial

from mainstem.core.errors import MainstemError
from mainstem.heads.kafka.adapter.durable_replies import Results
from mainstem.heads.kafka.adapter.errors import code_of
from mainstem.heads.kafka.adapter.registry import serves
from mainstem.heads.kafka.adapter.service import Asked, Reply, Service
from mainstem.heads.kafka.adapter.topics import Wrong, each_once, misplaced
from mainstem.kafka_protocol.error_codes import Code
from mainstem.kafka_protocol.messages import topics as messages


@serves(messages.CREATE_PARTITIONS, 0, 3)
def answer(asked: Asked, request: messages.CreatePartitionsRequest, reply: Reply) -> None:
    """Add partitions to topics; answered when each change is durable or refused."""
    results = Results[messages.CreatedPartitions](asked.service)

    def grow(topic: messages.CreatePartitionsTopic) -> None:
        _grow(asked.service, topic, request.validate_only, results)

    each_once(request.topics, grow, results, messages.CreatedPartitions)
    results.then(lambda created: reply(messages.CreatePartitionsResponse(results=created)))


def _not_grown(name: str, error: MainstemError) -> messages.CreatedPartitions:
    return messages.CreatedPartitions(name, code_of(error), str(error))


def _grow(
    service: Service,
    asked: messages.CreatePartitionsTopic,
    validate_only: bool,
    results: Results[messages.CreatedPartitions],
) -> None:
    now = service.broker.topic(asked.name).settings.partitions
    if asked.count <= now:
        message = f"topic {asked.name!r} has {now} partitions; ask for more than that"
        results.add(messages.CreatedPartitions(asked.name, Code.INVALID_PARTITIONS, message))
    elif wrong := _wrong_growth(asked, asked.count - now):
        results.add(messages.CreatedPartitions(asked.name, *wrong))
    elif validate_only:
        results.add(messages.CreatedPartitions(asked.name))
    else:
        durable = service.broker.alter_topic(asked.name, partitions=asked.count).durable
        grown = messages.CreatedPartitions(asked.name)
        results.add_later(durable, grown, partial(_not_grown, asked.name))


def _wrong_growth(asked: messages.CreatePartitionsTopic, count: int) -> Wrong:
    places = asked.assignments
    if places is None:
        return None
    if len(places) != count:
        return (
            Code.INVALID_REPLICA_ASSIGNMENT,
            f"{len(places)} assignments for {count} new partitions",
        )
    return misplaced([each.broker_ids for each in places])
