"""Appending events to a server, and knowing when they are kept.

How this works: librdkafka gathers events into batches and sends them from threads of its own. What
became of each is told by a callback, which somebody has to call for: one thread here does, for all
who wait. If the server is gone for longer than the time-out, that thread takes back what is still
on its way, so that nobody waits for ever, and nothing is sent long after its publisher gave up.
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
from mainstem.remote.errors import GONE, TOO_LARGE, explained, kafka_error

_TURN_S = 0.1
_ASK_S = 5.0
"""How long what the server said of itself is taken for true."""
_NO_REASON = frozenset({KafkaError._MSG_TIMED_OUT, KafkaError.KAFKA_STORAGE_ERROR})
"""What says that an event was not kept, but not why."""
_ANY_PARTITION = -1
_PROBE_S = 1.0
_LARGEST = 100_000_000
"""The server knows how large an event may be; librdkafka shall not guess it."""
DEFAULT_BATCH_BYTES = 1_000_000
DEFAULT_BATCH_EVENTS = 10_000

Settled = Callable[[KafkaError | None, Message], None]


class RemoteProducer:
    """A producer whose events are acknowledged by all copies; for use by many threads."""

    def __init__(
        self,
        cluster: Cluster,
        *,
        batch_bytes: int = DEFAULT_BATCH_BYTES,
        batch_events: int = DEFAULT_BATCH_EVENTS,
    ) -> None:
        self.cluster = cluster
        self.limits: dict[str, int] = {}
        """The largest batch that a topic takes, where it is known."""
        self._producer = Producer(
            cluster.config(
                acks="all",
                partitioner="murmur2_random",
                # What is sent again is neither doubled nor out of order.
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
        """Put an event on its way; waits while too much is on its way already."""
        number = _ANY_PARTITION if partition is None else partition
        # To librdkafka, 0 is now.
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
        """Learn how many partitions a topic has now."""
        with suppress(KafkaException):
            self._producer.list_topics(topic, timeout=self.cluster.timeout_s)

    def refusal(
        self, error: KafkaError, topic: str, event: Event, partition: int | None
    ) -> MainstemError:
        """Return why an event was not kept."""
        if error.code() in TOO_LARGE:
            size = len(event.value or b"") + len(event.key or b"")
            return EventTooLarge(topic, size, self.limits.get(topic, DEFAULT_BATCH_BYTES))
        if error.code() == KafkaError._UNKNOWN_PARTITION and partition is not None:
            return UnknownPartition(topic, partition)
        if error.code() in _NO_REASON and self._why is not None:
            kind = StorageFull if self._why.startswith("full:") else Overloaded
            return kind(f"the server at {self.cluster.address} takes no events: {self._why}")
        return explained(error, self.cluster.address, topic=topic)

    def learn(self, error: KafkaError) -> None:
        """Ask the server what librdkafka does not tell, in the thread that nobody waits for."""
        now = time.monotonic()
        if error.code() in _NO_REASON and now - self._asked_at > _ASK_S:
            self._why = why_not_ready(self.cluster)
            self._asked_at = now

    def close(self) -> None:
        """Wait for what is on its way, for a bounded time, and let go."""
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
        """Take back what is on its way if the server is gone for too long."""
        if self._gone_since is None:
            return
        now = time.monotonic()
        if not len(self._producer):
            # Nobody waits; who begins to has the whole time.
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


class Delivery:
    """One event on its way."""

    def __init__(
        self,
        producing: RemoteProducer,
        topic: str,
        event: Event,
        partition: int | None,
        told: Callable[[], None] | None = None,
    ) -> None:
        """Put it on its way; ``told`` is called, in another thread, once ``wait`` need not wait."""
        self._told = told
        self._learn = producing.learn
        self._refusal = partial(producing.refusal, topic=topic, event=event, partition=partition)
        self._done = threading.Event()
        self._error: KafkaError | None = None
        self._position = Position(-1, -1)
        producing.send(topic, event, partition, self._settle)

    def wait(self) -> Position:
        """Return where the event stands, once all copies have it."""
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


class Deliveries:
    """Many events on their way into one topic; the first that is refused is told."""

    def __init__(self, producing: RemoteProducer, topic: str, partition: int | None) -> None:
        self._producing, self._topic, self._partition = producing, topic, partition
        self._sent = 0
        self._kept = 0
        self._failed = 0
        self._refused: tuple[KafkaError, Event] | None = None
        self._settled = threading.Condition()

    def put(self, event: Event) -> None:
        """Put one more on its way; raises what became of those before."""
        if self._refused is not None:
            raise self._refusal()
        self._producing.send(self._topic, event, self._partition, partial(self._settle, event))
        self._sent += 1

    def wait(self) -> int:
        """Return how many are kept, once all are."""
        self.settle()
        if self._refused is not None:
            raise self._refusal()
        return self._kept

    def settle(self) -> None:
        """Wait until it is known of every event what became of it."""
        with self._settled:
            self._settled.wait_for(self._all_known)

    def _all_known(self) -> bool:
        # More than were counted, if an interrupt came after one was sent, and before that.
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
