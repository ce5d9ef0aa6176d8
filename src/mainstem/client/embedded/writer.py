"""A fenced writer of a log in this process: every append is a transaction in one partition."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

from mainstem.broker.door import AppendedBatch, Door, HeldPublish, ProducerIdAndEpoch
from mainstem.client.embedded.publishing import Wait
from mainstem.client.embedded.topics import EmbeddedTopics
from mainstem.client.writer import TRANSACTION_TIMEOUT_MS, WriterId
from mainstem.core.errors import (
    Fenced,
    MainstemError,
    UnknownProducer,
    UnknownTransaction,
    WriterFenced,
)
from mainstem.core.event import Event, Position
from mainstem.core.records import build

_BATCH_BYTES = 100
_RECORD_BYTES = 40
_HEADER_BYTES = 10
"""Maximum overhead in bytes of batch, record and headers, besides names, keys and values."""
_MAX_SEQUENCE = 2**31 - 1


class EmbeddedAppender:
    """Implements ``Appender`` on the broker of this process."""

    def __init__(
        self,
        broker: Door,
        topics: EmbeddedTopics,
        now_ms: Callable[[], int],
        wait: Callable[[Wait], None],
        writer: WriterId,
    ) -> None:
        self._broker, self._topics = broker, topics
        self._now_ms, self._wait = now_ms, wait
        self._topic, self._partition, self._name = writer
        self._id = writer.transactional_id
        self._sequence = 0
        self._is_open = False
        """Whether a transaction is still open, which must be ended before the next one."""
        begun = broker.transactions.begin(self._id, TRANSACTION_TIMEOUT_MS)
        begun.durable.wait()
        self._who = ProducerIdAndEpoch(begun.producer_id, begun.epoch)

    def append(self, events: Sequence[Event]) -> list[Position]:
        """Append events, all or none; return their positions once durable; raises WriterFenced."""
        try:
            return self._write(events)
        except (Fenced, UnknownProducer):
            # The new writer has aborted the open transaction of this one when it was opened.
            self._is_open = False
            raise self._fenced() from None
        except BaseException:
            self.close()
            raise

    def truncate(self, before: int) -> None:
        """Delete the events before an offset; raises WriterFenced."""
        self._check_fence()
        self._topics.trim(self._topic, before, partition=self._partition)

    def close(self) -> None:
        """Abort the open transaction, if there is one."""
        # If aborting fails, the next append tries again, or the transaction times out.
        with suppress(MainstemError):
            self._abort()

    def _check_fence(self) -> None:
        try:
            now = self._broker.transactions.describe(self._id)
        except UnknownTransaction:
            raise self._fenced() from None
        if (now.producer_id, now.epoch) != self._who:
            raise self._fenced()

    def _fenced(self) -> WriterFenced:
        return WriterFenced(self._topic, self._partition, self._name)

    def _write(self, events: Sequence[Event]) -> list[Position]:
        # An open transaction, left by a failed append, must not be committed together with this
        # one.
        self._abort()
        positions: list[Position] = []
        for batch in self._batches(events):
            appended = self._append_batch(batch)
            self._is_open = True
            self._sequence = (self._sequence + appended.events) & _MAX_SEQUENCE
            offsets = range(appended.offset, appended.offset + appended.events)
            positions += [Position(self._partition, offset) for offset in offsets]
        ended = self._broker.transactions.end(self._id, self._who, committed=True)
        self._is_open = False
        ended.durable.wait()
        return positions

    def _append_batch(self, events: Sequence[Event]) -> AppendedBatch:
        batch = build(
            events,
            now_ms=self._now_ms(),
            producer_id=self._who.producer_id,
            producer_epoch=self._who.epoch,
            base_sequence=self._sequence,
            transactional=True,
        )
        held: HeldPublish | None = None
        while True:
            outcomes, held = self._broker.append_batches(
                self._topic, ((self._partition, batch),), held, adds_partition=True
            )
            if held is None:
                (outcome,) = outcomes
                if not isinstance(outcome, AppendedBatch):
                    raise outcome
                return outcome
            self._wait(Wait(held.room, held.until_ms))

    def _abort(self) -> None:
        if self._is_open:
            self._broker.transactions.end(self._id, self._who, committed=False)
            self._is_open = False

    def _batches(self, events: Sequence[Event]) -> Iterator[list[Event]]:
        """Divide events into record batches; the append refuses an event that is too large."""
        limit = self._broker.topic(self._topic).settings.max_batch_bytes
        gathered: list[Event] = []
        total = _BATCH_BYTES
        for event in events:
            size = _size(event)
            if gathered and total + size > limit:
                yield gathered
                gathered, total = [], _BATCH_BYTES
            gathered.append(event)
            total += size
        yield gathered


def _size(event: Event) -> int:
    headers = sum(
        _HEADER_BYTES + len(name.encode()) + len(value or b"") for name, value in event.headers
    )
    return _RECORD_BYTES + len(event.value or b"") + len(event.key or b"") + headers
