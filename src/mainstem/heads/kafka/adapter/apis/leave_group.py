"""LeaveGroup, versions 0 to 5: removes members of a classic group, before version 3 only one."""

from mainstem.core.errors import MainstemError
from mainstem.heads.kafka.adapter.errors import code_in
from mainstem.heads.kafka.adapter.registry import serves
from mainstem.heads.kafka.adapter.request_limits import limited
from mainstem.heads.kafka.adapter.service import Asked, Reply
from mainstem.kafka_protocol.error_codes import Code
from mainstem.kafka_protocol.messages import membership as messages


@serves(messages.LEAVE_GROUP, 0, 5)
def answer(asked: Asked, request: messages.LeaveGroupRequest, reply: Reply) -> None:
    """Remove the named members from a group."""
    members = limited(asked, request.members)
    leavers = [(each.member_id, each.group_instance_id) for each in members]
    if asked.header.api_version < 3:
        leavers = [(request.member_id, None)]
    try:
        results = asked.service.broker.classic.leave(request.group_id, leavers)
    except MainstemError as error:
        reply(messages.LeaveGroupResponse(error_code=code_in(asked.header, error)))
        return
    codes = [Code.NONE if each is None else code_in(asked.header, each) for each in results]
    if asked.header.api_version < 3:
        reply(messages.LeaveGroupResponse(error_code=codes[0]))
        return
    left = [
        messages.LeftMember(member_id, instance_id, code)
        for (member_id, instance_id), code in zip(leavers, codes, strict=True)
    ]
    reply(messages.LeaveGroupResponse(members=left))
