"""SyncGroup, versions 0 to 5: stores the leader's assignments and returns each member its own."""

from mainstem.broker.door import Sync, Synced
from mainstem.core.errors import MainstemError
from mainstem.heads.kafka.adapter.errors import STOPPING, code_in
from mainstem.heads.kafka.adapter.registry import serves
from mainstem.heads.kafka.adapter.service import Asked, Reply
from mainstem.kafka_protocol.error_codes import Code
from mainstem.kafka_protocol.messages import membership as messages

_NAMES_PROTOCOL = 5
"""First version in which a member sends its group's protocol type and name."""


@serves(messages.SYNC_GROUP, 0, 5)
def answer(asked: Asked, request: messages.SyncGroupRequest, reply: Reply) -> None:
    """Return the member's assignment; if the member leads the group, store all assignments."""
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

    def respond(synced: Synced | MainstemError) -> None:
        waited()
        body = (
            messages.SyncGroupResponse(error_code=code_in(asked.header, synced))
            if isinstance(synced, MainstemError)
            else messages.SyncGroupResponse(
                0, 0, synced.protocol_type, synced.protocol, synced.assignment
            )
        )
        service.on_loop(lambda: reply(body))

    if asked.header.api_version >= _NAMES_PROTOCOL and None in (wish.protocol_type, wish.protocol):
        reply(messages.SyncGroupResponse(error_code=Code.INCONSISTENT_GROUP_PROTOCOL))
        return
    if service.draining:
        reply(messages.SyncGroupResponse(error_code=code_in(asked.header, STOPPING)))
        return
    waited = service.wait_with(lambda: respond(STOPPING))
    service.broker.classic.sync(wish, respond)
