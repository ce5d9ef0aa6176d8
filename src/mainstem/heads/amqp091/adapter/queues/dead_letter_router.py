"""Routes dead letters of queues through their exchanges, in the append that settles them.

The broker calls the router while it holds the lock of its queues, so the router only reads the
topology.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from mainstem.broker.door import DeadEvent, RoutedEvent
from mainstem.core.event import ID_HEADER, Event
from mainstem.heads.amqp091.adapter.queues.dead_lettering import (
    dead_letter,
    without_cycles,
    without_deaths,
)
from mainstem.heads.amqp091.codec import route_of
from mainstem.heads.amqp091.fields import read_short_string
from mainstem.heads.amqp091.properties import decode_properties, encode_properties

if TYPE_CHECKING:
    from mainstem.heads.amqp091.adapter.service import Service


class DeadLetterRouter:
    """Routes the dead letters of a queue through its dead-letter exchange."""

    def __init__(self, service: "Service") -> None:
        self._service = service

    def __call__(self, route: str, dead: DeadEvent) -> Sequence[RoutedEvent]:
        """Return a dead letter as one event per queue that it is routed to."""
        service = self._service
        queue = service.queues.at(dead.topic, dead.queue)
        if queue is None:
            return ()
        content, raw, is_dead_letter = service.messages.content_of(dead.event, queue.name)
        exchange, at = read_short_string(content, 0, len(content))
        key, _ = read_short_string(content, at, len(content))
        reason, vhost = dead.cause, queue.record.vhost
        properties = decode_properties(raw)
        if not is_dead_letter:
            properties = without_deaths(properties)
        letter = dead_letter(
            queue.record, exchange, key, properties, reason, service.context.now_ms()
        )
        if letter is None:
            return ()
        headers = letter.properties.headers or {}
        names = service.topology.route_again(vhost, letter.exchange, letter.routing_keys, headers)
        raw = encode_properties(letter.properties)
        route_ = route_of(letter.exchange, letter.routing_keys[0])
        told = service.messages.headers_of(route_, raw, is_dead_letter=True)
        names = without_cycles(names, letter, reason)
        ids = tuple(each for each in dead.event.headers if each[0] == ID_HEADER)[:1]
        event = Event(dead.event.value, dead.event.key, (*ids, *told))
        event = event if ids else service.for_all(event, len(names))
        return service.queues.copies(vhost, names, event, letter.properties.priority)
