"""Transactions of producers."""

from typing import Annotated

from mainstem.kafka_protocol.api import api
from mainstem.kafka_protocol.fields import IGNORABLE, Since, Until, Wire
from mainstem.kafka_protocol.messages.partitions import ByName, PartitionResult
from mainstem.kafka_protocol.messages.responses import Throttled, ThrottledError
from mainstem.kafka_protocol.wire import Array, Bool, Int16, Int32, Int64, String


class InitProducerIdRequest(Wire, frozen=True):
    """Ask for a producer id; fences the previous producer with the same transactional id."""

    transactional_id: String | None = ""
    transaction_timeout_ms: Int32 = 0
    producer_id: Annotated[Int64, Since(3)] = -1
    producer_epoch: Annotated[Int16, Since(3)] = -1
    enable_2pc: Annotated[Bool, Since(6)] = False
    keep_prepared_txn: Annotated[Bool, Since(6)] = False


class InitProducerIdResponse(ThrottledError, frozen=True):
    """The producer id, and its epoch."""

    producer_id: Int64 = -1
    producer_epoch: Int16 = 0
    ongoing_txn_producer_id: Annotated[Int64, Since(6), IGNORABLE] = -1
    ongoing_txn_producer_epoch: Annotated[Int16, Since(6), IGNORABLE] = -1


INIT_PRODUCER_ID = api(22, InitProducerIdRequest, InitProducerIdResponse, "0-6", "2+")


TransactionTopic = ByName[Int32]


class OwnTransaction(Wire, frozen=True):
    """The transactional id, producer id and epoch that a request is about."""

    transactional_id: String = ""
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0


class TransactionPartitions(OwnTransaction, frozen=True):
    """A transaction, and the partitions to add to it."""

    verify_only: Bool = False
    topics: Array[TransactionTopic] = ()


class AddPartitionsToTxnRequest(Wire, frozen=True):
    """Add partitions to a transaction; to several transactions since version 4."""

    transactions: Annotated[Array[TransactionPartitions], Since(4)] = ()
    v3_and_below_transactional_id: Annotated[String, Until(3)] = ""
    v3_and_below_producer_id: Annotated[Int64, Until(3)] = 0
    v3_and_below_producer_epoch: Annotated[Int16, Until(3)] = 0
    v3_and_below_topics: Annotated[Array[TransactionTopic], Until(3)] = ()


class AddedPartition(Wire, frozen=True):
    """For one partition, whether it was added to the transaction."""

    partition_index: Int32 = 0
    partition_error_code: Int16 = 0


class AddedTopic(Wire, frozen=True):
    """For the partitions of one topic, whether they were added to the transaction."""

    name: String = ""
    results_by_partition: Array[AddedPartition] = ()


class AddedPartitions(Wire, frozen=True):
    """For the partitions of one transaction, whether they were added."""

    transactional_id: String = ""
    topic_results: Array[AddedTopic] = ()


class AddPartitionsToTxnResponse(Throttled, frozen=True):
    """For each partition, whether it was added to its transaction."""

    error_code: Annotated[Int16, Since(4), IGNORABLE] = 0
    results_by_transaction: Annotated[Array[AddedPartitions], Since(4)] = ()
    results_by_topic_v3_and_below: Annotated[Array[AddedTopic], Until(3)] = ()


ADD_PARTITIONS_TO_TXN = api(24, AddPartitionsToTxnRequest, AddPartitionsToTxnResponse, "0-5", "3+")


class AddOffsetsToTxnRequest(OwnTransaction, frozen=True):
    """Add a group to a transaction, so that the transaction can commit the group's offsets."""

    group_id: String = ""


class AddOffsetsToTxnResponse(ThrottledError, frozen=True):
    """The error code: whether the group was added."""


ADD_OFFSETS_TO_TXN = api(25, AddOffsetsToTxnRequest, AddOffsetsToTxnResponse, "0-4", "3+")


class EndTxnRequest(OwnTransaction, frozen=True):
    """Commit a transaction, or abort it."""

    committed: Bool = False


class EndTxnResponse(ThrottledError, frozen=True):
    """The error code; since version 5 also the producer's id and epoch for the next transaction."""

    producer_id: Annotated[Int64, Since(5), IGNORABLE] = -1
    producer_epoch: Annotated[Int16, Since(5), IGNORABLE] = -1


END_TXN = api(26, EndTxnRequest, EndTxnResponse, "0-5", "3+")


class TxnCommitPartition(Wire, frozen=True):
    """A partition, and the offset to commit in it."""

    partition_index: Int32 = 0
    committed_offset: Int64 = 0
    committed_leader_epoch: Annotated[Int32, Since(2), IGNORABLE] = -1
    committed_metadata: String | None = ""


TxnCommitTopic = ByName[TxnCommitPartition]


class TxnOffsetCommitRequest(Wire, frozen=True):
    """Commit offsets of a group, if and when the transaction commits."""

    transactional_id: String = ""
    group_id: String = ""
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    generation_id: Annotated[Int32, Since(3)] = -1
    member_id: Annotated[String, Since(3)] = ""
    group_instance_id: Annotated[String | None, Since(3)] = None
    topics: Array[TxnCommitTopic] = ()


TxnCommittedPartition = PartitionResult
TxnCommittedTopic = ByName[TxnCommittedPartition]


class TxnOffsetCommitResponse(Throttled, frozen=True):
    """For each partition, whether the offset was accepted."""

    topics: Array[TxnCommittedTopic] = ()


TXN_OFFSET_COMMIT = api(28, TxnOffsetCommitRequest, TxnOffsetCommitResponse, "0-5", "3+")
