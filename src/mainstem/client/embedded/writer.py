"""A fenced writer of the embedded log: every append is a transaction of one partition."""

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Self

from mainstem.broker.door import Door, HeldPublish, ProducerIdAndEpoch, Published
from mainstem.client.embedded.publishing import Wait
from mainstem.client.embedded.topics import EmbeddedTopics
from mainstem.client.values import HeadersLike, Key, Value, event_of, make_event
from mainstem.client.writer import TRANSACTION_TIMEOUT_MS, transactional_id
from mainstem.core.errors import (
    Closed,
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
"""What batches, records and headers take beside names, keys and values, at most."""
_MAX_SEQUENCE = 2**31 - 1


class EmbeddedWriter:
    """Implements ``Writer`` on the broker of this process; safe to use from several threads."""

    def __init__(
        self,
        broker: Door,
        topics: EmbeddedTopics,
        now_ms: Callable[[], int],
        wait: Callable[[Wait], None],
        topic: str,
        partition: int,
        name: str,
    ) -> None:
        self._broker, self._topics = broker, topics
        self._now_ms, self._wait = now_ms, wait
        self._topic, self._partition, self._name = topic, partition, name
        self._id = transactional_id(topic, partition, name)
        self._lock = threading.Lock()
        self._closed: str | None = None
        self._sequence = 0
        self._is_open = False
        """Whether a transaction is to be ended before the next one."""
        begun = broker.transactions.begin(self._id, TRANSACTION_TIMEOUT_MS)
        begun.durable.wait()
        self._who = ProducerIdAndEpoch(begun.producer_id, begun.epoch)

    def append(
        self,
        value: Value,
        *,
        key: Key = None,
        headers: HeadersLike = (),
        timestamp_ms: int | None = None,
    ) -> Position:
        """Append one event; return where it stands, once durable; raises WriterFenced."""
        return self._append([make_event(value, key, headers, timestamp_ms)])[0]

    def append_many(self, events: Iterable[Value | Event]) -> list[Position]:
        """Append events, all or none; return where they stand, once durable."""
        return self._append([event_of(each) for each in events])

    def truncate(self, before: int) -> None:
        """Delete the events before an offset; raises WriterFenced."""
        with self._lock:
            self._check_open()
            self._check_fence()
            self._topics.trim(self._topic, before, partition=self._partition)

    def close(self) -> None:
        """Append no more; the name stays with this writer until another takes over."""
        self.close_for("the writer has been closed; open it again")

    def close_for(self, reason: str) -> None:
        """Close, saying why to who appends later."""
        self._closed = self._closed or reason

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close."""
        self.close()

    def _check_open(self) -> None:
        if self._closed is not None:
            raise Closed(self._closed)

    def _check_fence(self) -> None:
        try:
            now = self._broker.transactions.describe(self._id)
        except UnknownTransaction:
            raise self._fenced() from None
        if (now.producer_id, now.epoch) != self._who:
            raise self._fenced()

    def _fenced(self) -> WriterFenced:
        return WriterFenced(self._topic, self._partition, self._name)

    def _append(self, events: Sequence[Event]) -> list[Position]:
        with self._lock:
            self._check_open()
            if not events:
                return []
            try:
                return self._write(events)
            except (Fenced, UnknownProducer):
                # Who took over has aborted what was open.
                self._is_open = False
                raise self._fenced() from None
            except BaseException:
                with suppress(MainstemError):
                    self._abort()
                raise

    def _write(self, events: Sequence[Event]) -> list[Position]:
        # One that could not be aborted would be committed with this one.
        self._abort()
        parts: list[Published] = []
        for batch in self._batches(events):
            parts.append(self._append_batch(batch))
            self._is_open = True
            self._sequence = (self._sequence + parts[-1].count) & _MAX_SEQUENCE
        ended = self._broker.transactions.end(self._id, self._who, committed=True)
        self._is_open = False
        ended.durable.wait()
        return [position for part in parts for position in part.positions]

    def _append_batch(self, events: Sequence[Event]) -> Published:
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
            answer = self._broker.append_batch(
                self._topic, self._partition, batch, held, joins=True
            )
            if not isinstance(answer, HeldPublish):
                return answer
            held = answer
            self._wait(Wait(held.room, held.until_ms))

    def _abort(self) -> None:
        if self._is_open:
            self._broker.transactions.end(self._id, self._who, committed=False)
            self._is_open = False

    def _batches(self, events: Sequence[Event]) -> Iterator[list[Event]]:
        """Cut events into what fits in a record batch; a larger one is refused when appended."""
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
