"""CreateTopics, DeleteTopics, CreatePartitions."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TypeVar

from mainstem.broker.door import AT_ONCE, Durable
from mainstem.core.errors import InvalidSetting, MainstemError, TopicExists
from mainstem.core.names import check_topic
from mainstem.heads.kafka.adapter import topic_configs
from mainstem.heads.kafka.adapter.errors import code_of
from mainstem.heads.kafka.adapter.parts import Parts
from mainstem.heads.kafka.adapter.service import Asked, Reply, Service
from mainstem.heads.kafka.adapter.topic_ids import id_of
from mainstem.kafka_protocol.error_codes import Code
from mainstem.kafka_protocol.fields import NO_ID
from mainstem.kafka_protocol.messages.topics import (
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

CREATE_FIRST, CREATE_LAST = 2, 7
DELETE_FIRST, DELETE_LAST = 1, 6
GROW_FIRST, GROW_LAST = 0, 3

_NOTHING_TO_KEEP: Durable = AT_ONCE
_BY_DEFAULT = -1
_TWICE = "it is named more than once"

T = TypeVar("T")
K = TypeVar("K")
Wrong = tuple[Code, str] | None
"""Why something cannot be done, if it cannot."""


def create(asked: Asked, request: CreateTopicsRequest, reply: Reply) -> None:
    """Create topics, each by itself; answered when all are durable, or are not."""
    parts = Parts[CreatedTopic](asked.service)
    once, twice = _once(request.topics, lambda topic: topic.name)
    for name in twice:
        parts.add(_refused(name, Code.INVALID_REQUEST, _TWICE))
    for topic in once:
        try:
            _create(asked.service, topic, request.validate_only, parts)
        except MainstemError as error:
            parts.add(_not_created(topic.name, error))
    parts.then(lambda created: reply(CreateTopicsResponse(topics=created)))


def _once(asked: Sequence[T], name: Callable[[T], K]) -> tuple[list[T], list[K]]:
    """Return what is named once, and the names of what is named more than once."""
    counts = Counter(map(name, asked))
    return [it for it in asked if counts[name(it)] == 1], [it for it in counts if counts[it] > 1]


def _not_created(name: str, error: MainstemError) -> CreatedTopic:
    return _refused(name, code_of(error), str(error))


def _refused(name: str, code: Code, message: str) -> CreatedTopic:
    return CreatedTopic(name, NO_ID, code, message)


def _create(
    service: Service, topic: CreateTopic, validate_only: bool, parts: Parts[CreatedTopic]
) -> None:
    check_topic(topic.name)
    if service.broker.topics(topic.name):
        raise TopicExists(topic.name)
    changes = _changes(topic)
    wrong = _wrong_places(topic) if topic.assignments else _wrong_numbers(topic)
    if wrong is not None:
        parts.add(_refused(topic.name, *wrong))
        return
    settings = service.defaults.altered(**(changes | {"partitions": _partitions(service, topic)}))
    topic_id, durable = NO_ID, _NOTHING_TO_KEEP
    if not validate_only:
        done = service.broker.create_topic(topic.name, settings)
        topic_id, durable = bytes.fromhex(done.topic.id), done.durable
    shown = tuple(
        CreatedConfig(each.name, each.value, False, each.source)
        for each in topic_configs.shown(settings)
    )
    created = CreatedTopic(topic.name, topic_id, 0, None, 0, settings.partitions, 1, shown)
    parts.add_later(durable, created, partial(_not_created, topic.name))


def _changes(topic: CreateTopic) -> dict[str, object]:
    for each in topic.configs:
        if each.value is None:
            raise InvalidSetting(f"{each.name}: a new topic has its default; leave it out")
    return topic_configs.changes(((each.name, each.value) for each in topic.configs), {})


def _partitions(service: Service, topic: CreateTopic) -> int:
    if topic.assignments:
        return len(topic.assignments)
    chosen = topic.num_partitions
    return service.settings.auto_create_partitions if chosen == _BY_DEFAULT else chosen


def _wrong_numbers(topic: CreateTopic) -> Wrong:
    partitions, copies = topic.num_partitions, topic.replication_factor
    if copies >= _BY_DEFAULT and copies and (partitions < _BY_DEFAULT or not partitions):
        return Code.INVALID_PARTITIONS, f"{partitions} partitions: a topic has at least one"
    if copies not in (_BY_DEFAULT, 1):
        message = f"replication factor {copies}: there is one broker, and one copy"
        return Code.INVALID_REPLICATION_FACTOR, message
    return None


def _wrong_places(topic: CreateTopic) -> Wrong:
    """Return what is wrong with where the partitions of a new topic are to be."""
    if (topic.num_partitions, topic.replication_factor) != (_BY_DEFAULT, _BY_DEFAULT):
        message = "partitions have places: leave their number and the replication factor to them"
        return Code.INVALID_REQUEST, message
    if {each.partition_index for each in topic.assignments} != set(range(len(topic.assignments))):
        return Code.INVALID_REPLICA_ASSIGNMENT, "partitions are numbered from 0 on, without gaps"
    return _misplaced([each.broker_ids for each in topic.assignments])


def _misplaced(places: Iterable[Sequence[int]]) -> Wrong:
    # Whatever its number: there is one broker, and a script need not know what it is called.
    if any(len(each) != 1 or min(each) < 0 for each in places):
        return Code.INVALID_REPLICA_ASSIGNMENT, "every partition has one copy, on one broker"
    return None


def delete(asked: Asked, request: DeleteTopicsRequest, reply: Reply) -> None:
    """Delete topics, each by itself; answered when that is durable, or is not."""
    service = asked.service
    parts = Parts[DeletedTopic](service)
    found: list[DeletedTopic] = []
    for each in [*request.topics, *(DeleteTopic(name) for name in request.topic_names)]:
        if (each.name is None) == (each.topic_id == NO_ID):
            message = "name a topic by its name or by its id"
            parts.add(DeletedTopic(each.name, each.topic_id, Code.INVALID_REQUEST, message))
        else:
            found.append(_found(service, each))
    once, twice = _once(found, lambda each: (each.name, each.topic_id))
    for name, topic_id in twice:
        parts.add(DeletedTopic(name, topic_id, Code.INVALID_REQUEST, _TWICE))
    for known in once:
        _delete(service, known, parts)
    parts.then(lambda deleted: reply(DeleteTopicsResponse(responses=deleted)))


def _found(service: Service, asked: DeleteTopic) -> DeletedTopic:
    """Return a topic by its name and id, as it will be answered."""
    if asked.name is None:
        topic = service.broker.topic_by_id(asked.topic_id.hex())
        if topic is None:
            return DeletedTopic(None, asked.topic_id, Code.UNKNOWN_TOPIC_ID)
        return DeletedTopic(topic.name, asked.topic_id)
    try:
        return DeletedTopic(asked.name, id_of(service.broker.topic(asked.name)))
    except MainstemError as error:
        return DeletedTopic(asked.name, NO_ID, code_of(error), str(error))


def _delete(service: Service, known: DeletedTopic, parts: Parts[DeletedTopic]) -> None:
    if known.name is None or known.error_code:
        parts.add(known)
        return

    def refused(error: MainstemError) -> DeletedTopic:
        return DeletedTopic(known.name, known.topic_id, code_of(error), str(error))

    parts.attempt(partial(service.broker.delete_topic, known.name), known, refused)


def grow(asked: Asked, request: CreatePartitionsRequest, reply: Reply) -> None:
    """Let topics have more partitions; answered when that is durable, or is not."""
    parts = Parts[CreatedPartitions](asked.service)
    once, twice = _once(request.topics, lambda topic: topic.name)
    for name in twice:
        parts.add(CreatedPartitions(name, Code.INVALID_REQUEST, _TWICE))
    for each in once:
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
    elif wrong := _wrong_growth(asked, asked.count - now):
        parts.add(CreatedPartitions(asked.name, *wrong))
    elif validate_only:
        parts.add(CreatedPartitions(asked.name))
    else:
        durable = service.broker.alter_topic(asked.name, partitions=asked.count).durable
        grown = CreatedPartitions(asked.name)
        parts.add_later(durable, grown, partial(_not_grown, asked.name))


def _wrong_growth(asked: CreatePartitionsTopic, count: int) -> Wrong:
    places = asked.assignments
    if places is None:
        return None
    if len(places) != count:
        return Code.INVALID_REPLICA_ASSIGNMENT, f"{len(places)} places for {count} new partitions"
    return _misplaced([each.broker_ids for each in places])
