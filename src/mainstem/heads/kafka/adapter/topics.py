"""CreateTopics, DeleteTopics, CreatePartitions."""

from functools import partial

from mainstem.core.errors import InvalidSetting, MainstemError, TopicExists
from mainstem.core.names import check_topic
from mainstem.core.policies import TopicSettings
from mainstem.heads.kafka.adapter import configs
from mainstem.heads.kafka.adapter.errors import Code, code_of
from mainstem.heads.kafka.adapter.parts import Parts
from mainstem.heads.kafka.adapter.service import Asked, Reply, Service
from mainstem.heads.kafka.fields import NO_ID
from mainstem.heads.kafka.messages.topics import (
    CreatedConfig,
    CreatedPartitions,
    CreatedTopic,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreateTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeletedTopic,
    DeleteTopic,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)
from mainstem.log.durable import AT_ONCE
from mainstem.log.port import Durable

CREATE_FIRST, CREATE_LAST = 2, 7
DELETE_FIRST, DELETE_LAST = 1, 6
GROW_FIRST, GROW_LAST = 0, 3

_NOTHING_TO_KEEP: Durable = AT_ONCE


def create(asked: Asked, request: CreateTopicsRequest, reply: Reply) -> None:
    """Create topics, each by itself; answered when all are durable, or are not."""
    parts = Parts[CreatedTopic](asked.service)
    for topic in request.topics:
        try:
            _create(asked.service, topic, request.validate_only, parts)
        except MainstemError as error:
            parts.add(_not_created(topic.name, error))
    parts.then(lambda created: reply(CreateTopicsResponse(topics=created)))


def _not_created(name: str, error: MainstemError) -> CreatedTopic:
    return CreatedTopic(name, NO_ID, code_of(error), str(error))


def _create(
    service: Service, topic: CreateTopic, validate_only: bool, parts: Parts[CreatedTopic]
) -> None:
    settings = _settings(service, topic)
    topic_id, durable = NO_ID, _NOTHING_TO_KEEP
    if validate_only:
        check_topic(topic.name)
        if service.broker.topics(topic.name):
            raise TopicExists(topic.name)
    else:
        done = service.broker.create_topic(topic.name, settings)
        topic_id, durable = bytes.fromhex(done.topic.id), done.durable
    shown = tuple(
        CreatedConfig(each.name, each.value, False, each.source) for each in configs.shown(settings)
    )
    created = CreatedTopic(topic.name, topic_id, 0, None, 0, settings.partitions, 1, shown)
    parts.add_later(durable, created, partial(_not_created, topic.name))


def _settings(service: Service, topic: CreateTopic) -> TopicSettings:
    partitions = topic.num_partitions
    if topic.assignments:
        partitions = len(topic.assignments)
    elif partitions == -1:
        partitions = service.settings.auto_create_partitions
    if topic.replication_factor not in (-1, 1) and not topic.assignments:
        raise InvalidSetting(
            f"replication factor {topic.replication_factor}: there is one broker, and one copy"
        )
    changes = configs.changes(((each.name, each.value) for each in topic.configs), {})
    return service.defaults.altered(**(changes | {"partitions": partitions}))


def delete(asked: Asked, request: DeleteTopicsRequest, reply: Reply) -> None:
    """Delete topics, each by itself; answered when that is durable, or is not."""
    parts = Parts[DeletedTopic](asked.service)
    for each in [*request.topics, *(DeleteTopic(name) for name in request.topic_names)]:
        _delete(asked.service, each, parts)
    parts.then(lambda deleted: reply(DeleteTopicsResponse(responses=deleted)))


def _delete(service: Service, asked: DeleteTopic, parts: Parts[DeletedTopic]) -> None:
    name = asked.name
    if name is None:
        topic = service.broker.topic_by_id(asked.topic_id.hex())
        if topic is None:
            parts.add(DeletedTopic(None, asked.topic_id, Code.UNKNOWN_TOPIC_ID))
            return
        name = topic.name

    def refused(error: MainstemError) -> DeletedTopic:
        return DeletedTopic(name, asked.topic_id, code_of(error), str(error))

    delete_it = partial(service.broker.delete_topic, name)
    parts.attempt(delete_it, DeletedTopic(name, asked.topic_id), refused)


def grow(asked: Asked, request: CreatePartitionsRequest, reply: Reply) -> None:
    """Let topics have more partitions; answered when that is durable, or is not."""
    parts = Parts[CreatedPartitions](asked.service)
    for each in request.topics:
        try:
            _grow(asked.service, each, request.validate_only, parts)
        except MainstemError as error:
            parts.add(_not_grown(each.name, error))
    parts.then(lambda results: reply(CreatePartitionsResponse(results=results)))


def _not_grown(name: str, error: MainstemError) -> CreatedPartitions:
    return CreatedPartitions(name, code_of(error), str(error))


def _grow(
    service: Service,
    asked: CreatePartitionsTopic,
    validate_only: bool,
    parts: Parts[CreatedPartitions],
) -> None:
    now = service.broker.topic(asked.name).settings.partitions
    if asked.count <= now:
        message = f"topic {asked.name!r} has {now} partitions; ask for more than that"
        parts.add(CreatedPartitions(asked.name, Code.INVALID_PARTITIONS, message))
    elif validate_only:
        parts.add(CreatedPartitions(asked.name))
    else:
        durable = service.broker.alter_topic(asked.name, partitions=asked.count).durable
        grown = CreatedPartitions(asked.name)
        parts.add_later(durable, grown, partial(_not_grown, asked.name))
