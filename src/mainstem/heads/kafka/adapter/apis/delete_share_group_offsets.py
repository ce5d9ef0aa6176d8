"""DeleteShareGroupOffsets, version 0: deletes the offsets of a share group in some topics."""

from mainstem.core.errors import MainstemError
from mainstem.heads.kafka.adapter.durable_replies import reply_later
from mainstem.heads.kafka.adapter.errors import code_of
from mainstem.heads.kafka.adapter.registry import serves
from mainstem.heads.kafka.adapter.service import Asked, Reply, Service
from mainstem.heads.kafka.adapter.topics import id_or_none
from mainstem.kafka_protocol.error_codes import Code
from mainstem.kafka_protocol.fields import NO_ID
from mainstem.kafka_protocol.messages import share_groups as messages


@serves(messages.DELETE_SHARE_GROUP_OFFSETS, 0, 0)
def answer(asked: Asked, request: messages.DeleteShareGroupOffsetsRequest, reply: Reply) -> None:
    """Delete the offsets in some topics of a share group without members."""
    names = list(dict.fromkeys(topic.topic_name for topic in request.topics))
    try:
        durable, refused = asked.service.broker.share.forget(request.group_id, names)
    except MainstemError as error:
        reply(_not_deleted(error))
        return
    responses = [_deleted(asked.service, name, refused.get(name)) for name in names]

    def body(failed: MainstemError | None) -> messages.DeleteShareGroupOffsetsResponse:
        if failed is not None:
            return _not_deleted(failed)
        return messages.DeleteShareGroupOffsetsResponse(responses=responses)

    durable.then(reply_later(asked, reply, body))


def _not_deleted(error: MainstemError) -> messages.DeleteShareGroupOffsetsResponse:
    return messages.DeleteShareGroupOffsetsResponse(
        error_code=code_of(error), error_message=str(error)
    )


def _deleted(
    service: Service, topic: str, error: MainstemError | None
) -> messages.DeletedShareOffsetsTopic:
    if error is None:
        return messages.DeletedShareOffsetsTopic(topic, id_or_none(service, topic), Code.NONE, None)
    code = Code.UNKNOWN_TOPIC_OR_PARTITION
    return messages.DeletedShareOffsetsTopic(topic, NO_ID, code, str(error))
