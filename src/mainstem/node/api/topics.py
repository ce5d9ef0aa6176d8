"""Operations on topics: list, show, create, alter, delete, trim."""

from typing import Annotated

import msgspec
from msgspec import Meta

from mainstem.auth import Peer
from mainstem.broker.door import Door, Topic
from mainstem.core.topic_settings import TopicSettings
from mainstem.heads.admin_operations import operation
from mainstem.node.api.door_operations import DoorOperations
from mainstem.node.api.positions import SENTENCE, Place, numbers_of, offset_at

Settings = Annotated[
    dict[str, object],
    Meta(description="Settings by name, as in docs/reference/topics.md; the others keep theirs."),
]


class PartitionState(msgspec.Struct, frozen=True):
    """A partition of a topic."""

    partition: int
    start: int
    tail: int
    end: int
    size_bytes: int | None
    epoch: int


class TopicState(msgspec.Struct, frozen=True):
    """A topic: its settings, partitions and overload counters."""

    name: str
    id: str
    settings: dict[str, object]
    """All settings, also those with default values."""
    partitions: list[PartitionState]
    counters: dict[str, int]


class ListTopics(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """List topics."""

    pattern: Annotated[str, Meta(description="A name, or a pattern such as orders.*")] = "*"
    internal: Annotated[bool, Meta(description="Whether internal topics are listed, too.")] = False


class NameTopic(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Names a topic."""

    topic: str


class CreateTopic(NameTopic, frozen=True):
    """Create a topic; settings that are not given have the server's defaults."""

    settings: Settings = {}


class AlterTopic(NameTopic, frozen=True):
    """Change settings of a topic; its number of partitions can only grow."""

    settings: Settings


class TrimTopic(NameTopic, frozen=True):
    """Delete the events of a topic before an offset or a time."""

    before: Annotated[Place, Meta(description=SENTENCE)]
    partition: Annotated[int | None, Meta(description="One partition; otherwise all.")] = None


class TopicOperations(DoorOperations):
    """Operations on topics."""

    @operation("topics/list", "GET topics")
    def every(self, peer: Peer, asked: ListTopics) -> list[TopicState]:
        """List topics."""
        door = self._door(peer)
        return [_state(door, each) for each in door.topics(asked.pattern, internal=asked.internal)]

    @operation("topics/show", "GET topics/{topic}")
    def show(self, peer: Peer, asked: NameTopic) -> TopicState:
        """Show the settings and partitions of a topic."""
        door = self._door(peer)
        return _state(door, door.topic(asked.topic))

    @operation("topics/create", "POST topics")
    def create(self, peer: Peer, asked: CreateTopic) -> TopicState:
        """Create a topic; settings that are not given have the server's defaults."""
        door = self._door(peer)
        settings = self._context.defaults.altered(**asked.settings)
        done = door.create_topic(asked.topic, settings)
        done.durable.wait()
        return _state(door, done.topic)

    @operation("topics/alter", "PATCH topics/{topic}")
    def alter(self, peer: Peer, asked: AlterTopic) -> TopicState:
        """Change settings of a topic; its number of partitions can only grow."""
        door = self._door(peer)
        done = door.alter_topic(asked.topic, **asked.settings)
        done.durable.wait()
        return _state(door, done.topic)

    @operation("topics/delete", "DELETE topics/{topic}")
    def delete(self, peer: Peer, asked: NameTopic) -> None:
        """Delete a topic and all its events."""
        self._door(peer).delete_topic(asked.topic).wait()

    @operation("topics/trim", "POST topics/{topic}/trim")
    def trim(self, peer: Peer, asked: TrimTopic) -> TopicState:
        """Delete the events of a topic before an offset or a time."""
        door = self._door(peer)
        numbers = numbers_of(door, asked.topic, asked.partition)
        offsets = {each: offset_at(door, asked.topic, each, asked.before) for each in numbers}
        for number, offset in offsets.items():
            door.trim(asked.topic, number, offset)
        return _state(door, door.topic(asked.topic))


def _state(door: Door, topic: Topic) -> TopicState:
    parts = [
        PartitionState(at.number, found.start, found.tail, found.end, found.size_bytes, found.epoch)
        for at in topic.partitions
        for found in (door.bounds(topic.name, at.number),)
    ]
    settings = {name: getattr(topic.settings, name) for name in TopicSettings.__struct_fields__}
    return TopicState(topic.name, topic.id, settings, parts, door.counters(topic.name))
