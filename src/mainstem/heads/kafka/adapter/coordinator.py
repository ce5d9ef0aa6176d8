"""FindCoordinator: whatever is looked for, it is here."""

from mainstem.heads.kafka.adapter.errors import Code
from mainstem.heads.kafka.adapter.service import Asked, Reply
from mainstem.heads.kafka.messages.membership import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

FIRST, LAST = 0, 6

_GROUPS, _TRANSACTIONS = 0, 1


def answer(asked: Asked, request: FindCoordinatorRequest, reply: Reply) -> None:
    """Tell who keeps groups and transactions: we do."""
    service, node = asked.service, asked.service.settings.node_id
    known = request.key_type in (_GROUPS, _TRANSACTIONS)
    code = Code.NONE if known else Code.INVALID_REQUEST
    message = None if known else "only groups and transactions are kept here"
    if asked.header.api_version >= 4:
        found = tuple(
            Coordinator(key, node, service.host, service.port, code, message)
            for key in request.coordinator_keys
        )
        reply(FindCoordinatorResponse(coordinators=found))
        return
    reply(
        FindCoordinatorResponse(
            error_code=code,
            error_message=message,
            node_id=node,
            host=service.host,
            port=service.port,
        )
    )
