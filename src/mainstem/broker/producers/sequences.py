"""What idempotent producers have written to one partition: a fold over its batch headers.

How this works: every batch of such a producer carries its id, its epoch and the sequence number of
its first event. Of each producer the last five batches are remembered, as a producer has at most
five under way. One that comes again is recognised and not appended again. One that does not follow
the last is refused, because a batch before it is missing. Numbers begin at 0 with each epoch, and
again after 2^31 - 1. A producer that is not known here, because it is new or has been silent for
long, may begin with any number, as in Kafka since 2.5: what it wrote before may be gone.

The same ``apply`` runs live and over the headers in the log, so replay gives what live gave.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgspec

from mainstem.core.batch import BatchHeader
from mainstem.core.errors import InvalidProducerEpoch, OutOfOrderSequence
from mainstem.log.durable import AT_ONCE
from mainstem.log.port import Durable

REMEMBERED = 5
_MASK = 2**31 - 1


class Span(NamedTuple):
    """A batch that was appended: its sequence numbers, and where its first event stands."""

    first: int
    last: int
    offset: int


class ProducerRecord(msgspec.Struct, frozen=True, array_like=True):
    """A producer as it is written down."""

    producer_id: int
    epoch: int
    spans: tuple[Span, ...]


class _Producer:
    __slots__ = ("durable", "epoch", "heard_ms", "spans")

    def __init__(self, epoch: int, spans: tuple[Span, ...], heard_ms: int) -> None:
        self.epoch = epoch
        self.spans = spans
        """The latest batches of this epoch, the last one last."""
        self.heard_ms = heard_ms
        self.durable: Durable = AT_ONCE
        """When the last of them is durable."""


class ProducerState(msgspec.Struct, frozen=True):
    """A producer in a partition, as an administrator sees it."""

    producer_id: int
    epoch: int
    last_sequence: int
    """-1 if it has written nothing in this epoch."""
    silent_ms: int


def follows(header: BatchHeader, before: BatchHeader) -> bool:
    """Tell whether a batch is its producer's next one: what holds for the one before, holds."""
    return (
        header.base_sequence == (before.base_sequence + before.last_offset_delta + 1) & _MASK
        and header.producer_id == before.producer_id
        and header.producer_epoch == before.producer_epoch
        and header.is_transactional == before.is_transactional
    )


class Sequences:
    """The producers of one partition, those silent for longest first."""

    def __init__(self, place: str, records: Iterable[ProducerRecord] = (), now_ms: int = 0) -> None:
        self._place = place
        """How messages name the partition."""
        self._producers: dict[int, _Producer] = {
            record.producer_id: _Producer(record.epoch, record.spans, now_ms) for record in records
        }

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequences):
            return NotImplemented
        return sorted(self.records()) == sorted(other.records())

    __hash__ = None  # type: ignore[assignment]

    def __len__(self) -> int:
        return len(self._producers)

    def records(self) -> Iterator[tuple[int, int, tuple[Span, ...]]]:
        """Return id, epoch and latest batches of every producer."""
        for producer_id, producer in self._producers.items():
            yield producer_id, producer.epoch, producer.spans

    def states(self, now_ms: int) -> list[ProducerState]:
        """Return every producer as an administrator sees it."""
        return [
            ProducerState(
                producer_id,
                producer.epoch,
                producer.spans[-1].last if producer.spans else -1,
                max(0, now_ms - producer.heard_ms),
            )
            for producer_id, producer in self._producers.items()
        ]

    def decide(self, header: BatchHeader) -> tuple[int, Durable] | None:
        """Accept a batch (None), or tell where it stands already, and when that is durable.

        Raises InvalidProducerEpoch, OutOfOrderSequence.
        """
        producer = self._producers.get(header.producer_id)
        if producer is None:
            return None
        epoch, first = header.producer_epoch, header.base_sequence
        if epoch < producer.epoch:
            raise InvalidProducerEpoch(header.producer_id, epoch, producer.epoch)
        spans = producer.spans if epoch == producer.epoch else ()
        expected = (spans[-1][1] + 1) & _MASK if spans else 0
        if first == expected:
            return None
        last = (first + header.last_offset_delta) & _MASK
        for span in spans:
            if span.first == first and span.last == last:
                return span.offset, producer.durable
        raise OutOfOrderSequence(header.producer_id, self._place, first, expected)

    def apply(
        self, header: BatchHeader, offset: int, now_ms: int, durable: Durable = AT_ONCE
    ) -> bool:
        """Take note of a batch in the log, live and on replay; the only place that changes this.

        Tells whether its producer was not known before.
        """
        producer = self._producers.pop(header.producer_id, None)
        if header.is_control:
            # Whoever has written nothing here has nothing that could be repeated.
            if producer is not None:
                if header.producer_epoch > producer.epoch:
                    producer.epoch, producer.spans = header.producer_epoch, ()
                self._producers[header.producer_id] = producer
            return False
        is_new = producer is None
        if producer is None or header.producer_epoch > producer.epoch:
            producer = _Producer(header.producer_epoch, (), now_ms)
        first = header.base_sequence
        span = Span(first, (first + header.last_offset_delta) & _MASK, offset)
        producer.spans = (*producer.spans[1 - REMEMBERED :], span)
        producer.heard_ms = now_ms
        producer.durable = durable
        self._producers[header.producer_id] = producer
        return is_new

    def silent_since(self, before_ms: int) -> list[int]:
        """Return the producers that have written nothing since a time."""
        return [
            producer_id
            for producer_id, producer in self._producers.items()
            if producer.heard_ms <= before_ms
        ]

    def longest_silent(self, count: int) -> list[int]:
        """Return so many producers, those that have been silent for longest."""
        return list(self._producers)[:count]

    def forget(self, producer_ids: Iterable[int]) -> None:
        """Forget producers."""
        for producer_id in producer_ids:
            del self._producers[producer_id]
