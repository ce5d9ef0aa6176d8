"""DescribeShareGroupOffsets, versions 0 to 1: the start offsets of share groups."""

from mainstem.broker.door import QueueState
from mainstem.core.errors import MainstemError, UnknownGroup
from mainstem.core.names import check_group
from mainstem.heads.kafka.adapter.errors import code_of
from mainstem.heads.kafka.adapter.registry import serves
from mainstem.heads.kafka.adapter.service import Asked, Reply, Service
from mainstem.heads.kafka.adapter.topics import id_or_none
from mainstem.kafka_protocol.messages import share_groups as messages

_NOT_BEGUN = -1
"""The start offset sent for a partition that the share group has not read yet."""


@serves(messages.DESCRIBE_SHARE_GROUP_OFFSETS, 0, 1)
def answer(asked: Asked, request: messages.DescribeShareGroupOffsetsRequest, reply: Reply) -> None:
    """Return the start offsets of share groups, in the requested topics or in all."""
    groups = []
    for each in request.groups:
        try:
            check_group(each.group_id)
            found = asked.service.broker.share.positions(each.group_id)
        except UnknownGroup:
            # Offsets can be altered before the group has a member, so they are also shown then.
            found = []
        except MainstemError as error:
            groups.append(
                messages.DescribedShareOffsets(each.group_id, (), code_of(error), str(error))
            )
            continue
        groups.append(
            messages.DescribedShareOffsets(each.group_id, _positions(asked.service, each, found))
        )
    reply(messages.DescribeShareGroupOffsetsResponse(groups=groups))


def _positions(
    service: Service, asked: messages.ShareOffsetsGroup, found: list[QueueState]
) -> list[messages.DescribedShareOffsetsTopic]:
    known = {each.topic: each for each in found}
    if asked.topics is None:
        wanted = {each.topic: [at.partition for at in each.windows] for each in found}
    else:
        wanted = {each.topic_name: list(each.partitions) for each in asked.topics}
    return [
        messages.DescribedShareOffsetsTopic(
            name,
            id_or_none(service, name),
            [_position(service, name, number, known.get(name)) for number in numbers],
        )
        for name, numbers in wanted.items()
    ]


def _position(
    service: Service, topic: str, number: int, found: QueueState | None
) -> messages.DescribedShareOffset:
    if found is None or number not in range(len(found.windows)):
        # The group has no offset there, or the partition does not exist.
        return messages.DescribedShareOffset(number, _NOT_BEGUN)
    window = found.windows[number]
    try:
        epoch = service.broker.bounds(topic, number).epoch
    except MainstemError as error:
        code = code_of(error)
        return messages.DescribedShareOffset(
            number, _NOT_BEGUN, error_code=code, error_message=str(error)
        )
    return messages.DescribedShareOffset(number, window.start, epoch, window.unsettled)
