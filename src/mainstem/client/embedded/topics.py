"""Topics of a log in this process: create, list, show, alter, delete, trim."""

from collections.abc import Callable

from mainstem.broker.door import Door, Topic
from mainstem.client.embedded.start_positions import offset_of
from mainstem.client.info import PartitionInfo, TopicInfo
from mainstem.client.start_positions import Start, check_start
from mainstem.core.errors import TopicExists
from mainstem.core.topic_settings import TopicSettings


class EmbeddedTopics:
    """Implements ``Topics`` on the broker of this process."""

    def __init__(
        self, broker: Door, defaults: TopicSettings, check_open: Callable[[], None]
    ) -> None:
        self._broker, self._defaults = broker, defaults
        self._check_open = check_open

    def create(self, name: str, *, exist_ok: bool = False, **settings: object) -> TopicInfo:
        """Create a topic; with ``exist_ok`` an existing one is returned unchanged."""
        self._check_open()
        try:
            done = self._broker.create_topic(name, self._defaults.altered(**settings))
        except TopicExists:
            if not exist_ok:
                raise
            return self.show(name)
        done.durable.wait()
        return self._info(done.topic)

    def list(self, pattern: str = "*", *, internal: bool = False) -> tuple[TopicInfo, ...]:
        """Return the topics whose names match a pattern such as ``orders.*``."""
        self._check_open()
        found = self._broker.topics(pattern, internal=internal)
        return tuple(self._info(topic) for topic in found)

    def show(self, name: str) -> TopicInfo:
        """Return the settings and partitions of one topic."""
        self._check_open()
        return self._info(self._broker.topic(name))

    def alter(self, name: str, **settings: object) -> TopicInfo:
        """Change settings of a topic; its number of partitions can only be increased."""
        self._check_open()
        done = self._broker.alter_topic(name, **settings)
        done.durable.wait()
        return self._info(done.topic)

    def delete(self, name: str) -> None:
        """Delete a topic and all its events."""
        self._check_open()
        self._broker.delete_topic(name).wait()

    def trim(self, name: str, before: Start, *, partition: int | None = None) -> TopicInfo:
        """Delete the events before an offset or a time; ``latest`` deletes all events."""
        self._check_open()
        check_start(before)
        topic = self._broker.topic(name)
        numbers = range(len(topic.partitions)) if partition is None else (partition,)
        # Check all partitions before trimming the first, so that a refusal changes nothing.
        offsets = {each: offset_of(self._broker, name, each, before) for each in numbers}
        for number, offset in offsets.items():
            self._broker.trim(name, number, offset)
        return self.show(name)

    def _info(self, topic: Topic) -> TopicInfo:
        parts = []
        for at in topic.partitions:
            bounds = self._broker.bounds(topic.name, at.number)
            parts.append(
                PartitionInfo(
                    at.number,
                    bounds.start,
                    bounds.tail,
                    bounds.end,
                    bounds.size_bytes,
                    bounds.epoch,
                )
            )
        counters = self._broker.counters(topic.name)
        return TopicInfo(topic.name, topic.id, topic.settings, tuple(parts), counters)
