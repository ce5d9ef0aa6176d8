"""CreateTopics, versions 2 to 7: creates each topic independently.

Answered when all are durable.
"""

from functools import partial

from mainstem.broker.door import AT_ONCE, Durable
from mainstem.core.errors import InvalidSetting, MainstemError, TopicExists
from mainstem.core.names import check_topic
from mainstem.heads.kafka.adapter.configs import topic_configs
from mainstem.heads.kafka.adapter.durable_replies import Results
from mainstem.heads.kafka.adapter.errors import code_of
from mainstem.heads.kafka.adapter.registry import serves
from mainstem.heads.kafka.adapter.service import Asked, Reply, Service
from mainstem.heads.kafka.adapter.topics import Wrong, each_once, misplaced
from mainstem.kafka_protocol.error_codes import Code
from mainstem.kafka_protocol.fields import NO_ID
from mainstem.kafka_protocol.messages import topics as messages

_NOTHING_TO_KEEP: Durable = AT_ONCE
_BY_DEFAULT = -1


@serves(messages.CREATE_TOPICS, 2, 7)
def answer(asked: Asked, request: messages.CreateTopicsRequest, reply: Reply) -> None:
    """Create topics independently of each other; answered when each is durable or refused."""
    results = Results[messages.CreatedTopic](asked.service)

    def create(topic: messages.CreateTopic) -> None:
        _create(asked.service, topic, request.validate_only, results)

    each_once(request.topics, create, results, _refused)
    results.then(lambda created: reply(messages.CreateTopicsResponse(topics=created)))


def _not_created(name: str, error: MainstemError) -> messages.CreatedTopic:
    return _refused(name, code_of(error), str(error))


def _refused(name: str, code: Code, message: str) -> messages.CreatedTopic:
    return messages.CreatedTopic(name, NO_ID, code, message)


def _create(
    service: Service,
    topic: messages.CreateTopic,
    validate_only: bool,
    results: Results[messages.CreatedTopic],
) -> None:
    check_topic(topic.name)
    if service.broker.topics(topic.name):
        raise TopicExists(topic.name)
    changes = _changes(topic)
    wrong = _wrong_places(topic) if topic.assignments else _wrong_numbers(topic)
    if wrong is not None:
        results.add(_refused(topic.name, *wrong))
        return
    settings = service.defaults.altered(**(changes | {"partitions": _partitions(service, topic)}))
    topic_id, durable = NO_ID, _NOTHING_TO_KEEP
    if not validate_only:
        done = service.broker.create_topic(topic.name, settings)
        topic_id, durable = bytes.fromhex(done.topic.id), done.durable
    shown = tuple(
        messages.CreatedConfig(each.name, each.value, False, each.source)
        for each in topic_configs.shown(settings)
    )
    created = messages.CreatedTopic(topic.name, topic_id, 0, None, 0, settings.partitions, 1, shown)
    results.add_later(durable, created, partial(_not_created, topic.name))


def _changes(topic: messages.CreateTopic) -> dict[str, object]:
    for each in topic.configs:
        if each.value is None:
            raise InvalidSetting(f"{each.name}: a new topic has its default; leave it out")
    return topic_configs.changes(((each.name, each.value) for each in topic.configs), {})


def _partitions(service: Service, topic: messages.CreateTopic) -> int:
    if topic.assignments:
        return len(topic.assignments)
    chosen = topic.num_partitions
    return service.settings.auto_create_partitions if chosen == _BY_DEFAULT else chosen


def _wrong_numbers(topic: messages.CreateTopic) -> Wrong:
    partitions, copies = topic.num_partitions, topic.replication_factor
    if copies >= _BY_DEFAULT and copies and (partitions < _BY_DEFAULT or not partitions):
        return Code.INVALID_PARTITIONS, f"{partitions} partitions: a topic has at least one"
    if copies not in (_BY_DEFAULT, 1):
        message = f"replication factor {copies}: there is one broker, and one copy"
        return Code.INVALID_REPLICATION_FACTOR, message
    return None


def _wrong_places(topic: messages.CreateTopic) -> Wrong:
    """Return error code and text if a new topic's replica assignment is invalid, else None."""
    if (topic.num_partitions, topic.replication_factor) != (_BY_DEFAULT, _BY_DEFAULT):
        message = "with a replica assignment, partition count and replication factor must be -1"
        return Code.INVALID_REQUEST, message
    if {each.partition_index for each in topic.assignments} != set(range(len(topic.assignments))):
        return Code.INVALID_REPLICA_ASSIGNMENT, "partitions are numbered from 0 on, without gaps"
    return misplaced([each.broker_ids for each in topic.assignments])
