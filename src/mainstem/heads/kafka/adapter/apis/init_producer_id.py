"""InitProducerId, versions 0 to 6: returns a producer id.

Fences earlier producers with the same transactional id.

Two-phase commit (version 6) is refused.
"""

from mainstem.broker.door import ProducerIdAndEpoch
from mainstem.core.errors import MainstemError
from mainstem.heads.kafka.adapter.durable_replies import reply_when_durable
from mainstem.heads.kafka.adapter.errors import code_in
from mainstem.heads.kafka.adapter.registry import serves
from mainstem.heads.kafka.adapter.service import Asked, Reply
from mainstem.kafka_protocol.error_codes import Code
from mainstem.kafka_protocol.messages import transactions as messages


@serves(messages.INIT_PRODUCER_ID, 0, 6)
def answer(asked: Asked, request: messages.InitProducerIdRequest, reply: Reply) -> None:
    """Return a producer id; with a transactional id, fence the earlier producer of that id."""
    service = asked.service
    if request.enable_2pc or request.keep_prepared_txn:
        # The error that Kafka returns where two-phase commit is not allowed.
        code = (
            Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
            if request.enable_2pc
            else Code.UNSUPPORTED_VERSION
        )
        reply(messages.InitProducerIdResponse(error_code=code, producer_epoch=-1))
        return
    if (request.producer_id < 0) != (request.producer_epoch < 0):
        reply(messages.InitProducerIdResponse(error_code=Code.INVALID_REQUEST, producer_epoch=-1))
        return
    try:
        if request.transactional_id is None:
            fresh = service.broker.producers.new_id()
            producer_id, epoch, durable = fresh.producer_id, 0, fresh.durable
        else:
            was = ProducerIdAndEpoch(request.producer_id, request.producer_epoch)
            producer_id, epoch, durable = service.broker.transactions.begin(
                request.transactional_id,
                request.transaction_timeout_ms,
                was if was.producer_id >= 0 else None,
            )
    except MainstemError as error:
        reply(
            messages.InitProducerIdResponse(
                error_code=code_in(asked.header, error), producer_epoch=-1
            )
        )
        return
    reply_when_durable(
        asked,
        durable.then,
        lambda code: reply(messages.InitProducerIdResponse(0, code, producer_id, epoch)),
    )
