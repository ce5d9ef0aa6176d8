"""Reads the first unsettled events of a queue for the admin head, without delivering them."""

import msgspec

from mainstem.core.errors import MainstemError
from mainstem.core.event import Event, Position
from mainstem.node.node import Node

MAX_BYTES = 4 * 1024 * 1024
"""Maximum size of a page in bytes; the first event is shown whatever its size."""
_PIECE = 16
"""Number of events read at a time while the lock of the queues is held."""
_EVENT_BYTES = 100
"""Estimated overhead of an event in bytes, besides key, value and headers."""


class PeekedEvent(msgspec.Struct, frozen=True):
    """An unsettled event; in JSON, key, value and header values are base64."""

    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    deliveries: int
    consumer: str | None


class NotYet(MainstemError):
    """Raised as long as the server has not opened its log."""


class QueuePeek:
    """Reads unsettled events of queues; ``node`` is set when the log is open."""

    def __init__(self, *, max_bytes: int = MAX_BYTES) -> None:
        self.node: Node | None = None
        self._max_bytes = max_bytes

    def page(self, topic: str, name: str, limit: int, after: Position | None) -> bytes:
        """Return as JSON the first unsettled events of a queue, or those after a position."""
        if self.node is None:
            raise NotYet("the server is starting; try again")
        found: list[PeekedEvent] = []
        room = self._max_bytes
        while room > 0 and len(found) < limit:
            piece = self.node.broker.queues.peek(
                topic, name, min(_PIECE, limit - len(found)), after
            )
            for each in piece:
                room -= _size(each.event)
                if room < 0 and found:
                    break
                found.append(peeked(each.event, each.deliveries, each.owner))
                after = each.event.position
            if not piece:
                break
        return msgspec.json.encode(found)


def _size(event: Event) -> int:
    headers = sum(len(name) + len(value or b"") for name, value in event.headers)
    return len(event.key or b"") + len(event.value or b"") + headers + _EVENT_BYTES


def peeked(event: Event, deliveries: int, owner: str | None) -> PeekedEvent:
    """Return an unsettled event as the admin head shows it."""
    return PeekedEvent(
        event.partition,
        event.offset,
        event.timestamp_ms,
        event.key,
        event.value,
        event.headers,
        deliveries,
        owner,
    )
