"""DescribeProducers, DescribeTransactions, ListTransactions: who writes, and what is not ended."""

from collections.abc import Iterable

from mainstem.broker.door import BUDGET, TopicRegex, TransactionDescription, TransactionPhase
from mainstem.core.errors import InvalidExpression, MainstemError, UnknownTransaction
from mainstem.heads.kafka.adapter.errors import code_of
from mainstem.heads.kafka.adapter.names import limited
from mainstem.heads.kafka.adapter.service import Asked, Reply, Service
from mainstem.kafka_protocol.error_codes import Code
from mainstem.kafka_protocol.messages.producers import (
    ActiveProducer,
    DescribedProducersPartition,
    DescribedProducersTopic,
    DescribedTransaction,
    DescribedTransactionTopic,
    DescribeProducersRequest,
    DescribeProducersResponse,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    ListedTransaction,
    ListTransactionsRequest,
    ListTransactionsResponse,
)

PRODUCERS_FIRST, PRODUCERS_LAST = 0, 0
DESCRIBE_FIRST, DESCRIBE_LAST = 0, 0
LIST_FIRST, LIST_LAST = 0, 2

_STATES = {*TransactionPhase, "PrepareCommit", "PrepareAbort", "PrepareEpochFence", "Dead"}
"""All that the protocol has; a transaction ends in one step here, so it is never about to."""
_NONE = -1


def describe_producers(asked: Asked, request: DescribeProducersRequest, reply: Reply) -> None:
    """Tell who writes to partitions, each once, and where their transactions begin there."""
    places: dict[str, dict[int, None]] = {}
    for topic in request.topics:
        places.setdefault(topic.name, {}).update(dict.fromkeys(topic.partition_indexes))
    topics = tuple(
        DescribedProducersTopic(
            name, tuple(_partition(asked.service, name, number) for number in numbers)
        )
        for name, numbers in places.items()
    )
    reply(DescribeProducersResponse(topics=topics))


def _partition(service: Service, topic: str, number: int) -> DescribedProducersPartition:
    try:
        producers = service.broker.producers.describe(topic, number)
        started = service.broker.transactions.started_at(topic, number)
    except MainstemError as error:
        return DescribedProducersPartition(number, code_of(error), str(error))
    now_ms = service.now_ms()
    active = tuple(
        ActiveProducer(
            each.producer_id,
            each.epoch,
            each.last_sequence,
            now_ms - each.silent_ms,
            _NONE,
            started.get(each.producer_id, _NONE),
        )
        for each in producers
    )
    return DescribedProducersPartition(number, active_producers=active)


def describe(asked: Asked, request: DescribeTransactionsRequest, reply: Reply) -> None:
    """Describe transactions by their ids, each once."""
    ids = dict.fromkeys(limited(asked, request.transactional_ids))
    found = tuple(_described(asked.service, each) for each in ids)
    reply(DescribeTransactionsResponse(transaction_states=found))


def _described(service: Service, transactional_id: str) -> DescribedTransaction:
    try:
        found = service.broker.transactions.describe(transactional_id)
    except UnknownTransaction:
        return DescribedTransaction(Code.TRANSACTIONAL_ID_NOT_FOUND, transactional_id)
    except MainstemError as error:
        return DescribedTransaction(code_of(error), transactional_id)
    by_topic: dict[str, list[int]] = {}
    for topic, number in found.partitions:
        by_topic.setdefault(topic, []).append(number)
    return DescribedTransaction(
        Code.NONE,
        transactional_id,
        found.phase,
        found.timeout_ms,
        found.started_ms,
        found.producer_id,
        found.epoch,
        tuple(
            DescribedTransactionTopic(topic, tuple(numbers)) for topic, numbers in by_topic.items()
        ),
    )


def list_all(asked: Asked, request: ListTransactionsRequest, reply: Reply) -> None:
    """List transactional ids, or those of some states, producers, ages or names only."""
    every: Iterable[TransactionDescription] = asked.service.broker.transactions.every()
    if request.transactional_id_pattern:
        try:
            every = _named(every, request.transactional_id_pattern)
        except InvalidExpression as error:
            reply(ListTransactionsResponse(error_code=code_of(error)))
            return
    found = tuple(
        ListedTransaction(each.id, each.producer_id, each.phase)
        for each in _wanted(every, request, asked.service.now_ms())
    )
    unknown = tuple(each for each in request.state_filters if each not in _STATES)
    reply(ListTransactionsResponse(unknown_state_filters=unknown, transaction_states=found))


def _named(every: Iterable[TransactionDescription], pattern: str) -> list[TransactionDescription]:
    """Return the transactions whose ids match a regular expression as a whole."""
    by_id = {each.id: each for each in every}
    return [by_id[each] for each in TopicRegex(pattern).among(by_id, BUDGET)]


def _wanted(
    every: Iterable[TransactionDescription], request: ListTransactionsRequest, now_ms: int
) -> Iterable[TransactionDescription]:
    states, producers = set(request.state_filters), set(request.producer_id_filters)
    for each in every:
        is_old_enough = request.duration_filter < 0 or (
            each.started_ms >= 0 and now_ms - each.started_ms > request.duration_filter
        )
        if (
            is_old_enough
            and (not states or each.phase in states)
            and (not producers or each.producer_id in producers)
        ):
            yield each
