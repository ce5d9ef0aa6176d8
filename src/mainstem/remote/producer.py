"""Producing: sending events, and learning when they are acknowledged.

How this works: librdkafka batches events and sends them from its own threads. Delivery reports come
from ``poll``, which one thread here calls for all callers. If the server is unreachable for longer
than the timeout, that thread purges unsent events, so that no caller waits for ever, and nothing is
sent long after its publisher has given up.
"""

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from mainstem.core.errors import (
    Closed,
    EventTooLarge,
    MainstemError,
    Overloaded,
    StorageFull,
    UnknownPartition,
)
from mainstem.core.event import Event, Position
from mainstem.remote.admin_address import why_not_ready
from mainstem.remote.cluster import Cluster
from mainstem.remote.errors import GONE, TOO_LARGE, core_error, kafka_error

_TURN_S = 0.1
_ASK_S = 5.0
"""Seconds for which a response of /readyz is reused."""
_NO_REASON = frozenset({KafkaError._MSG_TIMED_OUT, KafkaError.KAFKA_STORAGE_ERROR})
"""Error codes that do not explain why an event was refused."""
_ANY_PARTITION = -1
_PROBE_S = 1.0
_LARGEST = 100_000_000
"""message.max.bytes of librdkafka: very large, because the server limits the size of events."""
DEFAULT_BATCH_BYTES = 1_000_000
DEFAULT_BATCH_EVENTS = 10_000

Settled = Callable[[KafkaError | None, Message], None]


class RemoteProducer:
    """An idempotent producer with acks=all; thread-safe."""

    def __init__(
        self,
        cluster: Cluster,
        *,
        batch_bytes: int = DEFAULT_BATCH_BYTES,
        batch_events: int = DEFAULT_BATCH_EVENTS,
    ) -> None:
        self.cluster = cluster
        self.limits: dict[str, int] = {}
        """max.message.bytes of each topic for which it is known."""
        self._producer = Producer(
            cluster.config(
                acks="all",
                partitioner="murmur2_random",
                # Retries neither duplicate nor reorder events.
                enable_idempotence=True,
                linger_ms=0,
                batch_size=batch_bytes,
                batch_num_messages=batch_events,
                message_max_bytes=_LARGEST,
                message_timeout_ms=30_000,
                message_send_max_retries=5,
                queue_buffering_max_kbytes=65_536,
                topic_metadata_propagation_max_ms=int(cluster.timeout_s * 1000),
            )
            | {"error_cb": self._on_error}
        )
        self._closed = False
        self._gone_since: float | None = None
        self._why: str | None = None
        self._asked_at = 0.0
        self._room = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="mainstem-producing", daemon=True)
        self._thread.start()

    def send(self, topic: str, event: Event, partition: int | None, settled: Settled) -> None:
        """Send an event; blocks while librdkafka's queue is full.

        ``settled`` is called with the delivery report, in another thread.
        """
        number = _ANY_PARTITION if partition is None else partition
        # librdkafka takes 0 for now.
        timestamp_ms = max(0, event.timestamp_ms)
        while True:
            if self._closed:
                raise Closed("the stem has been closed; connect again")
            try:
                self._producer.produce(
                    topic,
                    event.value,
                    event.key,
                    number,
                    on_delivery=settled,
                    timestamp=timestamp_ms,
                    headers=list(event.headers),
                )
            except BufferError:
                with self._room:
                    self._room.wait(_TURN_S)
            except KafkaException as error:
                raise self.refusal(kafka_error(error), topic, event, partition) from None
            else:
                return

    def refresh(self, topic: str) -> None:
        """Fetch the topic's metadata again, so that librdkafka sees a change."""
        with suppress(KafkaException):
            self._producer.list_topics(topic, timeout=self.cluster.timeout_s)

    def refusal(
        self, error: KafkaError, topic: str, event: Event, partition: int | None
    ) -> MainstemError:
        """Return the core error that says why an event was refused."""
        if error.code() in TOO_LARGE:
            size = len(event.value or b"") + len(event.key or b"")
            return EventTooLarge(topic, size, self.limits.get(topic, DEFAULT_BATCH_BYTES))
        if error.code() == KafkaError._UNKNOWN_PARTITION and partition is not None:
            return UnknownPartition(topic, partition)
        if error.code() in _NO_REASON and self._why is not None:
            kind = StorageFull if self._why.startswith("full:") else Overloaded
            return kind(f"the server at {self.cluster.address} refuses events: {self._why}")
        return core_error(error, self.cluster.address, topic=topic)

    def learn(self, error: KafkaError) -> None:
        """After an error without a reason, read /readyz to learn why the server refuses events."""
        now = time.monotonic()
        if error.code() in _NO_REASON and now - self._asked_at > _ASK_S:
            self._why = why_not_ready(self.cluster)
            self._asked_at = now

    def close(self) -> None:
        """Wait a limited time until all events are sent, and close."""
        if self._closed:
            return
        self._producer.flush(self.cluster.timeout_s)
        self._closed = True
        self._thread.join()
        self._producer.purge()
        self._producer.flush(_TURN_S)

    def _run(self) -> None:
        while not self._closed:
            if self._producer.poll(_TURN_S):
                with self._room:
                    self._room.notify_all()
            self._look_for_server()

    def _look_for_server(self) -> None:
        """Purge unsent events if the server has been unreachable for the timeout."""
        if self._gone_since is None:
            return
        now = time.monotonic()
        if not len(self._producer):
            # Nothing is unsent: the time-out starts with the next event.
            self._gone_since = now
        elif now - self._gone_since >= self.cluster.timeout_s - _PROBE_S:
            try:
                self._producer.list_topics(timeout=_PROBE_S)
                self._gone_since = None
            except KafkaException:
                self._producer.purge()
                self._gone_since = time.monotonic()

    def _on_error(self, error: KafkaError) -> None:
        if error.code() in GONE and self._gone_since is None:
            self._gone_since = time.monotonic()


class DeliveryReport:
    """The acknowledgement of one event that was sent."""

    def __init__(
        self,
        producing: RemoteProducer,
        topic: str,
        event: Event,
        partition: int | None,
        told: Callable[[], None] | None = None,
    ) -> None:
        """Send an event.

        ``told`` is called, in another thread, when the event is acknowledged or refused.
        """
        self._told = told
        self._learn = producing.learn
        self._refusal = partial(producing.refusal, topic=topic, event=event, partition=partition)
        self._done = threading.Event()
        self._error: KafkaError | None = None
        self._position = Position(-1, -1)
        producing.send(topic, event, partition, self._settle)

    def wait(self) -> Position:
        """Wait for the acknowledgement and return the event's position."""
        self._done.wait()
        if self._error is not None:
            raise self._refusal(self._error)
        return self._position

    def _settle(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._learn(error)
        self._error = error
        if error is None:
            self._position = Position(message.partition() or 0, message.offset() or 0)
        self._done.set()
        if self._told is not None:
            self._told()


class DeliveryReports:
    """The acknowledgements of many events sent to one topic; raises the first refusal."""

    def __init__(self, producing: RemoteProducer, topic: str, partition: int | None) -> None:
        self._producing, self._topic, self._partition = producing, topic, partition
        self._sent = 0
        self._kept = 0
        self._failed = 0
        self._refused: tuple[KafkaError, Event] | None = None
        self._settled = threading.Condition()

    def put(self, event: Event) -> None:
        """Send one more event; raises the first refusal of earlier events."""
        if self._refused is not None:
            raise self._refusal()
        self._producing.send(self._topic, event, self._partition, partial(self._settle, event))
        self._sent += 1

    def wait(self) -> int:
        """Wait until all events are acknowledged, and return their number."""
        self.settle()
        if self._refused is not None:
            raise self._refusal()
        return self._kept

    def settle(self) -> None:
        """Wait for all acknowledgements, without raising refusals."""
        with self._settled:
            self._settled.wait_for(self._all_known)

    def _all_known(self) -> bool:
        # The count may be too low if an interrupt came between sending and counting.
        return self._kept + self._failed >= self._sent

    def _refusal(self) -> MainstemError:
        assert self._refused is not None
        error, event = self._refused
        return self._producing.refusal(error, self._topic, event, self._partition)

    def _settle(self, event: Event, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._producing.learn(error)
        with self._settled:
            if error is None:
                self._kept += 1
            else:
                self._failed += 1
                self._refused = self._refused or (error, event)
            if self._all_known():
                self._settled.notify_all()
