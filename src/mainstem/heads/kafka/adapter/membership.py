"""JoinGroup, SyncGroup, Heartbeat, LeaveGroup: being a member of a classic group."""

from mainstem.broker.door import Join, Joined, Sync, Synced
from mainstem.core.errors import Closed, GroupIsLive, MainstemError, MemberIdRequired
from mainstem.heads.kafka.adapter.errors import code_in
from mainstem.heads.kafka.adapter.names import limited
from mainstem.heads.kafka.adapter.service import Asked, Reply
from mainstem.kafka_protocol.error_codes import Code
from mainstem.kafka_protocol.messages.membership import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinedMember,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    LeftMember,
    SyncGroupRequest,
    SyncGroupResponse,
)

JOIN_FIRST, JOIN_LAST = 0, 9
SYNC_FIRST, SYNC_LAST = 0, 5
HEARTBEAT_FIRST, HEARTBEAT_LAST = 0, 4
LEAVE_FIRST, LEAVE_LAST = 0, 5

STOPPING = Closed("the server stops; ask again when it is back")

_TAKES_ID_FIRST = 4
_SKIPS_ASSIGNMENT = 9
_NULL_PROTOCOL = 7
_NAMES_PROTOCOL = 5
"""Since this version a member says for which protocol it wants its assignment."""


def join(asked: Asked, request: JoinGroupRequest, reply: Reply) -> None:
    """Become a member of the next generation; answered when it begins."""
    service, version = asked.service, asked.header.api_version
    wish = Join(
        group=request.group_id,
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        client_id=asked.header.client_id or "",
        host=f"/{asked.peer.rpartition(':')[0]}",
        protocol_type=request.protocol_type,
        protocols=tuple((each.name, each.metadata) for each in request.protocols),
        session_timeout_ms=request.session_timeout_ms,
        # Version 0 has one time-out for both.
        rebalance_timeout_ms=request.rebalance_timeout_ms
        if request.rebalance_timeout_ms >= 0
        else request.session_timeout_ms,
        takes_id_first=version >= _TAKES_ID_FIRST,
        skips_assignment=version >= _SKIPS_ASSIGNMENT,
    )

    def answer(joined: Joined | MainstemError) -> None:
        waited()
        body = (
            _not_joined(asked, request, joined)
            if isinstance(joined, MainstemError)
            else _joined(joined)
        )
        service.on_loop(lambda: reply(body))

    if service.draining:
        reply(_not_joined(asked, request, STOPPING))
        return
    waited = service.wait_with(lambda: answer(STOPPING))
    service.broker.classic.join(wish, answer)
    service.look_at_deadlines()


def _joined(joined: Joined) -> JoinGroupResponse:
    return JoinGroupResponse(
        generation_id=joined.generation,
        protocol_type=joined.protocol_type,
        protocol_name=joined.protocol,
        leader=joined.leader,
        skip_assignment=joined.skip_assignment,
        member_id=joined.member_id,
        members=tuple(
            JoinedMember(each.member_id, each.instance_id, each.metadata) for each in joined.members
        ),
    )


def _not_joined(asked: Asked, request: JoinGroupRequest, error: MainstemError) -> JoinGroupResponse:
    member_id = error.member if isinstance(error, MemberIdRequired) else request.member_id
    protocol = None if asked.header.api_version >= _NULL_PROTOCOL else ""
    code = code_in(asked.header, error)
    if isinstance(error, GroupIsLive):
        # Its members are of another kind: what Kafka answers, and its clients understand.
        code = Code.INCONSISTENT_GROUP_PROTOCOL
    return JoinGroupResponse(error_code=code, member_id=member_id, protocol_name=protocol)


def sync(asked: Asked, request: SyncGroupRequest, reply: Reply) -> None:
    """Get one's assignment; the leader brings everybody's."""
    service = asked.service
    wish = Sync(
        group=request.group_id,
        member_id=request.member_id,
        generation=request.generation_id,
        instance_id=request.group_instance_id,
        protocol_type=request.protocol_type,
        protocol=request.protocol_name,
        assignments={each.member_id: each.assignment for each in request.assignments},
    )

    def answer(synced: Synced | MainstemError) -> None:
        waited()
        body = (
            SyncGroupResponse(error_code=code_in(asked.header, synced))
            if isinstance(synced, MainstemError)
            else SyncGroupResponse(0, 0, synced.protocol_type, synced.protocol, synced.assignment)
        )
        service.on_loop(lambda: reply(body))

    if asked.header.api_version >= _NAMES_PROTOCOL and None in (wish.protocol_type, wish.protocol):
        reply(SyncGroupResponse(error_code=Code.INCONSISTENT_GROUP_PROTOCOL))
        return
    if service.draining:
        reply(SyncGroupResponse(error_code=code_in(asked.header, STOPPING)))
        return
    waited = service.wait_with(lambda: answer(STOPPING))
    service.broker.classic.sync(wish, answer)
    service.look_at_deadlines()


def heartbeat(asked: Asked, request: HeartbeatRequest, reply: Reply) -> None:
    """Hear that a member is still there."""
    code = Code.NONE
    if asked.service.draining:
        reply(HeartbeatResponse(error_code=code_in(asked.header, STOPPING)))
        return
    try:
        asked.service.broker.classic.heartbeat(
            request.group_id, request.member_id, request.generation_id, request.group_instance_id
        )
    except MainstemError as error:
        code = code_in(asked.header, error)
    asked.service.look_at_deadlines()
    reply(HeartbeatResponse(error_code=code))


def leave(asked: Asked, request: LeaveGroupRequest, reply: Reply) -> None:
    """Let members leave."""
    members = limited(asked, request.members)
    leavers = [(each.member_id, each.group_instance_id) for each in members]
    if asked.header.api_version < 3:
        leavers = [(request.member_id, None)]
    try:
        results = asked.service.broker.classic.leave(request.group_id, leavers)
    except MainstemError as error:
        reply(LeaveGroupResponse(error_code=code_in(asked.header, error)))
        return
    asked.service.look_at_deadlines()
    codes = [Code.NONE if each is None else code_in(asked.header, each) for each in results]
    if asked.header.api_version < 3:
        reply(LeaveGroupResponse(error_code=codes[0]))
        return
    left = [
        LeftMember(member_id, instance_id, code)
        for (member_id, instance_id), code in zip(leavers, codes, strict=True)
    ]
    reply(LeaveGroupResponse(members=left))
