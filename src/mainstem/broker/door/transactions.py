"""Transactions, idempotent producers, and read_committed."""

from collections.abc import Iterable, Mapping
from typing import Protocol

from mainstem.broker.groups.classic.coordinator import Membership, PartitionResults
from mainstem.broker.groups.cursors import Cursor
from mainstem.broker.producers.producers import NewProducer
from mainstem.broker.producers.sequences import ProducerState
from mainstem.broker.topics.catalog import TopicPartition
from mainstem.broker.transactions.epochs import ProducerIdAndEpoch
from mainstem.broker.transactions.read_committed import Committed
from mainstem.broker.transactions.records import TransactionPhase
from mainstem.broker.transactions.transactions import ProducerSession, TransactionDescription
from mainstem.log.port import Durable

__all__ = [
    "Committed",
    "NewProducer",
    "ProducerIdAndEpoch",
    "ProducerSession",
    "ProducerState",
    "Producers",
    "TransactionDescription",
    "TransactionPhase",
    "Transactions",
]


class Producers(Protocol):
    """Idempotent producers: a batch that a producer sends twice is stored only once."""

    def new_id(self) -> NewProducer:
        """Return a producer id that was never used before; takes the lock."""

    def describe(self, topic: str, number: int) -> list[ProducerState]:
        """Return the producers of a partition; takes the lock."""


class Transactions(Protocol):
    """Transactions over events and cursors; a caller answers a producer only after ``durable``."""

    def begin(
        self, transactional_id: str, timeout_ms: int, expected: ProducerIdAndEpoch | None = None
    ) -> ProducerSession:
        """Take over a transactional id: fence its previous producer, and abort its transaction.

        Serves InitProducerId. ``expected``: the id and epoch that the producer has, if it recovers
        from an error instead of starting (KIP-360).
        """

    def add_partitions(
        self,
        transactional_id: str,
        producer: ProducerIdAndEpoch,
        partitions: Iterable[TopicPartition],
    ) -> PartitionResults:
        """Add partitions to a transaction; if one is refused, none is added."""

    def add_group(self, transactional_id: str, producer: ProducerIdAndEpoch, group: str) -> Durable:
        """Add a group to a transaction, which may then commit offsets for it."""

    def commit_cursors(
        self,
        transactional_id: str,
        producer: ProducerIdAndEpoch,
        group: str,
        member: Membership,
        cursors: Mapping[TopicPartition, Cursor],
        *,
        adds_group: bool = False,
    ) -> PartitionResults:
        """Commit a group's offsets together with the transaction.

        ``adds_group``: adds the group to the transaction, if it is not in it yet (KIP-890).
        """

    def end(
        self,
        transactional_id: str,
        producer: ProducerIdAndEpoch,
        *,
        committed: bool,
        bumps_epoch: bool = False,
    ) -> ProducerSession:
        """Commit or abort a transaction; ``bumps_epoch``: increment the epoch, too (KIP-890)."""

    def stable(self, topic: str, partition: int, tail: int | None = None) -> int:
        """Return the last stable offset: read_committed consumers see only what is before it.

        ``tail``: the partition's tail (high watermark), if the caller has just read it.
        """

    def read_committed(self, topic: str, partition: int, offset: int, max_bytes: int) -> Committed:
        """Return batches before the last stable offset, and the aborted transactions in them."""

    def is_pending(self, group: str, topic: str, partition: int) -> bool:
        """Tell whether an ongoing transaction will commit an offset of a group in a partition."""

    def started_at(self, topic: str, partition: int) -> dict[int, int]:
        """Return the first offset of each ongoing transaction in a partition, by producer id."""

    def describe(self, transactional_id: str) -> TransactionDescription:
        """Return the description of a transactional id; raises UnknownTransaction."""

    def every(self) -> list[TransactionDescription]:
        """Return the descriptions of all transactional ids."""
