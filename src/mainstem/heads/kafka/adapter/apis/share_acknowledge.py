"""ShareAcknowledge, versions 1 to 2: settles records of a share group; answered when durable."""

from mainstem.core.errors import MainstemError
from mainstem.heads.kafka.adapter.durable_replies import when_all
from mainstem.heads.kafka.adapter.registry import serves
from mainstem.heads.kafka.adapter.service import Asked, Reply
from mainstem.heads.kafka.adapter.share.share_acknowledgements import (
    acknowledge,
    denied,
    lock_ms_of,
    results_by_topic,
)
from mainstem.heads.kafka.adapter.share.share_sessions import BEGIN, END, ShareSession
from mainstem.kafka_protocol.error_codes import Code
from mainstem.kafka_protocol.messages import share_fetch as messages


@serves(messages.SHARE_ACKNOWLEDGE, 1, 2)
def answer(asked: Asked, request: messages.ShareAcknowledgeRequest, reply: Reply) -> None:
    """Settle the acknowledged records of a share group; answered when durable."""
    refusal = denied(asked, request.group_id)
    if refusal is not None:
        reply(
            messages.ShareAcknowledgeResponse(
                error_code=refusal.code, error_message=refusal.message
            )
        )
        return
    service = asked.service
    who = (request.group_id or "", request.member_id or "")
    epoch = request.share_session_epoch
    session: ShareSession | Code = Code.INVALID_SHARE_SESSION_EPOCH
    count = sum(len(topic.partitions) for topic in request.topics)
    if not all(who) or count > service.settings.max_fetch_partitions:
        session = Code.INVALID_REQUEST
    elif epoch != BEGIN:
        session = service.share_sessions.resume(*who, epoch, asked.waiting)
    if isinstance(session, Code):
        reply(messages.ShareAcknowledgeResponse(error_code=session))
        return
    acked = acknowledge(asked, session, request.topics, renews=request.is_renew_ack)
    lock_ms = lock_ms_of(asked, session)
    if epoch == END:
        service.share_sessions.close(*who)

    def settled(error: MainstemError | None) -> None:
        results = results_by_topic(acked, error)
        body = messages.ShareAcknowledgeResponse(
            acquisition_lock_timeout_ms=lock_ms,
            responses=[
                messages.AcknowledgedTopic(
                    topic_id,
                    [
                        messages.AcknowledgedPartition(number, it.code, it.message)
                        for number, it in numbers.items()
                    ],
                )
                for topic_id, numbers in results.items()
            ],
        )
        service.on_loop(lambda: reply(body))

    when_all((each.durable for each in acked.settled), settled)
