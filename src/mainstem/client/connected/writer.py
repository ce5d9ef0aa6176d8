"""A fenced writer of a topic on a server: a transactional producer."""

from collections.abc import Sequence

from mainstem.client.connected.topics import ConnectedTopics
from mainstem.client.writer import TRANSACTION_TIMEOUT_MS, WriterId
from mainstem.core.batch import HEADER_SIZE
from mainstem.core.errors import Closed, EventTooLarge, Fenced, WriterFenced
from mainstem.core.event import Event, Position
from mainstem.remote.cluster import Cluster
from mainstem.remote.producer import DEFAULT_BATCH_BYTES
from mainstem.remote.transactions import Outgoing, TransactionalProducer


class ConnectedAppender:
    """Implements ``Appender`` through the Kafka protocol.

    It closes itself after a failed append, unless the server has only refused an event.
    """

    def __init__(
        self, cluster: Cluster, topics: ConnectedTopics, writer: WriterId, *, max_batch_bytes: int
    ) -> None:
        self._topics = topics
        self._max_batch_bytes = max_batch_bytes
        self._is_compressed = "compression.type" in cluster.settings
        self._topic, self._partition, self._name = writer
        self._is_fenced = False
        self._why = "the writer has been closed; open it again"
        """The error message of later calls, once the producer is closed."""
        self._producer: TransactionalProducer | None = TransactionalProducer(
            cluster,
            writer.transactional_id,
            timeout_ms=TRANSACTION_TIMEOUT_MS,
            batch_bytes=min(max_batch_bytes, DEFAULT_BATCH_BYTES),
            marks_topic=None,
        )
        self._producer.take_over()

    def append(self, events: Sequence[Event]) -> list[Position]:
        """Append events, all or none; return their positions once durable; raises WriterFenced."""
        producer = self._opened()
        self._check_sizes(events)
        positions: list[Position] = []
        try:
            producer.write((self._outgoing(each) for each in events), None, positions)
        except Fenced:
            self._is_fenced = True
            self.close()
            raise self._fenced() from None
        except BaseException as error:
            # The outcome of the transaction is unknown, and the producer's sequence numbers may
            # have a gap. Only a new producer could continue, but that would fence other writers,
            # which is the caller's decision.
            self._why = f"the last append failed ({error}); open the writer again"
            self.close()
            raise
        return positions

    def truncate(self, before: int) -> None:
        """Delete the events before an offset; raises WriterFenced if an append of this was fenced.

        Kafka does not fence DeleteRecords, so a writer can still truncate until an append tells it
        that it was fenced.
        """
        self._opened()
        self._topics.trim(self._topic, before, partition=self._partition)

    def close(self) -> None:
        """Close the transactional producer."""
        producer, self._producer = self._producer, None
        if producer is not None:
            producer.close()

    def _opened(self) -> TransactionalProducer:
        if self._producer is None:
            raise self._fenced() if self._is_fenced else Closed(self._why)
        return self._producer

    def _check_sizes(self, events: Sequence[Event]) -> None:
        """Raise EventTooLarge for an event too large for the topic, before a transaction begins."""
        for event in events:
            size = len(event.value or b"") + len(event.key or b"")
            if size + HEADER_SIZE > self._max_batch_bytes and not self._is_compressed:
                raise EventTooLarge(self._topic, size, self._max_batch_bytes)

    def _fenced(self) -> WriterFenced:
        return WriterFenced(self._topic, self._partition, self._name)

    def _outgoing(self, event: Event) -> Outgoing:
        return Outgoing(
            self._topic, event.value, event.key, event.headers, self._partition, event.timestamp_ms
        )
