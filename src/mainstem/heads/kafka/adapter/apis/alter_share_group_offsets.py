"""AlterShareGroupOffsets, version 0: moves the start offsets of a share group without members."""

from collections.abc import Mapping

from mainstem.core.errors import GroupIsLive, MainstemError, UnknownGroup
from mainstem.heads.kafka.adapter.durable_replies import reply_later, when_all
from mainstem.heads.kafka.adapter.errors import code_of
from mainstem.heads.kafka.adapter.registry import serves
from mainstem.heads.kafka.adapter.service import Asked, Reply, Service
from mainstem.heads.kafka.adapter.topics import id_or_none
from mainstem.kafka_protocol.error_codes import Code
from mainstem.kafka_protocol.messages import share_groups as messages


@serves(messages.ALTER_SHARE_GROUP_OFFSETS, 0, 0)
def answer(asked: Asked, request: messages.AlterShareGroupOffsetsRequest, reply: Reply) -> None:
    """Move the start offsets of a share group without members; answered when durable."""
    share, durables = asked.service.broker.share, []
    try:
        share.check_movable(request.group_id)
    except MainstemError as error:
        reply(_not_altered(error))
        return
    responses = []
    for topic in request.topics:
        offsets = {each.partition_index: each.start_offset for each in topic.partitions}
        try:
            durable, refused = share.seek(request.group_id, topic.topic_name, offsets)
        except (UnknownGroup, GroupIsLive) as error:
            # A member has joined in the meantime.
            reply(_not_altered(error))
            return
        except MainstemError as error:
            refused = dict.fromkeys(offsets, error)
        else:
            durables.append(durable)
        responses.append(_altered(asked.service, topic, refused))

    def body(failed: MainstemError | None) -> messages.AlterShareGroupOffsetsResponse:
        if failed is not None:
            return _not_altered(failed)
        return messages.AlterShareGroupOffsetsResponse(responses=responses)

    when_all(durables, reply_later(asked, reply, body))


def _not_altered(error: MainstemError) -> messages.AlterShareGroupOffsetsResponse:
    return messages.AlterShareGroupOffsetsResponse(
        error_code=code_of(error), error_message=str(error)
    )


def _altered(
    service: Service, topic: messages.AlterShareOffsetsTopic, refused: Mapping[int, MainstemError]
) -> messages.AlteredShareOffsetsTopic:
    partitions = []
    for number in (each.partition_index for each in topic.partitions):
        error = refused.get(number)
        code, message = (Code.NONE, None) if error is None else (code_of(error), str(error))
        partitions.append(messages.AlteredShareOffset(number, code, message))
    name = topic.topic_name
    return messages.AlteredShareOffsetsTopic(name, id_or_none(service, name), partitions)
