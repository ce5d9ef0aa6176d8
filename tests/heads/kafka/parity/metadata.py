"""Scenarios of topics that are asked for: shown, created by that, or not there."""

from collections.abc import Iterator

from tests.heads.kafka.parity.batches import NOBODY
from tests.heads.kafka.parity.compared_server import Said, Side, alike, unlike, until, word

from mainstem.kafka_protocol.fields import NO_ID
from mainstem.kafka_protocol.messages.metadata import (
    METADATA,
    MetadataRequest,
    MetadataResponse,
    MetadataTopicName,
)

_CREATES = 4
"""The first version of Metadata that says whether topics are created by it."""
BAD_NAMES = ("", ".", "..", "a b", "a/b", "é", "a" * 250, "a*")


def shown(side: Side, *topics: MetadataTopicName, create: bool = False, version: int = -1) -> Said:
    """Ask for topics on a connection of its own, which a server may close."""
    body = MetadataRequest(topics, create if version < 0 or version >= _CREATES else True)
    with side.another() as peer:
        try:
            at = METADATA.last if version < 0 else version
            answer = peer.ask(METADATA, at, body, MetadataResponse)
        except (EOFError, ConnectionResetError):
            return "closed"
    return [
        (
            word(each.error_code),
            each.name is None,
            each.topic_id == NO_ID,
            each.is_internal,
            [(word(it.error_code), it.leader_epoch) for it in each.partitions],
        )
        for each in answer.topics
    ]


@alike
def topicsshown(side: Side) -> Iterator[Said]:
    topic = side.two
    for version in range(METADATA.first, METADATA.last + 1):
        yield version, shown(side, MetadataTopicName(name=topic.name), version=version)
        if version >= _CREATES:
            yield version, shown(side, MetadataTopicName(name="none"), version=version)
    yield "by id", shown(side, MetadataTopicName(topic.id, None))
    yield "by both", shown(side, MetadataTopicName(topic.id, topic.name))
    yield "twice", shown(side, *[MetadataTopicName(name=topic.name)] * 2)
    yield "nothing", shown(side)


@alike
def topics_that_cannot_beshown(side: Side) -> Iterator[Said]:
    for name in ("none", *BAD_NAMES):
        yield name[:5], shown(side, MetadataTopicName(name=name))
        if name != "none":
            yield name[:5], shown(side, MetadataTopicName(name=name), create=True)
    yield "by id", shown(side, MetadataTopicName(NOBODY, None))
    yield "old", shown(side, MetadataTopicName(side.one.id, None), version=10)
    yield "old", shown(side, MetadataTopicName(name=None), version=11)


@unlike("no topic has the id zero; an Apache Kafka fails with UNKNOWN_SERVER_ERROR")
def a_topic_by_no_id(side: Side) -> Iterator[Said]:
    yield shown(side, MetadataTopicName(NO_ID, None))


@alike
def topics_created_when_named(side: Side) -> Iterator[Said]:
    name = side.name()
    asked = MetadataTopicName(name=name)
    yield shown(side, asked)
    shown(side, asked, create=True)
    until(lambda: "UNKNOWN" not in str(shown(side, asked)))
