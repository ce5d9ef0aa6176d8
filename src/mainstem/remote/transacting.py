"""Writing a batch of events exactly once: all of it, or nothing, and never again.

How this works: a writer has a name that outlives its process. Under that name it has a
transactional id, so that whoever wrote under it before is fenced, and what it left open is aborted;
and a group, whose committed offset carries a mark that says which batch was last. The mark is
committed in the same transaction as the events. So after a crash the mark tells whether the batch
made it. The offset belongs to a topic of its own, without events, because brokers want one that
exists; the group has no lag there.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from mainstem.core.errors import Fenced, MainstemError, TopicExists
from mainstem.core.event import Headers
from mainstem.core.policies import TopicSettings
from mainstem.remote.administering import Administration
from mainstem.remote.link import Link
from mainstem.remote.refusals import explained, kafka_error

T = TypeVar("T")

MARKS_TOPIC = "mainstem.marks"
_ANY_PARTITION = -1
_LARGEST = 100_000_000
_POLL_EVERY = 1000
_ROOM_S = 0.5
_TRIES = 3
_REPLACED = {KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH}


class Outgoing(NamedTuple):
    """An event to be written, and where to."""

    topic: str
    value: bytes | None
    key: bytes | None
    headers: Headers
    partition: int | None
    timestamp_ms: int | None


class Transacting:
    """A writer with a name; one process at a time can be it."""

    def __init__(
        self,
        link: Link,
        name: str,
        *,
        timeout_ms: int,
        compression: str = "none",
        marks_topic: str = MARKS_TOPIC,
    ) -> None:
        self._link = link
        self._name = name
        self._failed: MainstemError | None = None
        self._mark_at = (marks_topic, 0)
        self._marks = Consumer(link.config(group_id=name, enable_auto_commit=False))
        self._producer = Producer(
            link.config(
                transactional_id=name,
                transaction_timeout_ms=timeout_ms,
                partitioner="murmur2_random",
                linger_ms=20,
                batch_size=1_000_000,
                message_max_bytes=_LARGEST,
                compression_type=compression,
                message_timeout_ms=timeout_ms,
            )
        )

    def take_over(self) -> str:
        """Fence whoever wrote under this name, and return the mark of the last batch, or nothing.

        Raises Fenced, at any later time, if another took over in turn.
        """
        _make(self._link, self._mark_at[0])
        self._call(self._producer.init_transactions, self._link.timeout_s)
        places = [TopicPartition(*self._mark_at)]
        (found,) = self._link.patiently(
            lambda: self._call(self._marks.committed, places, self._link.timeout_s)
        )
        return found.metadata or ""

    def write(self, events: Iterable[Outgoing], mark: Callable[[], str] | None) -> int:
        """Commit events together with the mark that is asked for after them; returns how many."""
        self._call(self._producer.begin_transaction)
        count, done = 0, False
        try:
            for count, event in enumerate(events, 1):
                self._put(event)
                if not count % _POLL_EVERY:
                    self._producer.poll(0)
            if mark is not None:
                self._call(
                    self._producer.send_offsets_to_transaction,
                    [TopicPartition(*self._mark_at, 0, metadata=mark())],
                    self._marks.consumer_group_metadata(),
                    self._link.timeout_s,
                )
            self._call(self._producer.commit_transaction, self._link.timeout_s)
            done = True
        except MainstemError as error:
            # What became of an event says more than that its transaction cannot be committed.
            raise self._failed or error from None
        finally:
            if not done:
                self._abort()
        return count

    def close(self) -> None:
        """Let go."""
        self._marks.close()

    def _put(self, event: Outgoing) -> None:
        if self._failed is not None:
            raise self._failed
        while True:
            try:
                self._producer.produce(
                    event.topic,
                    event.value,
                    event.key,
                    _ANY_PARTITION if event.partition is None else event.partition,
                    on_delivery=self._delivered,
                    timestamp=max(0, event.timestamp_ms or 0),
                    headers=list(event.headers),
                )
            except BufferError:
                self._producer.poll(_ROOM_S)
            except KafkaException as error:
                raise self._refusal(error, event.topic) from None
            else:
                return

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None and self._failed is None and error.code() != KafkaError._PURGE_QUEUE:
            self._failed = explained(error, self._link.address, topic=message.topic() or "")

    def _abort(self) -> None:
        try:
            self._producer.abort_transaction(self._link.timeout_s)
        except KafkaException:
            # Then it has been aborted by who took over, or is when its time is up.
            return

    def _call(self, deed: Callable[..., T], *arguments: object) -> T:
        """Do it, again as long as that may help; what is refused is raised as a core error."""
        for _ in range(_TRIES):
            try:
                return deed(*arguments)
            except KafkaException as error:
                if not kafka_error(error).retriable():
                    raise self._refusal(error) from None
                last = error
        raise self._refusal(last)

    def _refusal(self, error: KafkaException, topic: str = "") -> MainstemError:
        if kafka_error(error).code() in _REPLACED:
            return Fenced(
                f"another run writes as {self._name!r} by now, and this one may not any more; "
                "have only one run at a time, or give each a name of its own"
            )
        return self._link.refusal(error, topic=topic, group=self._name)


def _make(link: Link, topic: str) -> None:
    """Create the topic of the marks, if it is not there."""
    administration = Administration(link)
    if topic not in administration.describe([topic]):
        try:
            administration.create(topic, {"partitions": 1}, TopicSettings(partitions=1))
        except TopicExists:
            return
