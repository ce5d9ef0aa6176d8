"""ShareGroupDescribe, version 1: share groups and their members [KIP-932]."""

from mainstem.broker.door import ShareGroupState
from mainstem.core.errors import MainstemError
from mainstem.core.names import check_group
from mainstem.heads.kafka.adapter.authorized_operations import on_group
from mainstem.heads.kafka.adapter.errors import code_in
from mainstem.heads.kafka.adapter.groups.group_types import share_state
from mainstem.heads.kafka.adapter.registry import serves
from mainstem.heads.kafka.adapter.service import Asked, Reply
from mainstem.kafka_protocol.messages import share_groups as messages


@serves(messages.SHARE_GROUP_DESCRIBE, 1, 1)
def answer(asked: Asked, request: messages.ShareGroupDescribeRequest, reply: Reply) -> None:
    """Describe share groups."""
    groups = []
    allowed = on_group(request.include_authorized_operations)
    for name in request.group_ids:
        try:
            check_group(name)
            groups.append(_described(asked.service.broker.share.describe(name), allowed))
        except MainstemError as error:
            code, message = code_in(asked.header, error), str(error)
            groups.append(messages.DescribedShareGroup(code, message, name))
    reply(messages.ShareGroupDescribeResponse(groups=groups))


def _described(group: ShareGroupState, allowed: int) -> messages.DescribedShareGroup:
    return messages.DescribedShareGroup(
        group_id=group.name,
        group_state=share_state(has_members=bool(group.members)),
        group_epoch=group.epoch,
        assignment_epoch=group.epoch,
        assignor_name="simple",
        members=[
            messages.DescribedShareMember(
                each.id,
                each.rack,
                each.epoch,
                each.client_id,
                each.host,
                each.topics,
                messages.DescribedShareAssignment(
                    [
                        messages.DescribedSharePartitions(
                            bytes.fromhex(topic_id), name, range(count)
                        )
                        for name, topic_id, count in each.places
                    ]
                ),
            )
            for each in group.members
        ],
        authorized_operations=allowed,
    )
