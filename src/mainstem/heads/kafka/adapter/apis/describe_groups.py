"""DescribeGroups, versions 0 to 6: classic groups and their members."""

from mainstem.broker.door import Phase
from mainstem.core.errors import MainstemError
from mainstem.heads.kafka.adapter.authorized_operations import on_group
from mainstem.heads.kafka.adapter.errors import code_in
from mainstem.heads.kafka.adapter.registry import serves
from mainstem.heads.kafka.adapter.request_limits import limited
from mainstem.heads.kafka.adapter.service import Asked, Reply
from mainstem.kafka_protocol.error_codes import Code
from mainstem.kafka_protocol.messages import groups as messages

_SAYS_NOT_FOUND = 6


@serves(messages.DESCRIBE_GROUPS, 0, 6)
def answer(asked: Asked, request: messages.DescribeGroupsRequest, reply: Reply) -> None:
    """Describe classic groups, each once."""
    allowed = on_group(request.include_authorized_operations)
    names = dict.fromkeys(limited(asked, request.groups))
    groups = [_described(asked, name, allowed) for name in names]
    reply(messages.DescribeGroupsResponse(groups=groups))


def _described(asked: Asked, name: str, allowed: int) -> messages.DescribedGroup:
    try:
        found = asked.service.broker.classic.describe(name)
    except MainstemError as error:
        return messages.DescribedGroup(
            error_code=code_in(asked.header, error), error_message=str(error), group_id=name
        )
    missing = found.phase is Phase.DEAD and asked.header.api_version >= _SAYS_NOT_FOUND
    return messages.DescribedGroup(
        error_code=Code.GROUP_ID_NOT_FOUND if missing else Code.NONE,
        error_message=f"there is no group {name!r}" if missing else None,
        group_id=name,
        group_state=found.phase.value,
        protocol_type=found.protocol_type,
        protocol_data=found.protocol,
        members=tuple(
            messages.DescribedMember(
                each.member_id,
                each.instance_id,
                each.client_id,
                each.host,
                each.metadata,
                each.assignment,
            )
            for each in found.members
        ),
        authorized_operations=allowed,
    )
