"""Messages published to exchanges of the type ``x-delayed-message``, as in RabbitMQ's plugin.

How this works: a message with the header ``x-delay`` is stored unrouted. When it is due, it is
routed with the bindings that exist then. Its header ``x-delay`` is then made negative, so that
another exchange of this type does not delay it again.
"""

from collections.abc import Sequence
from math import isfinite
from typing import TYPE_CHECKING

import msgspec

from mainstem.broker.door import DelayedEvent, RoutedEvent
from mainstem.core.event import Event
from mainstem.heads.amqp091 import fields
from mainstem.heads.amqp091.adapter.topology.routing import copy_keys, without_bcc
from mainstem.heads.amqp091.fields import read_short_string
from mainstem.heads.amqp091.properties import decode_properties, encode_properties

if TYPE_CHECKING:
    from mainstem.heads.amqp091.adapter.service import Service

DELAY = "x-delay"
MAX_DELAY_MS = 2**32 - 1
HEAD = "amqp"
_MAX_DIGITS = 30

_encode_route = msgspec.json.Encoder().encode
_decode_route = msgspec.json.Decoder(tuple[str, str]).decode


def delay_of(headers: fields.Table) -> int:
    """Return the delay of a message in ms, 0 if it has none."""
    delay_ms = _number(headers.get(DELAY))
    return delay_ms if 0 < delay_ms <= MAX_DELAY_MS else 0


def delayed_event(vhost: str, exchange: str, event: Event, due_ms: int) -> DelayedEvent:
    """Return the event to store for a message that an ``x-delayed-message`` exchange delays."""
    route = _encode_route((vhost, exchange)).decode()
    return DelayedEvent(event, due_ms, head=HEAD, route=route)


class DelayedRouter:
    """Routes delayed messages when they are due.

    The broker calls it while it holds the lock of the delayed events, so it only reads the
    topology.
    """

    def __init__(self, service: "Service") -> None:
        self._service = service

    def __call__(self, route: str, event: Event) -> Sequence[RoutedEvent]:
        """Return a due message as one event per queue that it is routed to."""
        service = self._service
        vhost, exchange = _decode_route(route)
        content, raw, _ = service.messages.content_of(event, "")
        _, at = read_short_string(content, 0, len(content))
        key, _ = read_short_string(content, at, len(content))
        said = decode_properties(raw)
        headers = dict(said.headers or {})
        headers[DELAY] = -delay_of(headers)
        names = service.topology.route_again(vhost, exchange, (key, *copy_keys(headers)), headers)
        if not names:
            service.counts.unroutable += 1
        properties = msgspec.structs.replace(said, headers=without_bcc(headers))
        told = service.messages.headers_of(content, encode_properties(properties))
        due = Event(event.value, event.key, told)
        due = service.for_all(due, len(names))
        return service.queues.copies(vhost, names, due, said.priority)


def _number(value: object) -> int:
    """Parse a delay as the plugin does: fractions are truncated, and text may be a number."""
    if isinstance(value, bool | fields.Timestamp):
        return 0
    if isinstance(value, str | bytes) and len(value) <= _MAX_DIGITS:
        try:
            value = float(value) if "." in str(value) else int(value)
        except ValueError:
            return 0
    if isinstance(value, float):
        return int(value) if isfinite(value) else 0
    return value if isinstance(value, int) else 0
