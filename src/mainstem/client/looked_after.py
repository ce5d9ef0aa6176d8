"""What the admin port of a server tells: how its queues stand."""

from http.client import HTTPConnection, HTTPException

import msgspec

from mainstem.broker.subscription_states import SubscriptionState
from mainstem.client.embedded_queues import queue_info
from mainstem.client.queues import QueueInfo
from mainstem.core.errors import Unreachable

_TIMEOUT_S = 30


def queues_at(admin: str) -> tuple[QueueInfo, ...]:
    """Return every queue and share group of the server that is looked after at an address."""
    connection = HTTPConnection(admin, timeout=_TIMEOUT_S)
    try:
        connection.request("GET", "/queues")
        answer = connection.getresponse()
        found = msgspec.json.decode(answer.read(), type=list[SubscriptionState])
    except (OSError, HTTPException, msgspec.DecodeError) as error:
        raise Unreachable(admin, str(error) or type(error).__name__) from None
    finally:
        connection.close()
    return tuple(queue_info(each) for each in found)
