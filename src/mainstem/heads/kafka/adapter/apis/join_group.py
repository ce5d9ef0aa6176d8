"""JoinGroup, versions 0 to 9: adds a member to the next generation of a classic group."""

from mainstem.broker.door import Join, Joined
from mainstem.core.errors import GroupIsLive, MainstemError, MemberIdRequired
from mainstem.heads.kafka.adapter.errors import STOPPING, code_in
from mainstem.heads.kafka.adapter.registry import serves
from mainstem.heads.kafka.adapter.service import Asked, Reply
from mainstem.kafka_protocol.error_codes import Code
from mainstem.kafka_protocol.messages import membership as messages

_TAKES_ID_FIRST = 4
_SKIPS_ASSIGNMENT = 9
_NULL_PROTOCOL = 7


@serves(messages.JOIN_GROUP, 0, 9)
def answer(asked: Asked, request: messages.JoinGroupRequest, reply: Reply) -> None:
    """Add a member to a group; answered when the next generation of the group begins."""
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
        # Version 0 has one timeout for session and rebalance.
        rebalance_timeout_ms=request.rebalance_timeout_ms
        if request.rebalance_timeout_ms >= 0
        else request.session_timeout_ms,
        takes_id_first=version >= _TAKES_ID_FIRST,
        skips_assignment=version >= _SKIPS_ASSIGNMENT,
    )

    def respond(joined: Joined | MainstemError) -> None:
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
    waited = service.wait_with(lambda: respond(STOPPING))
    service.broker.classic.join(wish, respond)


def _joined(joined: Joined) -> messages.JoinGroupResponse:
    return messages.JoinGroupResponse(
        generation_id=joined.generation,
        protocol_type=joined.protocol_type,
        protocol_name=joined.protocol,
        leader=joined.leader,
        skip_assignment=joined.skip_assignment,
        member_id=joined.member_id,
        members=tuple(
            messages.JoinedMember(each.member_id, each.instance_id, each.metadata)
            for each in joined.members
        ),
    )


def _not_joined(
    asked: Asked, request: messages.JoinGroupRequest, error: MainstemError
) -> messages.JoinGroupResponse:
    member_id = error.member if isinstance(error, MemberIdRequired) else request.member_id
    protocol = None if asked.header.api_version >= _NULL_PROTOCOL else ""
    code = code_in(asked.header, error)
    if isinstance(error, GroupIsLive):
        # The group has members of another type; Kafka returns this error, which clients understand.
        code = Code.INCONSISTENT_GROUP_PROTOCOL
    return messages.JoinGroupResponse(error_code=code, member_id=member_id, protocol_name=protocol)
