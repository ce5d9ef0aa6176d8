"""Topics: created, altered, deleted, found by name or id."""

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
    """What can be done with topics; a change is certain once it is durable."""

    @property
    def limits(self) -> Limits:
        """What members, producers and transactions may do."""

    def create_topic(self, name: str, settings: TopicSettings = DEFAULTS) -> TopicDone:
        """Create a topic; raises TopicExists, InvalidName, InvalidSetting, StorageFull."""

    def alter_topic(self, name: str, **changes: object) -> TopicDone:
        """Change some settings of a topic; partitions only grow."""

    def delete_topic(self, name: str) -> Durable:
        """Delete a topic, all it holds, and every group's cursors in it."""

    def topic(self, name: str) -> Topic:
        """Return a topic; raises UnknownTopic."""

    def topic_by_id(self, topic_id: str) -> Topic | None:
        """Return a topic by its id, None if there is none."""

    def topics(self, pattern: str = "*", *, internal: bool = False) -> list[Topic]:
        """Return the topics that a name or pattern means, by name."""

    def watch_topics(self, wake: Callback) -> Callback:
        """Call ``wake`` once topics have changed; returns a function that takes the watch back."""

    def counters(self, topic: str) -> dict[str, int]:
        """Return what overload did to a topic since the process started."""
