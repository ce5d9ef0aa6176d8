"""A pool of producers, one for each batch limit (bytes and events).

librdkafka has one limit per producer, but topics have different ones.
"""

import threading
import time
from contextlib import suppress

from confluent_kafka import KafkaException

from mainstem.core.errors import MainstemError, UnknownTopic
from mainstem.core.names import check_topic
from mainstem.core.topic_settings import TopicSettings
from mainstem.remote.admin import Admin
from mainstem.remote.producer import DEFAULT_BATCH_BYTES, DEFAULT_BATCH_EVENTS, RemoteProducer

_AGAIN_S = 0.1


class ProducerPool:
    """Finds or creates a topic's producer; thread-safe."""

    def __init__(self, administration: Admin) -> None:
        self._administration = administration
        self._lock = threading.Lock()
        self._by_topic: dict[str, RemoteProducer] = {}
        self._by_batch: dict[tuple[int, int], RemoteProducer] = {}

    def to(self, topic: str) -> RemoteProducer:
        """Return the producer for a topic, which is auto-created if the server allows that."""
        found = self._by_topic.get(topic)
        if found is not None:
            return found
        check_topic(topic)
        settings = self.settings(topic)
        batch = (
            min(DEFAULT_BATCH_BYTES, settings.max_batch_bytes),
            # A batch as large as the backlog limit would need an empty backlog.
            min(DEFAULT_BATCH_EVENTS, max(1, (settings.max_backlog or 2**32) // 4)),
        )
        with self._lock:
            producing = self._by_batch.get(batch)
            if producing is None:
                producing = RemoteProducer(
                    self._administration.cluster, batch_bytes=batch[0], batch_events=batch[1]
                )
                self._by_batch[batch] = producing
            producing.limits[topic] = settings.max_batch_bytes
            self._by_topic[topic] = producing
        producing.refresh(topic)
        return producing

    def forget(self, topic: str) -> None:
        """Forget a topic's settings, which may have changed; the next event reads them again."""
        self._by_topic.pop(topic, None)

    def close(self) -> None:
        """Wait a limited time until all producers have sent their events, and close them."""
        for producing in self._by_batch.values():
            producing.close()
        self._by_topic.clear()
        self._by_batch.clear()

    def settings(self, topic: str) -> TopicSettings:
        """Return the settings of a topic; an unknown topic is created if the server allows that."""
        found = self._administration.describe([topic])
        if topic not in found:
            self._create(topic)
        try:
            settings = self._administration.settings({topic: 1})
        except MainstemError:
            # Producers may lack the right to describe configs.
            return TopicSettings()
        return settings.get(topic, TopicSettings())

    def _create(self, topic: str) -> None:
        """Request the topic's metadata by name, on which the server auto-creates the topic."""
        cluster = self._administration.cluster
        until = time.monotonic() + cluster.timeout_s
        while True:
            with suppress(KafkaException):
                self._administration.client.list_topics(topic, timeout=cluster.timeout_s)
            if topic in self._administration.describe([topic]):
                return
            if time.monotonic() > until:
                raise UnknownTopic(topic)
            # A cluster needs a moment to create it.
            time.sleep(_AGAIN_S)
