"""A transactional producer that says what it is told to, in few words.

Apache Kafka ends transactions a moment after it has said so, and asks clients to come again until
then: that is done here, so that scenarios see what a client sees in the end.
"""

import time
from collections.abc import Callable, Sequence
from typing import TypeVar

from tests.heads.kafka.parity.compared_server import Said, Side, Topic, until, word

from mainstem.core.event import Event
from mainstem.core.records import build
from mainstem.kafka_protocol.error_codes import Code
from mainstem.kafka_protocol.messages.produce import (
    PRODUCE,
    ProducePartition,
    ProduceRequest,
    ProduceResponse,
    ProduceTopic,
)
from mainstem.kafka_protocol.messages.producers import (
    DESCRIBE_PRODUCERS,
    DESCRIBE_TRANSACTIONS,
    DescribedTransaction,
    DescribeProducersRequest,
    DescribeProducersResponse,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    ProducersTopic,
)
from mainstem.kafka_protocol.messages.transactions import (
    ADD_OFFSETS_TO_TXN,
    ADD_PARTITIONS_TO_TXN,
    END_TXN,
    INIT_PRODUCER_ID,
    TXN_OFFSET_COMMIT,
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    EndTxnRequest,
    EndTxnResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
    TransactionTopic,
    TxnCommitPartition,
    TxnCommitTopic,
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
)

OLDER, NEWER = 4, 5
"""Versions of EndTxn and TxnOffsetCommit: before and since KIP-890."""
OLDER_PRODUCE, NEWER_PRODUCE = 11, 12
_CONCURRENT_TRANSACTIONS = 51
_COME_AGAIN = (
    Code.COORDINATOR_LOAD_IN_PROGRESS,
    Code.COORDINATOR_NOT_AVAILABLE,
    16,
    _CONCURRENT_TRANSACTIONS,
)
Place = tuple[str, int]
T = TypeVar("T")


class Producer:
    """Who it is, and what it asks for; ``init`` makes it somebody."""

    def __init__(self, side: Side, name: str, producer_id: int = -1, epoch: int = -1) -> None:
        self.side = side
        self.name = f"{name}-{side.one.name}"
        self.id = producer_id
        self.epoch = epoch
        self._sequences: dict[tuple[int, str], int] = {}

    def as_if(self, *, ids: int = 0, epochs: int = 0) -> "Producer":
        """Return one of the same name, whose id and epoch are others by so much."""
        found = Producer(self.side, "", self.id + ids, self.epoch + epochs)
        found.name = self.name
        return found

    def init(
        self,
        timeout_ms: int = 60_000,
        *,
        goes_on: bool = False,
        version: int = 5,
    ) -> tuple[Said, ...]:
        """Begin, or go on as who it is; return the code, the epoch, and whether the id is kept."""
        was = (self.id, self.epoch) if goes_on else (-1, -1)
        body = InitProducerIdRequest(self.name, timeout_ms, *was)

        def ask() -> tuple[int, InitProducerIdResponse]:
            found = self.side.ask(INIT_PRODUCER_ID, body, InitProducerIdResponse, version=version)
            return found.error_code, found

        answer = settled(ask)
        is_kept = answer.producer_id == self.id
        if not answer.error_code:
            self.id, self.epoch = answer.producer_id, answer.producer_epoch
            self._sequences.clear()
        return word(answer.error_code), answer.producer_epoch, is_kept

    def add(self, *places: Place, version: int = 3) -> Said:
        """Add partitions to the transaction."""
        topics = [TransactionTopic(name, (number,)) for name, number in places]
        body = AddPartitionsToTxnRequest((), self.name, self.id, self.epoch, topics)

        def ask() -> tuple[int, list[tuple[Place, int]]]:
            answer = self.side.ask(
                ADD_PARTITIONS_TO_TXN, body, AddPartitionsToTxnResponse, version=version
            )
            found = [
                ((topic.name, it.partition_index), it.partition_error_code)
                for topic in answer.results_by_topic_v3_and_below
                for it in topic.results_by_partition
            ]
            return next((code for _, code in found if code in _COME_AGAIN), 0), found

        return [(place, word(code)) for place, code in sorted(settled(ask))]

    def add_group(self, group: str, version: int = 4) -> str:
        """Add a group to the transaction."""
        body = AddOffsetsToTxnRequest(self.name, self.id, self.epoch, group)

        def ask() -> tuple[int, int]:
            code = self.side.ask(
                ADD_OFFSETS_TO_TXN, body, AddOffsetsToTxnResponse, version=version
            ).error_code
            return code, code

        return word(settled(ask))

    def commit(
        self,
        group: str,
        offset: int = 1,
        member: str = "",
        generation: int = -1,
        *,
        instance: str | None = None,
        place: Place | None = None,
        metadata: str = "",
        version: int = OLDER,
    ) -> str:
        """Commit in a partition, the only one of a topic if no other."""
        topic, number = place or (self.side.one.name, 0)
        topics = [TxnCommitTopic(topic, [TxnCommitPartition(number, offset, -1, metadata)])]
        body = TxnOffsetCommitRequest(
            self.name, group, self.id, self.epoch, generation, member, instance, topics
        )

        def ask() -> tuple[int, int]:
            answer = self.side.ask(
                TXN_OFFSET_COMMIT, body, TxnOffsetCommitResponse, version=version
            )
            code = answer.topics[0].partitions[0].error_code
            return code, code

        return word(settled(ask))

    def end(self, *, committed: bool = True, version: int = OLDER, again: bool = False) -> Said:
        """End the transaction; return the code, and by how much the epoch is another.

        ``again``: as if the answer were lost, the producer stays who it was.
        """
        body = EndTxnRequest(self.name, self.id, self.epoch, committed)

        def ask() -> tuple[int, EndTxnResponse]:
            answer = self.side.ask(END_TXN, body, EndTxnResponse, version=version)
            return answer.error_code, answer

        answer = settled(ask)
        if answer.error_code or version < NEWER:
            return word(answer.error_code), answer.producer_epoch
        by = answer.producer_epoch - self.epoch
        if not again:
            self.epoch = answer.producer_epoch
            self._sequences.clear()
        return word(answer.error_code), by

    def produce(
        self,
        topic: Topic,
        partition: int = 0,
        *,
        version: int = OLDER_PRODUCE,
        transactional: bool = True,
        named: bool = True,
        sequence: int | None = None,
    ) -> str:
        """Produce one event."""
        place = (partition, topic.name)
        at = self._sequences.get(place, 0) if sequence is None else sequence
        batch = build(
            [Event(b"x")],
            now_ms=time.time_ns() // 1_000_000,
            producer_id=self.id,
            producer_epoch=self.epoch,
            base_sequence=at,
            transactional=transactional,
        )
        data = ProducePartition(partition, memoryview(bytes(batch)))
        topics = (ProduceTopic(topic.id, topic.name, (data,)),)
        body = ProduceRequest(self.name if named else None, -1, 10_000, topics)

        def ask() -> tuple[int, int]:
            answer = self.side.ask(PRODUCE, body, ProduceResponse, version=version)
            code = answer.responses[0].partition_responses[0].error_code
            return code, code

        code = settled(ask)
        if not code:
            self._sequences[place] = at + 1
        return word(code)

    def described(self) -> tuple[Said, ...]:
        """Return the transaction as an administrator sees it, once it is not about to end."""
        found = self._described()
        is_open = found.transaction_state in ("Empty", "Ongoing")
        return (
            word(found.error_code),
            found.transaction_state,
            found.transaction_timeout_ms,
            is_open and found.transaction_start_time_ms > 0,
            found.producer_id == self.id,
            found.producer_epoch - self.epoch,
            sorted((each.topic, sorted(each.partitions)) for each in found.topics),
        )

    def began(self) -> bool:
        """Tell whether it is said when the transaction began, once it is not about to end."""
        return self._described().transaction_start_time_ms > 0

    def _described(self) -> DescribedTransaction:
        body = DescribeTransactionsRequest([self.name])

        def ask() -> tuple[int, DescribedTransaction]:
            answer = self.side.ask(DESCRIBE_TRANSACTIONS, body, DescribeTransactionsResponse)
            (found,) = answer.transaction_states
            is_ending = found.transaction_state.startswith("Prepare")
            return _CONCURRENT_TRANSACTIONS if is_ending else found.error_code, found

        return settled(ask)


def producers(side: Side, places: Sequence[Place], who: Sequence[Producer] = ()) -> Said:
    """Return what is told of some producers: epoch, sequence, and whether they are at it."""
    body = DescribeProducersRequest([ProducersTopic(name, (number,)) for name, number in places])
    answer = side.ask(DESCRIBE_PRODUCERS, body, DescribeProducersResponse)
    ids = [each.id for each in who]
    return [
        (
            topic.name,
            it.partition_index,
            word(it.error_code),
            sorted(
                (
                    ids.index(each.producer_id),
                    each.producer_epoch,
                    each.last_sequence,
                    each.last_timestamp > 0,
                    each.current_txn_start_offset >= 0,
                )
                for each in it.active_producers
                if each.producer_id in ids
            ),
        )
        for topic in answer.topics
        for it in topic.partitions
    ]


def settled(ask: Callable[[], tuple[int, T]]) -> T:
    """Ask until the answer is not to come again."""
    found: list[T] = []

    def is_settled() -> bool:
        code, answer = ask()
        found[:] = [answer]
        return code not in _COME_AGAIN

    until(is_settled)
    return found[0]
