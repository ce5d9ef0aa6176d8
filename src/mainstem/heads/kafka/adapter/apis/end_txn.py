"""EndTxn, versions 0 to 5: commit or abort.

Since version 5 each end bumps the producer's epoch [KIP-890].
"""

from mainstem.broker.door import ProducerIdAndEpoch
from mainstem.core.errors import MainstemError
from mainstem.heads.kafka.adapter.durable_replies import reply_when_durable
from mainstem.heads.kafka.adapter.errors import code_in
from mainstem.heads.kafka.adapter.registry import serves
from mainstem.heads.kafka.adapter.service import Asked, Reply
from mainstem.kafka_protocol.messages import transactions as messages

_BUMPS_EPOCH = 5
"""First version of EndTxn that bumps the producer's epoch."""


@serves(messages.END_TXN, 0, 5)
def answer(asked: Asked, request: messages.EndTxnRequest, reply: Reply) -> None:
    """Commit or abort a transaction."""
    who = ProducerIdAndEpoch(request.producer_id, request.producer_epoch)
    bumps_epoch = asked.header.api_version >= _BUMPS_EPOCH
    try:
        ended = asked.service.broker.transactions.end(
            request.transactional_id, who, committed=request.committed, bumps_epoch=bumps_epoch
        )
    except MainstemError as error:
        reply(messages.EndTxnResponse(error_code=code_in(asked.header, error)))
        return
    producer_id, epoch, durable = ended
    reply_when_durable(
        asked,
        durable.then,
        lambda code: reply(messages.EndTxnResponse(0, code, producer_id, epoch)),
    )
