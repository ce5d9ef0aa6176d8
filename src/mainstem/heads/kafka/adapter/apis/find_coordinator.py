"""FindCoordinator, versions 0 to 6: this broker coordinates all groups and transactions."""

from mainstem.heads.kafka.adapter.registry import serves
from mainstem.heads.kafka.adapter.request_limits import limited
from mainstem.heads.kafka.adapter.service import Asked, Reply
from mainstem.kafka_protocol.error_codes import Code
from mainstem.kafka_protocol.messages import membership as messages

_GROUPS, _TRANSACTIONS = 0, 1
_NOBODY = (-1, "", -1)
"""Node id, host and port in the response if there is no coordinator."""


@serves(messages.FIND_COORDINATOR, 0, 6)
def answer(asked: Asked, request: messages.FindCoordinatorRequest, reply: Reply) -> None:
    """Return this broker as the coordinator of each requested group or transaction."""
    service = asked.service
    if request.key_type in (_GROUPS, _TRANSACTIONS):
        node, host, port = service.settings.node_id, service.host, service.port
        code, message = Code.NONE, None
    else:
        node, host, port = _NOBODY
        code, message = Code.INVALID_REQUEST, "only groups and transactions have a coordinator here"
    if asked.header.api_version >= 4:
        found = tuple(
            messages.Coordinator(key, node, host, port, code, message)
            for key in limited(asked, request.coordinator_keys)
        )
        reply(messages.FindCoordinatorResponse(coordinators=found))
        return
    reply(
        messages.FindCoordinatorResponse(
            error_code=code, error_message=message, node_id=node, host=host, port=port
        )
    )
