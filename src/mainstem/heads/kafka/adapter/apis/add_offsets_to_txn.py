"""AddOffsetsToTxn, versions 0 to 4: adds a group's offsets to a transaction."""

from mainstem.broker.door import ProducerIdAndEpoch
from mainstem.core.errors import MainstemError
from mainstem.heads.kafka.adapter.durable_replies import reply_when_durable
from mainstem.heads.kafka.adapter.errors import code_in
from mainstem.heads.kafka.adapter.registry import serves
from mainstem.heads.kafka.adapter.service import Asked, Reply
from mainstem.kafka_protocol.messages import transactions as messages


@serves(messages.ADD_OFFSETS_TO_TXN, 0, 4)
def answer(asked: Asked, request: messages.AddOffsetsToTxnRequest, reply: Reply) -> None:
    """Add a consumer group to a transaction, so that its offsets can be committed with it."""
    who = ProducerIdAndEpoch(request.producer_id, request.producer_epoch)
    try:
        durable = asked.service.broker.transactions.add_group(
            request.transactional_id, who, request.group_id
        )
    except MainstemError as error:
        reply(messages.AddOffsetsToTxnResponse(error_code=code_in(asked.header, error)))
        return
    reply_when_durable(
        asked,
        durable.then,
        lambda code: reply(messages.AddOffsetsToTxnResponse(error_code=code)),
    )
