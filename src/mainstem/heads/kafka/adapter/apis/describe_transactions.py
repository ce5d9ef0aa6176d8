"""DescribeTransactions, version 0: transactions by their transactional ids."""

from mainstem.core.errors import MainstemError, UnknownTransaction
from mainstem.heads.kafka.adapter.errors import code_of
from mainstem.heads.kafka.adapter.registry import serves
from mainstem.heads.kafka.adapter.request_limits import limited
from mainstem.heads.kafka.adapter.service import Asked, Reply, Service
from mainstem.kafka_protocol.error_codes import Code
from mainstem.kafka_protocol.messages import producers as messages


@serves(messages.DESCRIBE_TRANSACTIONS, 0, 0)
def answer(asked: Asked, request: messages.DescribeTransactionsRequest, reply: Reply) -> None:
    """Describe transactions by their transactional ids; a repeated id is described once."""
    ids = dict.fromkeys(limited(asked, request.transactional_ids))
    found = tuple(_described(asked.service, each) for each in ids)
    reply(messages.DescribeTransactionsResponse(transaction_states=found))


def _described(service: Service, transactional_id: str) -> messages.DescribedTransaction:
    try:
        found = service.broker.transactions.describe(transactional_id)
    except UnknownTransaction:
        return messages.DescribedTransaction(Code.TRANSACTIONAL_ID_NOT_FOUND, transactional_id)
    except MainstemError as error:
        return messages.DescribedTransaction(code_of(error), transactional_id)
    by_topic: dict[str, list[int]] = {}
    for topic, number in found.partitions:
        by_topic.setdefault(topic, []).append(number)
    return messages.DescribedTransaction(
        Code.NONE,
        transactional_id,
        found.phase,
        found.timeout_ms,
        found.started_ms,
        found.producer_id,
        found.epoch,
        tuple(
            messages.DescribedTransactionTopic(topic, tuple(numbers))
            for topic, numbers in by_topic.items()
        ),
    )
