"""A transactional producer over a raw connection: one method for each request of the protocol."""

from collections.abc import Sequence
from itertools import count

from tests.heads.kafka.raw_peers import Peer, production

from mainstem.core.event import Event
from mainstem.core.records import build
from mainstem.kafka_protocol.error_codes import Code
from mainstem.kafka_protocol.messages import transactions
from mainstem.kafka_protocol.messages.produce import PRODUCE, ProducedPartition, ProduceResponse

_ids = count()


class TransactionalProducer:
    """Sends what it is told to, in the version it is told to."""

    def __init__(
        self,
        peer: Peer,
        transactional_id: str | None = None,
        *,
        timeout_ms: int = 60_000,
        version: int = 5,
    ) -> None:
        self.peer = peer
        self.transactional_id = transactional_id or f"tx{next(_ids)}"
        self._timeout_ms = timeout_ms
        begun = self.init(version)
        assert begun.error_code == 0
        self.producer_id, self.epoch = begun.producer_id, begun.producer_epoch

    def init(
        self, version: int, producer_id: int = -1, epoch: int = -1
    ) -> transactions.InitProducerIdResponse:
        body = transactions.InitProducerIdRequest(
            self.transactional_id, self._timeout_ms, producer_id, epoch
        )
        return self.peer.ask(
            transactions.INIT_PRODUCER_ID, version, body, transactions.InitProducerIdResponse
        )

    def add(self, version: int = 3, *, topic: str = "t", partitions: Sequence[int] = (0,)) -> Code:
        body = transactions.AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=(transactions.TransactionTopic(topic, tuple(partitions)),),
        )
        answer = self.peer.ask(
            transactions.ADD_PARTITIONS_TO_TXN,
            version,
            body,
            transactions.AddPartitionsToTxnResponse,
        )
        (found,) = answer.results_by_topic_v3_and_below
        return Code(found.results_by_partition[0].partition_error_code)

    def write(
        self,
        version: int,
        sequence: int = 0,
        *,
        topic: str = "t",
        partition: int = 0,
        values: Sequence[bytes] = (b"v",),
    ) -> ProducedPartition:
        """Produce one batch of the transaction."""
        batch = build(
            [Event(value) for value in values],
            now_ms=1,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            base_sequence=sequence,
            transactional=True,
        )
        body = production(topic, bytes(batch), partition)
        answer = self.peer.ask(PRODUCE, version, body, ProduceResponse)
        return answer.responses[0].partition_responses[0]

    def add_group(self, version: int, group: str = "g") -> Code:
        body = transactions.AddOffsetsToTxnRequest(
            self.transactional_id, self.producer_id, self.epoch, group
        )
        answer = self.peer.ask(
            transactions.ADD_OFFSETS_TO_TXN, version, body, transactions.AddOffsetsToTxnResponse
        )
        return Code(answer.error_code)

    def commit_offset(self, version: int, group: str = "g", offset: int = 1) -> Code:
        """Commit an offset of partition 0 of ``t`` as part of the transaction."""
        topics = (transactions.TxnCommitTopic("t", (transactions.TxnCommitPartition(0, offset),)),)
        body = transactions.TxnOffsetCommitRequest(
            self.transactional_id, group, self.producer_id, self.epoch, topics=topics
        )
        answer = self.peer.ask(
            transactions.TXN_OFFSET_COMMIT, version, body, transactions.TxnOffsetCommitResponse
        )
        return Code(answer.topics[0].partitions[0].error_code)

    def end(self, version: int, *, committed: bool = True) -> transactions.EndTxnResponse:
        body = transactions.EndTxnRequest(
            self.transactional_id, self.producer_id, self.epoch, committed
        )
        return self.peer.ask(transactions.END_TXN, version, body, transactions.EndTxnResponse)
