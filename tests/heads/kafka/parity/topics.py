"""Scenarios of topics: created, grown and deleted."""

from collections.abc import Iterator, Sequence

from tests.heads.kafka.parity.batches import NOBODY
from tests.heads.kafka.parity.compared_server import Said, Side, alike, unlike, word
from tests.heads.kafka.parity.metadata import BAD_NAMES, shown

from mainstem.kafka_protocol.fields import NO_ID
from mainstem.kafka_protocol.messages.metadata import (
    METADATA,
    MetadataRequest,
    MetadataResponse,
    MetadataTopicName,
)
from mainstem.kafka_protocol.messages.topics import (
    CREATE_PARTITIONS,
    CREATE_TOPICS,
    DELETE_TOPICS,
    CreateAssignment,
    CreateConfig,
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreateTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopic,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)


def _created(side: Side, *topics: CreateTopic, only: bool = False, version: int = -1) -> Said:
    body = CreateTopicsRequest(topics, 10_000, only)
    answer = side.ask(CREATE_TOPICS, body, CreateTopicsResponse, version=version)
    return sorted(
        (
            word(each.error_code),
            each.num_partitions,
            each.replication_factor,
            # Apache Kafka makes up an id also for what it only checks.
            only or each.topic_id == NO_ID,
        )
        for each in answer.topics
    )


def _node(side: Side) -> int:
    """Return the only broker's id."""
    return side.ask(METADATA, MetadataRequest([]), MetadataResponse).brokers[0].node_id


@alike
def creating_in_every_version(side: Side) -> Iterator[Said]:
    for version in range(CREATE_TOPICS.first, CREATE_TOPICS.last + 1):
        topic = CreateTopic(side.name(), 1, 1)
        for only in (True, False, False, True):
            yield version, only, _created(side, topic, only=only, version=version)


@alike
def names_of_topics(side: Side) -> Iterator[Said]:
    for name in BAD_NAMES:
        for only in (True, False):
            yield name[:3], _created(side, CreateTopic(name, 1, 1), only=only)
    for name in (side.name("__x"), side.name("A-.9_"), "y" * 240 + side.name()[-9:]):
        yield name[:5], _created(side, CreateTopic(name, 1, 1))


@alike
def names_that_collide(side: Side) -> Iterator[Said]:
    name = side.name("a.b")
    yield _created(side, CreateTopic(name, 1, 1))
    for other in (name.replace(".", "-"), name.upper()):
        yield _created(side, CreateTopic(other, 1, 1), only=True)
        yield _created(side, CreateTopic(other, 1, 1))


@unlike("names of topics are no names of metrics here, so dots and underscores do not collide")
def names_of_metrics_that_collide(side: Side) -> Iterator[Said]:
    name = side.name("a.b")
    _created(side, CreateTopic(name, 1, 1))
    for only in (True, False):
        yield _created(side, CreateTopic(name.replace(".", "_"), 1, 1), only=only)


@alike
def numbers_of_partitions(side: Side) -> Iterator[Said]:
    for count in (0, -2, -(2**31)):
        for only in (True, False):
            yield count, _created(side, CreateTopic(side.name(), count, 1), only=only)
    yield "by default", _created(side, CreateTopic(side.name(), 1, -1))
    yield "many", _created(side, CreateTopic(side.name(), 3, 1))


@alike
def factors_of_replication(side: Side) -> Iterator[Said]:
    for factor in (0, 2, -2, 100):
        for only in (True, False):
            yield factor, _created(side, CreateTopic(side.name(), 1, factor), only=only)
        yield "and no partitions", _created(side, CreateTopic(side.name(), 0, factor))


def _placed(side: Side, *places: tuple[int, Sequence[int]], partitions: int = -1) -> Said:
    placed = [CreateAssignment(*each) for each in places]
    return _created(side, CreateTopic(side.name(), partitions, -1, placed))


@alike
def assignments(side: Side) -> Iterator[Said]:
    node = _node(side)
    yield "one", _placed(side, (0, [node]))
    yield "two", _placed(side, (1, [node]), (0, [node]))
    yield "a gap", _placed(side, (0, [node]), (2, [node]))
    yield "not from zero", _placed(side, (1, [node]))
    yield "twice", _placed(side, (0, [node]), (0, [node]))
    yield "nowhere", _placed(side, (0, []))
    yield "below", _placed(side, (0, [-1]))
    yield "twice the same", _placed(side, (0, [node, node]))
    yield "unequal", _placed(side, (0, [node]), (1, []))
    yield "and a number", _placed(side, (0, [node]), partitions=1)
    topic = CreateTopic(side.name(), -1, 1, [CreateAssignment(0, [node])])
    yield "and a factor", _created(side, topic)


@alike
def settings_of_new_topics(side: Side) -> Iterator[Said]:
    for name, value in (
        ("x", "1"),
        ("", "1"),
        ("retention.ms", "x"),
        ("retention.ms", ""),
        ("retention.ms", "-2"),
        ("retention.ms", None),
        ("cleanup.policy", "x"),
        ("max.message.bytes", "-1"),
        ("compression.type", "x"),
        ("segment.bytes", "1"),
    ):
        topic = CreateTopic(side.name(), 1, 1, configs=[CreateConfig(name, value)])
        for only in (True, False):
            yield name, value, _created(side, topic, only=only)


@alike
def a_setting_twice_when_created(side: Side) -> Iterator[Said]:
    twice = [CreateConfig("retention.ms", value) for value in ("1000", "2000")]
    yield _created(side, CreateTopic(side.name(), 1, 1, configs=twice))


@alike
def topics_twice_in_a_request(side: Side) -> Iterator[Said]:
    name = side.name()
    other = CreateTopic(side.name(), 1, 1)
    yield _created(side, CreateTopic(name, 1, 1), CreateTopic(name, 2, 1), other)
    yield _created(side, CreateTopic(name, 1, 1))


@alike
def several_mistakes(side: Side) -> Iterator[Said]:
    bad = [CreateConfig("x", "1")]
    yield "exists", _created(side, CreateTopic(side.one.name, 0, 5, configs=bad))
    yield "name", _created(side, CreateTopic("a b", 0, 5, configs=bad))
    yield "numbers", _created(side, CreateTopic(side.name(), 0, 1, configs=bad))
    yield "factor", _created(side, CreateTopic(side.name(), 1, 5, configs=bad))
    yield "nothing", _created(side)


def _grown(
    side: Side, *topics: tuple[str, int, Sequence[Sequence[int]] | None], only: bool = False
) -> Said:
    asked = [
        CreatePartitionsTopic(
            name, count, None if it is None else [CreatePartitionsAssignment(ids) for ids in it]
        )
        for name, count, it in topics
    ]
    body = CreatePartitionsRequest(asked, 10_000, only)
    answer = side.ask(CREATE_PARTITIONS, body, CreatePartitionsResponse)
    return sorted(word(each.error_code) for each in answer.results)


@alike
def more_partitions(side: Side) -> Iterator[Said]:
    topic = side.topic(partitions=2).name
    for only in (True, False):
        for count in (2, 1, 0, -1, -(2**31)):
            yield count, _grown(side, (topic, count, None), only=only)
        for name in ("none", *BAD_NAMES):
            yield name[:5], _grown(side, (name, 3, None), only=only)
        yield "three", _grown(side, (topic, 3, None), only=only)
    yield "three again", _grown(side, (topic, 3, None))


@alike
def topics_that_grow_twice(side: Side) -> Iterator[Said]:
    topic, other = side.topic().name, side.topic().name
    yield _grown(side, (topic, 2, None), (topic, 3, None), (other, 2, None))


@unlike("there is one broker, whatever a script calls it: those of kafka-python call it 0")
def places_on_another_broker(side: Side) -> Iterator[Said]:
    other = _node(side) + 7
    yield _placed(side, (0, [other]))
    yield _grown(side, (side.topic().name, 2, [[other]]))


@alike
def more_partitions_in_places(side: Side) -> Iterator[Said]:
    node = _node(side)
    tried: Sequence[Sequence[Sequence[int]]] = (
        [],
        [[node]],
        [[node], [node]],
        [[]],
        [[node, node]],
    )
    for places in tried:
        shown = [[each - node for each in ids] for ids in places]
        yield shown, _grown(side, (side.topic().name, 2, places))


def _deleted(side: Side, *topics: DeleteTopic) -> Said:
    body = DeleteTopicsRequest(topics, timeout_ms=10_000)
    answer = side.ask(DELETE_TOPICS, body, DeleteTopicsResponse)
    return sorted(
        (word(each.error_code), each.name is None, each.topic_id == NO_ID)
        for each in answer.responses
    )


def _codes(side: Side, *topics: DeleteTopic) -> Said:
    body = DeleteTopicsRequest(topics, timeout_ms=10_000)
    answer = side.ask(DELETE_TOPICS, body, DeleteTopicsResponse)
    return sorted(word(each.error_code) for each in answer.responses)


@alike
def deleting_topics(side: Side) -> Iterator[Said]:
    topic = side.topic()
    yield "by name", _deleted(side, DeleteTopic(topic.name))
    yield "again", _deleted(side, DeleteTopic(topic.name))
    topic = side.topic()
    yield "by id", _deleted(side, DeleteTopic(None, topic.id))
    yield "again", _deleted(side, DeleteTopic(None, topic.id))
    for name in ("none", *BAD_NAMES):
        yield name[:5], _deleted(side, DeleteTopic(name))
    for topic_id in (NOBODY, NO_ID):
        yield "no id", _deleted(side, DeleteTopic(None, topic_id))


@alike
def deleting_topics_twice(side: Side) -> Iterator[Said]:
    topic = side.topic()
    yield "by name", _codes(side, DeleteTopic(topic.name), DeleteTopic(topic.name))
    yield "there", shown(side, MetadataTopicName(name=topic.name))
    topic = side.topic()
    yield "by id", _codes(side, DeleteTopic(None, topic.id), DeleteTopic(None, topic.id))
    topic = side.topic()
    yield "by both", _codes(side, DeleteTopic(topic.name), DeleteTopic(None, topic.id))
    topic = side.topic()
    yield "name and id", _codes(side, DeleteTopic(topic.name, topic.id))
    yield "name and no id", _codes(side, DeleteTopic(topic.name, NOBODY))


@alike
def deleting_topics_in_every_version(side: Side) -> Iterator[Said]:
    for version in range(DELETE_TOPICS.first, DELETE_TOPICS.last):
        body = DeleteTopicsRequest(topic_names=[side.topic().name, "none"], timeout_ms=10_000)
        answer = side.ask(DELETE_TOPICS, body, DeleteTopicsResponse, version=version)
        yield version, sorted((word(it.error_code), it.name == "none") for it in answer.responses)
