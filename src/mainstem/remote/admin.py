"""Topic administration: list, describe, create, alter, delete; start and end of partitions.

Kafka answers before a change has reached all brokers. So every change waits until it is visible,
and requests that are sent too early are repeated.
"""

import time
from base64 import urlsafe_b64decode
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from typing import NamedTuple

import msgspec
from confluent_kafka import (
    OFFSET_INVALID,
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
    Uuid,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from mainstem.core.errors import (
    Closed,
    InvalidSetting,
    MainstemError,
    OffsetOutOfRange,
    Overloaded,
    UnknownPartition,
    UnknownTopic,
    Unreachable,
)
from mainstem.core.topic_settings import TopicSettings
from mainstem.remote.cluster import Cluster
from mainstem.remote.errors import kafka_error
from mainstem.remote.topic_configs import explain_unknown_config, from_kafka, to_kafka

Place = tuple[str, int]
"""A partition, as topic and number."""

_EARLIEST: OffsetSpec = OffsetSpec.earliest()  # type: ignore[no-untyped-call]
_LATEST: OffsetSpec = OffsetSpec.latest()  # type: ignore[no-untyped-call]
_AT_ONCE = 500
"""Number of topics in one request."""
_AGAIN_S = 0.02


class Bounds(NamedTuple):
    """The start and end offsets of a partition."""

    start: int
    tail: int
    epoch: int


class Described(msgspec.Struct, frozen=True):
    """A topic's id and number of partitions, as the server reports them."""

    id: str
    """The topic id, in hexadecimal."""
    partitions: int


class Admin:
    """Topic administration; thread-safe."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self._client: AdminClient | None = AdminClient(cluster.config())
        self._wait = {"request_timeout": cluster.timeout_s}

    @property
    def client(self) -> AdminClient:
        """The admin client of librdkafka; raises Closed after ``close``."""
        if self._client is None:
            raise Closed("the connection has been closed; connect again")
        return self._client

    def close(self) -> None:
        """Close the admin client."""
        # The admin client has no close: it ends with the last reference.
        self._client = None

    # Reading

    def partitions(self) -> dict[str, int]:
        """Return the number of partitions of every topic."""
        try:
            found = self.client.list_topics(timeout=self.cluster.timeout_s)
        except KafkaException as error:
            raise self.cluster.refusal(error) from None
        return {name: len(each.partitions) for name, each in found.topics.items() if not each.error}

    def describe(self, topics: Iterable[str]) -> dict[str, Described]:
        """Return the topic id and partition count of each topic; unknown topics are left out."""
        names = list(topics)
        found: dict[str, Described] = {}
        for at in range(0, len(names), _AT_ONCE):
            # Unlike a metadata request, this never auto-creates a topic.
            futures = self.client.describe_topics(
                TopicCollection(names[at : at + _AT_ONCE]), **self._wait
            )
            for name, future in futures.items():
                try:
                    topic = self.cluster.result(future, topic=name)
                except UnknownTopic:
                    continue
                found[name] = Described(_hexadecimal(topic.topic_id), len(topic.partitions))
        return found

    def count(self, topic: str) -> int:
        """Return the number of partitions of a topic; raises UnknownTopic."""
        found = self.describe([topic])
        if topic not in found:
            raise UnknownTopic(topic)
        return found[topic].partitions

    def settings(self, counts: Mapping[str, int]) -> dict[str, TopicSettings]:
        """Return topics' settings, given their partition counts; unknown topics are left out."""
        if not counts:
            return {}
        resources = {
            ConfigResource(ConfigResource.Type.TOPIC, name): count for name, count in counts.items()
        }
        found = {}
        for resource, future in self.client.describe_configs(list(resources), **self._wait).items():
            try:
                entries = self.cluster.result(future, topic=resource.name)
            except UnknownTopic:
                continue
            values = {name: entry.value for name, entry in entries.items()}
            found[resource.name] = from_kafka(values, resources[resource])
        return found

    def bounds(self, places: Iterable[Place], *, committed: bool = False) -> dict[Place, Bounds]:
        """Return the start and end offset of each partition; unknown partitions are left out.

        With ``committed``, a partition ends where its first open transaction begins.
        """
        wanted = list(places)
        starts = self._offsets(dict.fromkeys(wanted, _EARLIEST))
        tails = self._offsets(dict.fromkeys(wanted, _LATEST), committed=committed)
        return {
            place: Bounds(starts[place][0], tails[place][0], max(0, tails[place][1]))
            for place in wanted
            if place in starts and place in tails
        }

    def at_time(self, places: Iterable[Place], timestamp_ms: int) -> dict[Place, int | None]:
        """Return each partition's first offset at or after a timestamp, None if there is none."""
        spec = OffsetSpec.for_timestamp(timestamp_ms)
        found = self._offsets(dict.fromkeys(places, spec))
        return {place: None if offset < 0 else offset for place, (offset, _) in found.items()}

    # Changing

    def create(self, topic: str, names: Mapping[str, object], settings: TopicSettings) -> None:
        """Create a topic with those of the settings that ``names`` lists.

        The server chooses the others.
        """
        config = to_kafka(settings, names)
        partitions = settings.partitions if "partitions" in names else -1
        new = NewTopic(topic, num_partitions=partitions, replication_factor=-1, config=config)
        futures = self.client.create_topics([new], **self._wait)
        try:
            self.cluster.result(futures[topic], topic=topic)
        except InvalidSetting as error:
            raise explain_unknown_config(error, config, self.cluster.address) from None
        self._until(lambda: topic in self.describe([topic]))

    def alter(self, topic: str, names: Mapping[str, object], settings: TopicSettings) -> None:
        """Change those settings of a topic that ``names`` lists.

        The number of partitions is left unchanged; see ``grow``.
        """
        config = to_kafka(settings, names)
        if not config:
            return
        future = self.set_configs(ResourceType.TOPIC, topic, config)
        try:
            self.cluster.result(future, topic=topic)
        except InvalidSetting as error:
            raise explain_unknown_config(error, config, self.cluster.address) from None

        def shows() -> bool:
            now = self.settings({topic: settings.partitions}).get(topic)
            return now is None or all(
                getattr(now, each) == getattr(settings, each) for each in names
            )

        self._until(shows)

    def set_configs(
        self, kind: ResourceType, name: str, configs: Mapping[str, str]
    ) -> "Future[None]":
        """Set some configs of a topic or group without waiting; the others keep their values."""
        entries = [
            ConfigEntry(config, value, incremental_operation=AlterConfigOpType.SET)
            for config, value in configs.items()
        ]
        changed = ConfigResource(kind, name, incremental_configs=entries)
        futures = self.client.incremental_alter_configs([changed], **self._wait)
        return futures[changed]

    def grow(self, topic: str, partitions: int) -> None:
        """Increase the number of partitions of a topic."""
        futures = self.client.create_partitions([NewPartitions(topic, partitions)], **self._wait)
        self.cluster.result(futures[topic], topic=topic)
        self._until(lambda: self.count(topic) >= partitions)

    def delete(self, topic: str) -> None:
        """Delete a topic."""
        futures = self.client.delete_topics([topic], **self._wait)
        self.cluster.result(futures[topic], topic=topic)
        self._until(lambda: topic not in self.describe([topic]))

    def trim(self, offsets: Mapping[Place, int]) -> None:
        """Delete the events before the given offset in each partition."""
        asked = [TopicPartition(*place, offset) for place, offset in offsets.items()]
        for at, future in self.client.delete_records(asked, **self._wait).items():
            try:
                future.result(self.cluster.timeout_s)
            except KafkaException as error:
                raise self._trim_refusal(error, at) from None

    def _trim_refusal(self, error: KafkaException, at: TopicPartition) -> MainstemError:
        if kafka_error(error).code() != KafkaError.OFFSET_OUT_OF_RANGE:
            return self.cluster.refusal(error, topic=at.topic, partition=at.partition)
        bounds = self.bounds([(at.topic, at.partition)])[at.topic, at.partition]
        return out_of_range((at.topic, at.partition), at.offset, bounds)

    def _offsets(
        self, wanted: Mapping[Place, OffsetSpec], *, committed: bool = False
    ) -> dict[Place, tuple[int, int]]:
        """Return the offset and leader epoch of each partition that exists."""
        found = self._known_offsets(wanted, committed)
        unknown = [place for place in wanted if place not in found]
        if unknown:
            # librdkafka caches metadata, and the topic may have grown since; describing it
            # refreshes the cache.
            there = self.describe({topic for topic, _ in unknown})
            grown = {
                (topic, number): wanted[topic, number]
                for topic, number in unknown
                if topic in there and number < there[topic].partitions
            }
            found |= self._known_offsets(grown, committed)
        return found

    def _known_offsets(
        self, wanted: Mapping[Place, OffsetSpec], committed: bool
    ) -> dict[Place, tuple[int, int]]:
        """Return the offset and leader epoch of each partition that the server lists."""
        found: dict[Place, tuple[int, int]] = {}

        def have_answers() -> bool:
            left = {place: spec for place, spec in wanted.items() if place not in found}
            answers, early = self._ask_offsets(left, committed)
            found.update(answers)
            return not early

        self._until(have_answers)
        return found

    def _ask_offsets(
        self, wanted: Mapping[Place, OffsetSpec], committed: bool
    ) -> tuple[dict[Place, tuple[int, int]], bool]:
        """Return the offsets that the server has now, and whether some partitions are not ready."""
        if not wanted:
            return {}, False
        asked = {TopicPartition(*place): spec for place, spec in wanted.items()}
        isolation = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED
        answers = self.client.list_offsets(asked, isolation_level=isolation, **self._wait)
        found, early = {}, False
        for at, future in answers.items():
            try:
                info = self.cluster.result(future, topic=at.topic, partition=at.partition)
            except (UnknownTopic, UnknownPartition):
                continue
            except Overloaded:
                early = True
                continue
            if info.offset == OFFSET_INVALID:
                # librdkafka timed out on this partition's leader, and reports no error.
                raise Unreachable(
                    self.cluster.address, f"no response within {self.cluster.timeout_s:g} s"
                )
            found[at.topic, at.partition] = (info.offset, info.leader_epoch or 0)
        return found, early

    def _until(self, shows: Callable[[], bool]) -> None:
        """Poll until ``shows`` returns True; raises Unreachable after the timeout."""
        until = time.monotonic() + self.cluster.timeout_s
        while not shows():
            if time.monotonic() > until:
                raise Unreachable(
                    self.cluster.address,
                    f"a change was not visible after {self.cluster.timeout_s:g} s",
                )
            time.sleep(_AGAIN_S)


def out_of_range(place: Place, offset: int, bounds: Bounds) -> OffsetOutOfRange:
    """Return an OffsetOutOfRange for an offset outside a partition's bounds."""
    where = f"partition {place[1]} of topic {place[0]!r}"
    return OffsetOutOfRange(where, offset, bounds.start, bounds.tail)


def _hexadecimal(topic_id: Uuid) -> str:
    return urlsafe_b64decode(f"{topic_id}==").hex()
