"""AddPartitionsToTxn, versions 0 to 3: adds partitions to a transaction.

Later versions are for requests between brokers. Newer clients do not send this: their Produce 12
and TxnOffsetCommit 5 add partitions and groups implicitly [KIP-890].
"""

from collections.abc import Iterable

from mainstem.broker.door import ProducerIdAndEpoch, TopicPartition
from mainstem.core.errors import MainstemError
from mainstem.heads.kafka.adapter.durable_replies import reply_when_durable
from mainstem.heads.kafka.adapter.errors import code_in
from mainstem.heads.kafka.adapter.registry import serves
from mainstem.heads.kafka.adapter.service import Asked, Reply
from mainstem.kafka_protocol.error_codes import Code
from mainstem.kafka_protocol.messages import transactions as messages


@serves(messages.ADD_PARTITIONS_TO_TXN, 0, 3)
def answer(asked: Asked, request: messages.AddPartitionsToTxnRequest, reply: Reply) -> None:
    """Add partitions to a producer's transaction."""
    topics = request.v3_and_below_topics
    who = ProducerIdAndEpoch(request.v3_and_below_producer_id, request.v3_and_below_producer_epoch)
    places = [(topic.name, number) for topic in topics for number in topic.partitions]
    try:
        moved = asked.service.broker.transactions.add_partitions(
            request.v3_and_below_transactional_id, who, places
        )
    except MainstemError as error:
        reply(_added(topics, {}, code_in(asked.header, error)))
        return
    refused = {place: code_in(asked.header, error) for place, error in moved.refused.items()}
    # If some partitions are refused, the others get "none of the partitions is added".
    left = Code.OPERATION_NOT_ATTEMPTED if refused else Code.NONE
    reply_when_durable(
        asked,
        moved.durable.then,
        lambda code: reply(_added(topics, refused, code or left)),
    )


def _added(
    topics: Iterable[messages.TransactionTopic], refused: dict[TopicPartition, Code], code: Code
) -> messages.AddPartitionsToTxnResponse:
    return messages.AddPartitionsToTxnResponse(
        results_by_topic_v3_and_below=tuple(
            messages.AddedTopic(
                topic.name,
                tuple(
                    messages.AddedPartition(number, refused.get((topic.name, number), code))
                    for number in topic.partitions
                ),
            )
            for topic in topics
        )
    )
