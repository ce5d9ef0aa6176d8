"""Topics: create, alter, delete, find by name or id."""

from typing import Protocol

from mainstem.broker.callbacks import Callback
from mainstem.broker.journal import TOPICS as TOPIC_JOURNAL
from mainstem.broker.limits import Limits
from mainstem.broker.topics.catalog import Topic
from mainstem.broker.topics.regex import MATCH_BUDGET, TopicRegex
from mainstem.broker.topics.topics import TopicDone
from mainstem.core.topic_settings import TopicSettings
from mainstem.log.port import Durable

__all__ = ["MATCH_BUDGET", "TOPIC_JOURNAL", "Limits", "Topic", "TopicDone", "TopicRegex", "Topics"]

DEFAULTS = TopicSettings()


class Topics(Protocol):
    """Creates, alters, deletes and finds topics; a change is final once ``durable`` is done."""

    @property
    def limits(self) -> Limits:
        """The limits of topics, groups, producers and transactions."""

    def create_topic(self, name: str, settings: TopicSettings = DEFAULTS) -> TopicDone:
        """Create a topic; raises TopicExists, InvalidName, InvalidSetting, StorageFull."""

    def alter_topic(self, name: str, **changes: object) -> TopicDone:
        """Change some settings of a topic; the number of partitions can only grow."""

    def delete_topic(self, name: str) -> Durable:
        """Delete a topic with all its events, and every group's committed offsets in it."""

    def topic(self, name: str) -> Topic:
        """Return a topic; raises UnknownTopic."""

    def topic_by_id(self, topic_id: str) -> Topic | None:
        """Return a topic by its id, None if there is none."""

    def topics(self, pattern: str = "*", *, internal: bool = False) -> list[Topic]:
        """Return the topics that match a name or a pattern with wildcards, sorted by name."""

    def watch_topics(self, wake: Callback) -> Callback:
        """Call ``wake`` at the next change of topics; returns a function to cancel the watch."""

    def counters(self, topic: str) -> dict[str, int]:
        """Return the topic's overload counters since the process started."""
