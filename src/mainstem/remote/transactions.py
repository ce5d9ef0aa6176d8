"""Writes a batch of events exactly once: all of it or nothing, and never twice.

How this works: a writer has a name that outlives its process. The name is the transactional id, so
that an earlier writer of this name is fenced, and its open transaction is aborted. It is also the
name of a group, whose committed offset carries, as metadata, a mark that identifies the last batch.
The mark is committed in the same transaction as the events. So after a crash the mark tells whether
the batch was written. The offset is in a topic without events that exists only for this, because
brokers require an existing topic; the group has no lag there.

Two bugs of the libraries used determine how refusals are handled. confluent-kafka never frees an
error that it raises, nor the exception that was being handled at that moment, its frames, and their
producer: so no producer is called while an error is handled. And librdkafka frees a text twice,
which ends the process, if a fenced producer is freed while it awaits responses: so a producer is
freed only when it awaits none (``give_up``).
"""

import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import NamedTuple, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from mainstem.core.errors import Fenced, MainstemError, TopicExists
from mainstem.core.event import Headers, Position
from mainstem.core.topic_settings import TopicSettings
from mainstem.remote.admin import Admin
from mainstem.remote.cluster import Cluster
from mainstem.remote.errors import core_error, kafka_error

T = TypeVar("T")

MARKS_TOPIC = "mainstem.marks"
_ANY_PARTITION = -1
_LARGEST = 100_000_000
_BATCH_BYTES = 1_000_000
_POLL_EVERY = 1000
_ROOM_S = 0.5
_TURN_S = 0.05
_TRIES = 3
_REPLACED = {KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH}
_PURGED = {KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT}


class Outgoing(NamedTuple):
    """An event to send, with its topic and optional partition."""

    topic: str
    value: bytes | None
    key: bytes | None
    headers: Headers
    partition: int | None
    timestamp_ms: int | None


class TransactionalProducer:
    """A producer with a transactional id; a new one fences the previous one with the same id."""

    def __init__(
        self,
        cluster: Cluster,
        name: str,
        *,
        timeout_ms: int,
        compression: str = "none",
        batch_bytes: int = _BATCH_BYTES,
        marks_topic: str | None = MARKS_TOPIC,
    ) -> None:
        """Without ``marks_topic``, no marks are stored: a batch is atomic, but may come twice."""
        self._cluster = cluster
        self._name = name
        self._fates = _Fates()
        self._mark_at: tuple[str, int] | None = None
        self._marks: Consumer | None = None
        if marks_topic is not None:
            self._mark_at = (marks_topic, 0)
            self._marks = Consumer(cluster.config(group_id=name, enable_auto_commit=False))
        self._producer = Producer(
            cluster.config(
                transactional_id=name,
                transaction_timeout_ms=timeout_ms,
                partitioner="murmur2_random",
                linger_ms=20,
                batch_size=batch_bytes,
                message_max_bytes=_LARGEST,
                compression_type=compression,
                message_timeout_ms=timeout_ms,
            )
        )

    def take_over(self) -> str:
        """Fence the previous producer; return the mark of the last committed batch, or "".

        Raises Fenced, now or in a later call, if another producer has fenced this one meanwhile.
        """
        marks, mark_at = self._marks, self._mark_at
        if mark_at is not None:
            _make(self._cluster, mark_at[0])
        self._call(self._producer.init_transactions, self._cluster.timeout_s)
        if marks is None or mark_at is None:
            return ""
        places = [TopicPartition(*mark_at)]
        (found,) = self._cluster.retry_while_busy(
            lambda: self._call(marks.committed, places, self._cluster.timeout_s)
        )
        return found.metadata or ""

    def write(
        self,
        events: Iterable[Outgoing],
        mark: Callable[[], str] | None,
        positions: list[Position] | None = None,
    ) -> int:
        """Commit events and a mark in one transaction; return the number of events.

        Appends the events' positions to ``positions``, in order if all are in one partition.
        """
        self._call(self._producer.begin_transaction)
        count, self._fates = 0, _Fates(positions)
        failure: BaseException | None = None
        try:
            for count, event in enumerate(events, 1):
                self._put(event)
                if not count % _POLL_EVERY:
                    self._call(self._producer.poll, 0)
            if mark is not None and self._marks is not None and self._mark_at is not None:
                self._call(
                    self._producer.send_offsets_to_transaction,
                    [TopicPartition(*self._mark_at, 0, metadata=mark())],
                    self._marks.consumer_group_metadata(),
                    self._cluster.timeout_s,
                )
            self._call(self._producer.commit_transaction, self._cluster.timeout_s)
        except MainstemError as error:
            # An event's delivery report has more detail than a failed commit.
            failure = self._lost() or error
        except BaseException as error:
            failure = error
        if failure is not None:
            fenced = self._abort()
            if fenced is not None and isinstance(failure, MainstemError):
                failure = fenced
            try:
                raise failure
            finally:
                # Breaks the reference cycle between the exception and this frame.
                del failure, fenced
        return count

    def close(self) -> None:
        """Close the producer."""
        if self._marks is not None:
            self._marks.close()

    def _put(self, event: Outgoing) -> None:
        if (lost := self._lost()) is not None:
            raise lost
        while not self._has_room_for(event):
            self._call(self._producer.poll, _ROOM_S)

    def _has_room_for(self, event: Outgoing) -> bool:
        try:
            self._producer.produce(
                event.topic,
                event.value,
                event.key,
                _ANY_PARTITION if event.partition is None else event.partition,
                on_delivery=self._fates.delivered,
                timestamp=max(0, event.timestamp_ms or 0),
                headers=list(event.headers),
            )
        except BufferError:
            return False
        except KafkaException as error:
            raise self._refusal(kafka_error(error), event.topic) from None
        return True

    def _lost(self) -> MainstemError | None:
        if self._fates.lost is None:
            return None
        error, topic = self._fates.lost
        return core_error(error, self._cluster.address, topic=topic)

    def _abort(self) -> Fenced | None:
        """Abort the transaction; returns Fenced if another producer has fenced this one."""
        try:
            self._producer.abort_transaction(self._cluster.timeout_s)
        except (KafkaException, SystemError) as error:
            # The new producer has aborted it, or its timeout will.
            refused = _told(error)
        else:
            return None
        give_up(self._producer, self._cluster.timeout_s)
        return self._fenced() if refused.code() in _REPLACED else None

    def _call(self, deed: Callable[..., T], *arguments: object) -> T:
        """Call ``deed``, retrying retriable errors; other errors are raised as core errors."""
        for _ in range(_TRIES):
            try:
                return deed(*arguments)
            except (KafkaException, SystemError) as error:
                refused = _told(error)
                if not refused.retriable():
                    raise self._refusal(refused) from None
        raise self._refusal(refused)

    def _refusal(self, error: KafkaError, topic: str = "") -> MainstemError:
        if error.code() in _REPLACED:
            return self._fenced()
        return core_error(error, self._cluster.address, topic=topic, group=self._name)

    def _fenced(self) -> Fenced:
        return Fenced(
            f"another run writes as {self._name!r} by now, and this one may not any more; "
            "have only one run at a time, or give each a name of its own"
        )


class _Fates:
    """Collects the delivery reports of a batch; has no reference that keeps the producer alive."""

    def __init__(self, positions: list[Position] | None = None) -> None:
        self._positions = positions
        self.lost: tuple[KafkaError, str] | None = None
        """The first refused event's error and topic."""

    def delivered(self, error: KafkaError | None, message: Message) -> None:
        """Record the delivery report of one event."""
        if error is None:
            if self._positions is not None:
                self._positions.append(Position(message.partition() or 0, message.offset() or 0))
        elif self.lost is None and error.code() not in _PURGED:
            self.lost = error, message.topic() or ""


def give_up(producer: Producer, timeout_s: float) -> None:
    """Purge a producer's queues and wait for its responses, so that it can be freed safely."""
    # A refusal that arrives during destruction would free txn_errstr twice in librdkafka.
    producer.purge()
    until = time.monotonic() + timeout_s
    while len(producer) and time.monotonic() < until:
        # poll raises once on a fatal error; flush would go on, and fail in callbacks.
        with suppress(KafkaException):
            producer.poll(_TURN_S)


def _told(error: KafkaException | SystemError) -> KafkaError:
    """Return the KafkaError behind an exception.

    After a fatal error, confluent-kafka raises a SystemError that has the KafkaError as its cause.
    """
    found: BaseException | None = error
    while isinstance(found, SystemError):
        found = found.__cause__
    if not isinstance(found, KafkaException):
        raise error
    return kafka_error(found)


def _make(cluster: Cluster, topic: str) -> None:
    """Create the topic that has the marks, if it does not exist."""
    administration = Admin(cluster)
    if topic not in administration.describe([topic]):
        try:
            administration.create(topic, {"partitions": 1}, TopicSettings(partitions=1))
        except TopicExists:
            return
