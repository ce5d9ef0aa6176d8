"""Where a connector publishes: to the broker of its process, or through a server by a lease.

Events and changed definitions, such as the progress, are one append in both.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

from mainstem.broker.door import Door, Durable, HeadChanges, HeldPublish, TopicEvents
from mainstem.connectors.running.lease_messages import TargetTopic
from mainstem.connectors.running.progress import HEAD
from mainstem.core.topic_settings import TopicSettings

Changes = Mapping[tuple[str, str], bytes | None]
"""New values of definitions, by kind and key; None deletes."""


class Target(Protocol):
    """The topics and stored definitions that a connector writes."""

    def get(self, kind: str, key: str) -> bytes | None:
        """Return a stored definition of connectors, None if there is none."""

    def keys(self, kind: str, prefix: str) -> Sequence[str]:
        """Return the keys of the definitions of a kind that begin with a prefix."""

    def topic(self, name: str) -> TargetTopic:
        """Return what a connector needs to know of a topic; raises UnknownTopic."""

    def create_topic(self, name: str, settings: TopicSettings) -> None:
        """Create a topic; may raise TopicExists."""

    def publish(
        self, entries: Sequence[TopicEvents], changes: Changes, held: HeldPublish | None
    ) -> Durable | HeldPublish:
        """Append events and definitions, all or nothing, as ``Door.publish_all`` does.

        Returns HeldPublish while a topic is full, to be passed as ``held`` to the next attempt.
        """


class DoorTarget:
    """Publishes to the broker of this process."""

    def __init__(self, door: Door) -> None:
        self._door = door
        self._definitions = door.definitions.open(HEAD)

    def get(self, kind: str, key: str) -> bytes | None:
        """Return a stored definition of connectors, None if there is none."""
        return self._definitions.get(kind, key)

    def keys(self, kind: str, prefix: str) -> Sequence[str]:
        """Return the keys of the definitions of a kind that begin with a prefix."""
        return [each for each in self._definitions.items(kind) if each.startswith(prefix)]

    def topic(self, name: str) -> TargetTopic:
        """Return what a connector needs to know of a topic; raises UnknownTopic."""
        found = self._door.topic(name)
        count = len(found.partitions)
        was_written = any(self._door.bounds(name, each).end for each in range(count))
        return TargetTopic(count, found.settings.durability, was_written)

    def create_topic(self, name: str, settings: TopicSettings) -> None:
        """Create a topic and wait until that is durable; raises TopicExists."""
        self._door.create_topic(name, settings).durable.wait()

    def publish(
        self, entries: Sequence[TopicEvents], changes: Changes, held: HeldPublish | None
    ) -> Durable | HeldPublish:
        """Append events and definitions, all or nothing; HeldPublish while a topic is full."""
        answer = self._door.publish_all(entries, held=held, defined=HeadChanges(HEAD, changes))
        return answer if isinstance(answer, HeldPublish) else answer.durable
