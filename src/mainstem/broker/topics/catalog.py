"""The catalog of topics and their settings: replayed from ``__mainstem_topics``.

A request is refused, or turned into changes; these are appended, then applied. After a restart the
same ``apply`` runs over the same changes, so memory and disk cannot disagree.

A deletion takes two changes. ``TopicGone`` hides the topic and names the partitions to delete from
the log. When they are deleted, a change without a value frees the name. After a crash in between,
``going`` tells the broker which deletions to complete. The name stays taken until then: normally it
is free before the client gets the response, but a full disk can delay that.
"""

from collections.abc import Iterator
from typing import Annotated, NamedTuple

import msgspec

from mainstem.core.errors import InvalidSetting, TopicExists, UnknownTopic
from mainstem.core.names import check_topic, is_internal, is_pattern, matches
from mainstem.core.setting_types import PositiveInt
from mainstem.core.topic_settings import Durability, TopicSettings
from mainstem.log.port import PartitionId


class TopicLimits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Limits on the number of topics and partitions."""

    max_topics: Annotated[PositiveInt, "Topics; more are refused."] = 100_000
    max_partitions: Annotated[
        PositiveInt, "Partitions of all topics together; more are refused."
    ] = 1_000_000


TopicPartition = tuple[str, int]
"""A partition as users name it: the topic's name and the partition number."""
DEFAULTS = TopicLimits()


class TopicKey(msgspec.Struct, frozen=True, array_like=True, tag="topic"):
    """The record's key: the topic's name."""

    name: str


class TopicSet(msgspec.Struct, frozen=True, tag_field="kind", tag="topic/1"):
    """The topic exists, with this id and these settings."""

    id: str
    settings: TopicSettings
    created_ms: int


class TopicGone(msgspec.Struct, frozen=True, tag_field="kind", tag="topic-gone/1"):
    """The topic was deleted; its partitions may still be in the log."""

    id: str
    partitions: int


TopicValue = TopicSet | TopicGone


class TopicChange(NamedTuple):
    """One record of the internal topic: a key, and its new value (None: deleted)."""

    key: TopicKey
    value: TopicValue | None


class Topic(msgspec.Struct, frozen=True):
    """A topic that exists."""

    name: str
    id: str
    settings: TopicSettings
    created_ms: int
    partitions: tuple[PartitionId, ...]

    @property
    def internal(self) -> bool:
        """Whether the topic is internal: it stores the broker's state."""
        return is_internal(self.name)


class Topics:
    """All topics by name and by id, rebuilt by replaying the internal topic."""

    def __init__(self, limits: TopicLimits = DEFAULTS) -> None:
        self._limits = limits
        self._by_name: dict[str, Topic] = {}
        self._by_id: dict[str, Topic] = {}
        self._partitions = 0
        self.going: dict[str, TopicGone] = {}
        """Deleted topics whose partitions may still be in the log, by name."""

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Topics):
            return NotImplemented
        return (self._by_name, self._by_id, self._partitions, self.going) == (
            other._by_name,
            other._by_id,
            other._partitions,
            other.going,
        )

    __hash__ = None  # type: ignore[assignment]

    def __iter__(self) -> Iterator[Topic]:
        return iter(self._by_name.values())

    def __len__(self) -> int:
        return len(self._by_name)

    def get(self, name: str) -> Topic:
        """Return a topic by its name; raises UnknownTopic."""
        try:
            return self._by_name[name]
        except KeyError:
            raise UnknownTopic(name) from None

    def find(self, name: str) -> Topic | None:
        """Return a topic by its name, None if there is none."""
        return self._by_name.get(name)

    def by_id(self, topic_id: str) -> Topic | None:
        """Return a topic by its id, None if there is none."""
        return self._by_id.get(topic_id)

    def matching(self, pattern: str, *, internal: bool = False) -> list[Topic]:
        """Return the topics whose names match, sorted; internal ones only with ``internal``."""
        if not is_pattern(pattern):
            found = self._by_name.get(pattern)
            return [found] if found is not None else []
        # Most names already fail the literal prefix, which is a hundred times faster to check.
        prefix = pattern.replace("?", "*").partition("*")[0]
        names = sorted(
            name
            for name in self._by_name
            if name.startswith(prefix)
            and matches(pattern, name)
            and (internal or not is_internal(name))
        )
        return [self._by_name[name] for name in names]

    def create(
        self, name: str, settings: TopicSettings, topic_id: str, now_ms: int
    ) -> list[TopicChange]:
        """Return the changes that create a topic."""
        check_topic(name)
        settings = settings.altered()
        if name in self._by_name or name in self.going:
            raise TopicExists(name)
        most = self._limits.max_topics
        if len(self._by_name) >= most:
            raise InvalidSetting(f"there are {most} topics already; delete some first")
        self._check_room(settings.partitions)
        return [TopicChange(TopicKey(name), TopicSet(topic_id, settings, now_ms))]

    def alter(self, name: str, settings: TopicSettings) -> list[TopicChange]:
        """Return the changes that alter a topic's settings.

        Refuses settings with which events would be lost.
        """
        topic = self._own(name)
        settings = settings.altered()
        was = topic.settings
        if settings == was:
            return []
        if settings.partitions < was.partitions:
            raise InvalidSetting(
                f"topic {name!r} has {was.partitions} partitions, and they cannot become fewer "
                f"({settings.partitions}): what they hold would be lost; create another topic"
            )
        if (settings.durability is Durability.MEMORY) != (was.durability is Durability.MEMORY):
            raise InvalidSetting(
                f"topic {name!r} has durability {was.durability}, which cannot become "
                f"{settings.durability}: events do not move between memory and disk; "
                "create another topic"
            )
        self._check_room(settings.partitions - was.partitions)
        return [TopicChange(TopicKey(name), TopicSet(topic.id, settings, topic.created_ms))]

    def delete(self, name: str) -> list[TopicChange]:
        """Return the changes that delete a topic."""
        topic = self._own(name)
        return [TopicChange(TopicKey(name), TopicGone(topic.id, len(topic.partitions)))]

    def forget(self, name: str) -> list[TopicChange]:
        """Return the change that frees the name of a deleted topic."""
        return [TopicChange(TopicKey(name), None)] if name in self.going else []

    def apply(self, change: TopicChange) -> None:
        """Apply one change, new or replayed at start; nothing else modifies this state."""
        name, value = change.key.name, change.value
        if isinstance(value, TopicSet):
            self._drop(name)
            self.going.pop(name, None)
            ids = tuple(PartitionId(value.id, n) for n in range(value.settings.partitions))
            topic = Topic(name, value.id, value.settings, value.created_ms, ids)
            self._by_name[name] = self._by_id[value.id] = topic
            self._partitions += len(ids)
            return
        self._drop(name)
        if value is None:
            self.going.pop(name, None)
        else:
            self.going[name] = value

    def _drop(self, name: str) -> None:
        topic = self._by_name.pop(name, None)
        if topic is not None:
            del self._by_id[topic.id]
            self._partitions -= len(topic.partitions)

    def _own(self, name: str) -> Topic:
        """Return a topic that users may change; raises InvalidName if it is internal."""
        if is_internal(name):
            check_topic(name)
        return self.get(name)

    def _check_room(self, more: int) -> None:
        most = self._limits.max_partitions
        if self._partitions + more > most:
            raise InvalidSetting(
                f"{more} more partitions would be over {most} of all topics together "
                f"({self._partitions} now); delete topics, or ask for fewer"
            )
