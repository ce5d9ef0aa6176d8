"""FindCoordinator: whatever is looked for, it is here."""

from mainstem.heads.kafka.adapter.names import limited
from mainstem.heads.kafka.adapter.service import Asked, Reply
from mainstem.kafka_protocol.error_codes import Code
from mainstem.kafka_protocol.messages.membership import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

FIRST, LAST = 0, 6

_GROUPS, _TRANSACTIONS = 0, 1
_NOBODY = (-1, "", -1)
"""Node, host and port."""


def answer(asked: Asked, request: FindCoordinatorRequest, reply: Reply) -> None:
    """Tell who keeps groups and transactions: we do."""
    service = asked.service
    if request.key_type in (_GROUPS, _TRANSACTIONS):
        node, host, port = service.settings.node_id, service.host, service.port
        code, message = Code.NONE, None
    else:
        node, host, port = _NOBODY
        code, message = Code.INVALID_REQUEST, "only groups and transactions are kept here"
    if asked.header.api_version >= 4:
        found = tuple(
            Coordinator(key, node, host, port, code, message)
            for key in limited(asked, request.coordinator_keys)
        )
        reply(FindCoordinatorResponse(coordinators=found))
        return
    reply(
        FindCoordinatorResponse(
            error_code=code, error_message=message, node_id=node, host=host, port=port
        )
    )
