"""CreateTopics, DeleteTopics, CreatePartitions."""

from collections.abc import Callable

from mainstem.core.errors import InvalidSetting, MainstemError, TopicExists, UnknownTopic
from mainstem.core.names import check_topic
from mainstem.core.policies import TopicSettings
from mainstem.heads.kafka.adapter import configs
from mainstem.heads.kafka.adapter.errors import Code, code_of
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

CREATE_FIRST, CREATE_LAST = 2, 7
DELETE_FIRST, DELETE_LAST = 1, 6
GROW_FIRST, GROW_LAST = 0, 3

_DEFAULT_SOURCE, _TOPIC_SOURCE = 5, 1


def create(asked: Asked, request: CreateTopicsRequest, reply: Reply) -> None:
    """Create topics, each by itself; answered when all are durable."""
    waiting = _Waiting(asked.service)
    created = []
    for topic in request.topics:
        try:
            created.append(_create(asked.service, topic, request.validate_only, waiting))
        except MainstemError as error:
            created.append(CreatedTopic(topic.name, NO_ID, code_of(error), str(error)))
    waiting.then(lambda: reply(CreateTopicsResponse(topics=created)))


def _create(
    service: Service, topic: CreateTopic, validate_only: bool, waiting: "_Waiting"
) -> CreatedTopic:
    settings = _settings(service, topic)
    if validate_only:
        check_topic(topic.name)
        if service.broker.topics(topic.name):
            raise TopicExists(topic.name)
        topic_id = NO_ID
    else:
        done = service.broker.create_topic(topic.name, settings)
        waiting.add(done.durable.done, done.durable.then)
        topic_id = bytes.fromhex(done.topic.id)
    shown = tuple(
        CreatedConfig(
            each.name, each.value, False, _DEFAULT_SOURCE if each.is_default else _TOPIC_SOURCE
        )
        for each in configs.shown(settings)
    )
    return CreatedTopic(topic.name, topic_id, 0, None, 0, settings.partitions, 1, shown)


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
    changes = configs.changes((each.name, each.value) for each in topic.configs)
    return service.defaults.altered(**(changes | {"partitions": partitions}))


def delete(asked: Asked, request: DeleteTopicsRequest, reply: Reply) -> None:
    """Delete topics, each by itself."""
    waiting = _Waiting(asked.service)
    names = [DeleteTopic(name) for name in request.topic_names]
    deleted = [_delete(asked.service, each, waiting) for each in [*request.topics, *names]]
    waiting.then(lambda: reply(DeleteTopicsResponse(responses=deleted)))


def _delete(service: Service, asked: DeleteTopic, waiting: "_Waiting") -> DeletedTopic:
    name = asked.name
    if name is None:
        topic = service.broker.topic_by_id(asked.topic_id.hex())
        if topic is None:
            return DeletedTopic(None, asked.topic_id, Code.UNKNOWN_TOPIC_ID)
        name = topic.name
    try:
        durable = service.broker.delete_topic(name)
    except MainstemError as error:
        return DeletedTopic(name, asked.topic_id, code_of(error), str(error))
    waiting.add(durable.done, durable.then)
    return DeletedTopic(name, asked.topic_id)


def grow(asked: Asked, request: CreatePartitionsRequest, reply: Reply) -> None:
    """Let topics have more partitions."""
    waiting = _Waiting(asked.service)
    results = [
        _grow(asked.service, each, request.validate_only, waiting) for each in request.topics
    ]
    waiting.then(lambda: reply(CreatePartitionsResponse(results=results)))


def _grow(
    service: Service, asked: CreatePartitionsTopic, validate_only: bool, waiting: "_Waiting"
) -> CreatedPartitions:
    try:
        now = service.broker.topic(asked.name).settings.partitions
        if asked.count <= now:
            message = f"topic {asked.name!r} has {now} partitions; ask for more than that"
            return CreatedPartitions(asked.name, Code.INVALID_PARTITIONS, message)
        if not validate_only:
            done = service.broker.alter_topic(asked.name, partitions=asked.count)
            waiting.add(done.durable.done, done.durable.then)
    except UnknownTopic as error:
        return CreatedPartitions(asked.name, Code.UNKNOWN_TOPIC_OR_PARTITION, str(error))
    except MainstemError as error:
        return CreatedPartitions(asked.name, code_of(error), str(error))
    return CreatedPartitions(asked.name)


class _Waiting:
    """Several changes that an answer waits for; one that fails later has stopped the log."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._left = 1
        self._call: Callable[[], None] = lambda: None

    def add(
        self, done: bool, then: Callable[[Callable[[MainstemError | None], None]], None]
    ) -> None:
        """Wait for one more."""
        if not done:
            self._left += 1
            then(lambda _: self._service.on_loop(self._one_less))

    def then(self, call: Callable[[], None]) -> None:
        """Call once all are done."""
        self._call = call
        self._one_less()

    def _one_less(self) -> None:
        self._left -= 1
        if self._left == 0:
            self._call()
