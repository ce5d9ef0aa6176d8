"""Heartbeat, versions 0 to 4: keeps a member of a classic group in its group."""

from mainstem.core.errors import MainstemError
from mainstem.heads.kafka.adapter.errors import STOPPING, code_in
from mainstem.heads.kafka.adapter.registry import serves
from mainstem.heads.kafka.adapter.service import Asked, Reply
from mainstem.kafka_protocol.error_codes import Code
from mainstem.kafka_protocol.messages import membership as messages


@serves(messages.HEARTBEAT, 0, 4)
def answer(asked: Asked, request: messages.HeartbeatRequest, reply: Reply) -> None:
    """Restart the session timeout of a group member."""
    code = Code.NONE
    if asked.service.draining:
        reply(messages.HeartbeatResponse(error_code=code_in(asked.header, STOPPING)))
        return
    try:
        asked.service.broker.classic.heartbeat(
            request.group_id, request.member_id, request.generation_id, request.group_instance_id
        )
    except MainstemError as error:
        code = code_in(asked.header, error)
    reply(messages.HeartbeatResponse(error_code=code))
