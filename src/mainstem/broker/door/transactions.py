"""Transactions and idempotent producers, and what readers of committed events see."""

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
    """Producers that number their batches, so that one that comes twice is appended once."""

    def new_id(self) -> NewProducer:
        """Return an id that was never given out; takes the lock."""

    def describe(self, topic: str, number: int) -> list[ProducerState]:
        """Return the producers of a partition; takes the lock."""


class Transactions(Protocol):
    """Events and cursors that become visible together, or never; answered once durable."""

    def begin(
        self, transactional_id: str, timeout_ms: int, expected: ProducerIdAndEpoch | None = None
    ) -> ProducerSession:
        """Take over a transactional id: whoever had it is fenced, and its transaction aborted.

        ``expected``: who the producer was, if it only wants to go on after an error.
        """

    def add_partitions(
        self, transactional_id: str, who: ProducerIdAndEpoch, places: Iterable[TopicPartition]
    ) -> PartitionResults:
        """Let a transaction touch partitions; if one is refused, none is added."""

    def add_group(self, transactional_id: str, who: ProducerIdAndEpoch, group: str) -> Durable:
        """Let a transaction move cursors of a group."""

    def commit_cursors(
        self,
        transactional_id: str,
        who: ProducerIdAndEpoch,
        group: str,
        member: Membership,
        cursors: Mapping[TopicPartition, Cursor],
        *,
        joins: bool = False,
    ) -> PartitionResults:
        """Move cursors of a group when the transaction commits, and not if it does not.

        ``joins``: under the newer rules the group need not have been added before.
        """

    def end(
        self,
        transactional_id: str,
        who: ProducerIdAndEpoch,
        *,
        committed: bool,
        bumps: bool = False,
    ) -> ProducerSession:
        """Commit or abort; under the newer rules (``bumps``) the producer gets another epoch."""

    def stable(self, topic: str, partition: int, tail: int | None = None) -> int:
        """Return the first offset that readers of committed events cannot see yet.

        ``tail``: where the partition ended for the others, if the caller has just looked.
        """

    def read_committed(self, topic: str, partition: int, offset: int, max_bytes: int) -> Committed:
        """Return whole record batches before the stable offset, and what is aborted in them."""

    def is_pending(self, group: str, topic: str, partition: int) -> bool:
        """Tell whether an ongoing transaction is going to move a cursor."""

    def started_at(self, topic: str, partition: int) -> dict[int, int]:
        """Return where the ongoing transaction of each producer begins in a partition."""

    def describe(self, transactional_id: str) -> TransactionDescription:
        """Return a transactional id; raises UnknownTransaction."""

    def every(self) -> list[TransactionDescription]:
        """Return every transactional id, described."""
