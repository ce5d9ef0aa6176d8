"""Describing producers and transactions."""

from typing import Annotated

from mainstem.kafka_protocol.api import api
from mainstem.kafka_protocol.fields import Since, Wire
from mainstem.kafka_protocol.messages.partitions import (
    ByName,
    ByTopic,
    ExplainedResult,
    PartitionIndexes,
)
from mainstem.kafka_protocol.messages.responses import Throttled, ThrottledError
from mainstem.kafka_protocol.wire import Array, Int16, Int32, Int64, String

ProducersTopic = PartitionIndexes


class DescribeProducersRequest(Wire, frozen=True):
    """Ask for the idempotent producers of partitions."""

    topics: Array[ProducersTopic] = ()


class ActiveProducer(Wire, frozen=True):
    """A producer and its state in one partition."""

    producer_id: Int64 = 0
    producer_epoch: Int32 = 0
    last_sequence: Int32 = -1
    last_timestamp: Int64 = -1
    coordinator_epoch: Int32 = 0
    current_txn_start_offset: Int64 = -1


class DescribedProducersPartition(ExplainedResult, frozen=True):
    """The producers of one partition."""

    active_producers: Array[ActiveProducer] = ()


DescribedProducersTopic = ByName[DescribedProducersPartition]


class DescribeProducersResponse(Throttled, frozen=True):
    """The producers of the partitions."""

    topics: Array[DescribedProducersTopic] = ()


DESCRIBE_PRODUCERS = api(61, DescribeProducersRequest, DescribeProducersResponse, "0", "0+")


class DescribeTransactionsRequest(Wire, frozen=True):
    """Ask for the state of transactions by their transactional ids."""

    transactional_ids: Array[String] = ()


DescribedTransactionTopic = ByTopic[Int32]


class DescribedTransaction(Wire, frozen=True):
    """A transaction, its state and its partitions."""

    error_code: Int16 = 0
    transactional_id: String = ""
    transaction_state: String = ""
    transaction_timeout_ms: Int32 = 0
    transaction_start_time_ms: Int64 = 0
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    topics: Array[DescribedTransactionTopic] = ()


class DescribeTransactionsResponse(Throttled, frozen=True):
    """The state of the requested transactions."""

    transaction_states: Array[DescribedTransaction] = ()


DESCRIBE_TRANSACTIONS = api(
    65, DescribeTransactionsRequest, DescribeTransactionsResponse, "0", "0+"
)


class ListTransactionsRequest(Wire, frozen=True):
    """Ask for all transactions, optionally only of some states, producers, ages or names."""

    state_filters: Array[String] = ()
    producer_id_filters: Array[Int64] = ()
    duration_filter: Annotated[Int64, Since(1)] = -1
    transactional_id_pattern: Annotated[String | None, Since(2)] = None


class ListedTransaction(Wire, frozen=True):
    """A transaction, with its transactional id, producer id and state."""

    transactional_id: String = ""
    producer_id: Int64 = 0
    transaction_state: String = ""


class ListTransactionsResponse(ThrottledError, frozen=True):
    """The transactions that the request selects."""

    unknown_state_filters: Array[String] = ()
    transaction_states: Array[ListedTransaction] = ()


LIST_TRANSACTIONS = api(66, ListTransactionsRequest, ListTransactionsResponse, "0-2", "0+")
