"""Simulated idempotent producers for tests: they write batches with sequence numbers."""

from tests.broker.brokers import Clock, append, new_broker

from mainstem.broker.broker import Broker
from mainstem.broker.producers.producers import ProducerLimits, Producers
from mainstem.broker.publishing.append import BatchAppends
from mainstem.broker.publishing.idempotent import IdempotentAppends
from mainstem.broker.publishing.outcome import AppendedBatch
from mainstem.broker.transactions.transactions import Transactions
from mainstem.core.event import Event
from mainstem.core.records import build
from mainstem.core.topic_settings import TopicSettings
from mainstem.log.memory import MemoryLog
from mainstem.log.port import Log


class Works:
    """A broker with one topic ``t``, and ways to write to it."""

    def __init__(
        self,
        log: Log | None = None,
        clock: Clock | None = None,
        limits: ProducerLimits | None = None,
        settings: TopicSettings | None = None,
    ) -> None:
        self.clock = clock or Clock()
        self.log = log or MemoryLog()
        self.limits = limits
        self.broker = new_broker(self.log, self.clock)
        if limits is not None:
            limit_producers(self.broker, limits)
        if not self.broker.topics("t"):
            self.broker.create_topic("t", settings or TopicSettings(partitions=2))

    def restarted(self) -> "Works":
        """Return the same works after a crash."""
        return Works(self.log, self.clock, self.limits)

    def write(
        self,
        producer_id: int,
        sequence: int,
        *values: bytes,
        epoch: int = 0,
        partition: int = 0,
        transactional: bool = False,
    ) -> AppendedBatch:
        """Append a batch."""
        batch = build(
            [Event(value) for value in values or (b"x",)],
            now_ms=self.clock(),
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
            transactional=transactional,
        )
        return append(self.broker, "t", partition, batch)

    def offset(self, producer_id: int, sequence: int, epoch: int = 0, partition: int = 0) -> int:
        """Append a batch of one event; return where it stands."""
        return self.write(producer_id, sequence, epoch=epoch, partition=partition).offset


def limit_producers(broker: Broker, limits: ProducerLimits) -> None:
    """Let the broker remember its producers within other limits."""
    broker.producers = Producers(broker._state, limits)
    broker.transactions = Transactions(broker._state, broker.producers, broker.classic)
    idempotent = IdempotentAppends(broker._state, broker.producers, broker.transactions)
    broker._appends = BatchAppends(broker._state, idempotent)
