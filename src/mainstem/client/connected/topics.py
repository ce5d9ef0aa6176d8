"""The topics of a server: create, list, show, alter, delete, trim."""

from collections.abc import Callable, Sequence

from mainstem.client.connected.start_positions import offsets_of
from mainstem.client.info import PartitionInfo, TopicInfo
from mainstem.client.start_positions import Start, check_start
from mainstem.core.errors import InvalidSetting, TopicExists, UnknownTopic
from mainstem.core.names import check_topic, is_internal, matches
from mainstem.core.topic_settings import TopicSettings
from mainstem.remote.admin import Admin

_OF_KAFKA = "__"
"""Prefix of a server's internal topics, such as __consumer_offsets and __mainstem_topics."""


class ConnectedTopics:
    """Implements ``Topics`` through the Kafka protocol."""

    def __init__(
        self,
        administration: Admin,
        check_open: Callable[[], None],
        changed: Callable[[str], None],
    ) -> None:
        self._administration = administration
        self._check_open = check_open
        self._changed = changed

    def create(self, name: str, *, exist_ok: bool = False, **settings: object) -> TopicInfo:
        """Create a topic; the server chooses settings that are not given, also partitions."""
        self._check_open()
        check_topic(name)
        wanted = TopicSettings().altered(**settings)
        try:
            self._administration.create(name, settings, wanted)
        except TopicExists:
            if not exist_ok:
                raise
        return self.show(name)

    def list(self, pattern: str = "*", *, internal: bool = False) -> tuple[TopicInfo, ...]:
        """Return the topics whose names match a pattern such as ``orders.*``."""
        self._check_open()
        names = [
            name
            for name in self._administration.partitions()
            if matches(pattern, name) and (internal or not name.startswith(_OF_KAFKA))
        ]
        if internal and is_internal(pattern) and pattern not in names:
            # Asks by name, as mainstem's server does not list internal topics.
            names.append(pattern)
        return self._infos(names)

    def show(self, name: str) -> TopicInfo:
        """Return the settings and partitions of one topic."""
        self._check_open()
        found = self._infos([name])
        if not found:
            raise UnknownTopic(name)
        return found[0]

    def alter(self, name: str, **settings: object) -> TopicInfo:
        """Change settings of a topic; its number of partitions can only be increased."""
        now = self.show(name).settings
        wanted = now.altered(**settings)
        if wanted.partitions < now.partitions:
            raise InvalidSetting(
                f"topic {name!r} has {now.partitions} partitions; they can only grow, "
                f"not become {wanted.partitions}"
            )
        self._administration.alter(name, settings, wanted)
        if wanted.partitions > now.partitions:
            self._administration.grow(name, wanted.partitions)
        self._changed(name)
        return self.show(name)

    def delete(self, name: str) -> None:
        """Delete a topic and all its events."""
        self._check_open()
        self._administration.delete(name)
        self._changed(name)

    def trim(self, name: str, before: Start, *, partition: int | None = None) -> TopicInfo:
        """Delete the events before an offset or a time; ``latest`` deletes all events."""
        self._check_open()
        check_start(before)
        count = self._administration.count(name)
        numbers = range(count) if partition is None else (partition,)
        # Check all partitions before trimming the first, so that a refusal changes nothing.
        places = [(name, number) for number in numbers]
        self._administration.trim(offsets_of(self._administration, places, before))
        return self.show(name)

    def _infos(self, names: Sequence[str]) -> tuple[TopicInfo, ...]:
        described = self._administration.describe(names)
        settings = self._administration.settings(
            {name: each.partitions for name, each in described.items()}
        )
        bounds = self._administration.bounds(
            (name, number) for name, each in described.items() for number in range(each.partitions)
        )
        infos = []
        for name in sorted(described.keys() & settings.keys()):
            parts = tuple(
                PartitionInfo(number, at.start, at.tail, at.tail, None, at.epoch)
                for number in range(described[name].partitions)
                if (at := bounds.get((name, number)))
            )
            infos.append(TopicInfo(name, described[name].id, settings[name], parts))
        return tuple(infos)
