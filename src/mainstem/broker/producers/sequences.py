"""Sequence numbers of idempotent producers in one partition: derived from its batch headers.

How this works: every batch of an idempotent producer carries its producer id, epoch and first
sequence number. The last five batches of each producer are remembered, as it has at most five in
flight. A repeated batch is recognised and not appended again. A gap is refused, because a batch is
missing. Sequence numbers start at 0 in each epoch, and wrap after 2^31 - 1. An unknown producer
(new, or expired) may start with any number, as in Kafka since 2.5: its earlier batches may be gone.

The same ``apply`` runs live and over the headers in the log, so replay gives the same state.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgspec

from mainstem.core.batch import BatchHeader
from mainstem.core.errors import InvalidProducerEpoch, OutOfOrderSequence
from mainstem.log.commit.durable import AT_ONCE
from mainstem.log.port import Durable

REMEMBERED = 5
_MASK = 2**31 - 1


class Span(NamedTuple):
    """An appended batch: its sequence numbers and base offset."""

    first: int
    last: int
    offset: int


class ProducerRecord(msgspec.Struct, frozen=True, array_like=True):
    """A producer as a snapshot stores it."""

    producer_id: int
    epoch: int
    spans: tuple[Span, ...]


class _Producer:
    __slots__ = ("durable", "epoch", "heard_ms", "spans")

    def __init__(self, epoch: int, spans: tuple[Span, ...], heard_ms: int) -> None:
        self.epoch = epoch
        self.spans = spans
        """The latest batches of this epoch, in order."""
        self.heard_ms = heard_ms
        self.durable: Durable = AT_ONCE
        """Tells when the last of the producer's batches is durable."""


class ProducerState(msgspec.Struct, frozen=True):
    """The description of a producer in a partition, for administrators."""

    producer_id: int
    epoch: int
    last_sequence: int
    """-1 if it has written nothing in this epoch."""
    silent_ms: int


def follows(header: BatchHeader, before: BatchHeader) -> bool:
    """Tell whether a batch is the direct successor of an accepted one, and so needs no check."""
    return (
        header.base_sequence == (before.base_sequence + before.last_offset_delta + 1) & _MASK
        and header.producer_id == before.producer_id
        and header.producer_epoch == before.producer_epoch
        and header.is_transactional == before.is_transactional
    )


class Sequences:
    """The producers of one partition, the longest inactive first."""

    def __init__(self, place: str, records: Iterable[ProducerRecord] = (), now_ms: int = 0) -> None:
        self._place = place
        """The partition's name in error messages."""
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
        """Return the id, epoch and latest batches of every producer."""
        for producer_id, producer in self._producers.items():
            yield producer_id, producer.epoch, producer.spans

    def states(self, now_ms: int) -> list[ProducerState]:
        """Return the description of every producer."""
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
        """Return None for a new batch, for a duplicate its stored offset and that append's Durable.

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
        """Apply one batch, just appended or replayed from the log; nothing else adds to this state.

        Returns whether the producer of the batch was unknown in this partition.
        """
        producer = self._producers.pop(header.producer_id, None)
        if header.is_control:
            # A producer without batches here has nothing that could be repeated.
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
        """Return the ids of producers that were last active before a time."""
        return [
            producer_id
            for producer_id, producer in self._producers.items()
            if producer.heard_ms <= before_ms
        ]

    def longest_silent(self, count: int) -> list[int]:
        """Return the ids of the ``count`` producers that have been inactive for longest."""
        return list(self._producers)[:count]

    def forget(self, producer_ids: Iterable[int]) -> None:
        """Remove these producers."""
        for producer_id in producer_ids:
            del self._producers[producer_id]
