"""DescribeShareGroupOffsets, and their like: where share groups start in their partitions."""

from collections.abc import Callable, Mapping

from mainstem.broker.door import QueueState
from mainstem.core.errors import GroupIsLive, MainstemError, UnknownGroup
from mainstem.core.names import check_group
from mainstem.heads.kafka.adapter.errors import code_of
from mainstem.heads.kafka.adapter.service import Asked, Reply, Service
from mainstem.heads.kafka.adapter.share_fetch import when_all
from mainstem.heads.kafka.adapter.topic_ids import id_of
from mainstem.kafka_protocol.error_codes import Code
from mainstem.kafka_protocol.fields import NO_ID
from mainstem.kafka_protocol.messages.share_groups import (
    AlteredShareOffset,
    AlteredShareOffsetsTopic,
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsResponse,
    AlterShareOffsetsTopic,
    DeletedShareOffsetsTopic,
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
    DescribedShareOffset,
    DescribedShareOffsets,
    DescribedShareOffsetsTopic,
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsResponse,
    ShareOffsetsGroup,
)

DESCRIBE_FIRST, DESCRIBE_LAST = 0, 1
ALTER_FIRST, ALTER_LAST = 0, 0
DELETE_FIRST, DELETE_LAST = 0, 0

_NOT_BEGUN = -1
"""The start of a partition that the group has not begun with."""


def describe(asked: Asked, request: DescribeShareGroupOffsetsRequest, reply: Reply) -> None:
    """Tell how far groups have got, in the topics asked for or in all of theirs."""
    groups = []
    for each in request.groups:
        try:
            check_group(each.group_id)
            found = asked.service.broker.share.positions(each.group_id)
        except UnknownGroup:
            # Its offsets can be altered before it has a member, so one may also look at them.
            found = []
        except MainstemError as error:
            groups.append(DescribedShareOffsets(each.group_id, (), code_of(error), str(error)))
            continue
        groups.append(DescribedShareOffsets(each.group_id, _positions(asked.service, each, found)))
    reply(DescribeShareGroupOffsetsResponse(groups=groups))


def _positions(
    service: Service, asked: ShareOffsetsGroup, found: list[QueueState]
) -> list[DescribedShareOffsetsTopic]:
    known = {each.topic: each for each in found}
    if asked.topics is None:
        wanted = {each.topic: [at.partition for at in each.windows] for each in found}
    else:
        wanted = {each.topic_name: list(each.partitions) for each in asked.topics}
    return [
        DescribedShareOffsetsTopic(
            name,
            _id(service, name),
            [_position(service, name, number, known.get(name)) for number in numbers],
        )
        for name, numbers in wanted.items()
    ]


def _position(
    service: Service, topic: str, number: int, found: QueueState | None
) -> DescribedShareOffset:
    if found is None or number not in range(len(found.windows)):
        # Nor has it begun with what is not there.
        return DescribedShareOffset(number, _NOT_BEGUN)
    window = found.windows[number]
    try:
        epoch = service.broker.bounds(topic, number).epoch
    except MainstemError as error:
        code = code_of(error)
        return DescribedShareOffset(number, _NOT_BEGUN, error_code=code, error_message=str(error))
    return DescribedShareOffset(number, window.start, epoch, window.unsettled)


def alter(asked: Asked, request: AlterShareGroupOffsetsRequest, reply: Reply) -> None:
    """Let a group without members go on from elsewhere; answered when it is durable."""
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
            # Somebody has joined meanwhile.
            reply(_not_altered(error))
            return
        except MainstemError as error:
            refused = dict.fromkeys(offsets, error)
        else:
            durables.append(durable)
        responses.append(_altered(asked.service, topic, refused))

    def body(failed: MainstemError | None) -> AlterShareGroupOffsetsResponse:
        if failed is not None:
            return _not_altered(failed)
        return AlterShareGroupOffsetsResponse(responses=responses)

    when_all(durables, _later(asked, reply, body))


def _not_altered(error: MainstemError) -> AlterShareGroupOffsetsResponse:
    return AlterShareGroupOffsetsResponse(error_code=code_of(error), error_message=str(error))


def _altered(
    service: Service, topic: AlterShareOffsetsTopic, refused: Mapping[int, MainstemError]
) -> AlteredShareOffsetsTopic:
    partitions = []
    for number in (each.partition_index for each in topic.partitions):
        error = refused.get(number)
        code, message = (Code.NONE, None) if error is None else (code_of(error), str(error))
        partitions.append(AlteredShareOffset(number, code, message))
    name = topic.topic_name
    return AlteredShareOffsetsTopic(name, _id(service, name), partitions)


def delete(asked: Asked, request: DeleteShareGroupOffsetsRequest, reply: Reply) -> None:
    """Forget how far a group without members has got in some topics."""
    names = list(dict.fromkeys(topic.topic_name for topic in request.topics))
    try:
        durable, refused = asked.service.broker.share.forget(request.group_id, names)
    except MainstemError as error:
        reply(_not_deleted(error))
        return
    responses = [_deleted(asked.service, name, refused.get(name)) for name in names]

    def body(failed: MainstemError | None) -> DeleteShareGroupOffsetsResponse:
        if failed is not None:
            return _not_deleted(failed)
        return DeleteShareGroupOffsetsResponse(responses=responses)

    durable.then(_later(asked, reply, body))


def _not_deleted(error: MainstemError) -> DeleteShareGroupOffsetsResponse:
    return DeleteShareGroupOffsetsResponse(error_code=code_of(error), error_message=str(error))


def _deleted(service: Service, topic: str, error: MainstemError | None) -> DeletedShareOffsetsTopic:
    if error is None:
        return DeletedShareOffsetsTopic(topic, _id(service, topic), Code.NONE, None)
    code = Code.UNKNOWN_TOPIC_OR_PARTITION
    return DeletedShareOffsetsTopic(topic, NO_ID, code, str(error))


def _later(
    asked: Asked,
    reply: Reply,
    body: Callable[
        [MainstemError | None], AlterShareGroupOffsetsResponse | DeleteShareGroupOffsetsResponse
    ],
) -> Callable[[MainstemError | None], None]:
    return lambda failed: asked.service.on_loop(lambda: reply(body(failed)))


def _id(service: Service, topic: str) -> bytes:
    try:
        return id_of(service.broker.topic(topic))
    except MainstemError:
        return NO_ID
