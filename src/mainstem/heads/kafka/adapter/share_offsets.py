"""DescribeShareGroupOffsets, and their like: where share groups start in their partitions."""

from collections.abc import Callable

from mainstem.broker.subscription_states import SubscriptionState
from mainstem.core.errors import GroupIsLive, MainstemError, UnknownGroup, UnknownSubscription
from mainstem.heads.kafka.adapter.errors import Code, code_of
from mainstem.heads.kafka.adapter.service import Asked, Reply, Service
from mainstem.heads.kafka.adapter.share_fetch import when_all
from mainstem.heads.kafka.adapter.topic_ids import id_of
from mainstem.heads.kafka.fields import NO_ID
from mainstem.heads.kafka.messages.share_groups import (
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
            found = asked.service.broker.share.positions(each.group_id)
        except MainstemError as error:
            groups.append(DescribedShareOffsets(each.group_id, (), code_of(error), str(error)))
            continue
        groups.append(DescribedShareOffsets(each.group_id, _positions(asked.service, each, found)))
    reply(DescribeShareGroupOffsetsResponse(groups=groups))


def _positions(
    service: Service, asked: ShareOffsetsGroup, found: list[SubscriptionState]
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
    service: Service, topic: str, number: int, found: SubscriptionState | None
) -> DescribedShareOffset:
    try:
        epoch = service.broker.bounds(topic, number).epoch
    except MainstemError as error:
        code = code_of(error)
        return DescribedShareOffset(number, _NOT_BEGUN, error_code=code, error_message=str(error))
    if found is None or number >= len(found.windows):
        return DescribedShareOffset(number, _NOT_BEGUN)
    window = found.windows[number]
    return DescribedShareOffset(number, window.start, epoch, window.unsettled)


def alter(asked: Asked, request: AlterShareGroupOffsetsRequest, reply: Reply) -> None:
    """Let a group without members go on from elsewhere; answered when it is durable."""
    share, durables = asked.service.broker.share, []
    responses = []
    for topic in request.topics:
        offsets = {each.partition_index: each.start_offset for each in topic.partitions}
        error: MainstemError | None = None
        try:
            durables.append(share.seek(request.group_id, topic.topic_name, offsets))
        except (UnknownGroup, GroupIsLive) as refusal:
            code = code_of(refusal)
            reply(AlterShareGroupOffsetsResponse(error_code=code, error_message=str(refusal)))
            return
        except MainstemError as refusal:
            error = refusal
        responses.append(_altered(asked.service, topic, error))

    def body(failed: MainstemError | None) -> AlterShareGroupOffsetsResponse:
        if failed is not None:
            code = code_of(failed)
            return AlterShareGroupOffsetsResponse(error_code=code, error_message=str(failed))
        return AlterShareGroupOffsetsResponse(responses=responses)

    when_all(iter(durables), _later(asked, reply, body))


def _altered(
    service: Service, topic: AlterShareOffsetsTopic, error: MainstemError | None
) -> AlteredShareOffsetsTopic:
    code, message = (Code.NONE, None) if error is None else (code_of(error), str(error))
    return AlteredShareOffsetsTopic(
        topic.topic_name,
        _id(service, topic.topic_name),
        [AlteredShareOffset(each.partition_index, code, message) for each in topic.partitions],
    )


def delete(asked: Asked, request: DeleteShareGroupOffsetsRequest, reply: Reply) -> None:
    """Forget how far a group without members has got in some topics."""
    share, durables = asked.service.broker.share, []
    responses = []
    for topic in request.topics:
        code, message = Code.NONE, None
        topic_id = _id(asked.service, topic.topic_name)
        try:
            durables.append(share.forget(request.group_id, topic.topic_name))
        except (UnknownGroup, GroupIsLive) as refusal:
            reply(
                DeleteShareGroupOffsetsResponse(
                    error_code=code_of(refusal), error_message=str(refusal)
                )
            )
            return
        except UnknownSubscription:
            # There is nothing to be forgotten.
            pass
        except MainstemError as refusal:
            code, message = code_of(refusal), str(refusal)
        responses.append(DeletedShareOffsetsTopic(topic.topic_name, topic_id, code, message))

    def body(failed: MainstemError | None) -> DeleteShareGroupOffsetsResponse:
        if failed is not None:
            code = code_of(failed)
            return DeleteShareGroupOffsetsResponse(error_code=code, error_message=str(failed))
        return DeleteShareGroupOffsetsResponse(responses=responses)

    when_all(iter(durables), _later(asked, reply, body))


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
