"""Publishes the events of a request; the answer is their positions, once they are durable."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from starlette.responses import Response

from mainstem.broker.door import Door, HeldPublish
from mainstem.core.event import Position
from mainstem.heads.http.adapter.service import Service, topic_of
from mainstem.heads.http.formats import cloudevents
from mainstem.heads.http.formats.bodies import Parsed, events_of, too_many
from mainstem.heads.http.formats.labels import labels
from mainstem.heads.web.body import read_body
from mainstem.heads.web.waits import until_durable, until_room

if TYPE_CHECKING:
    from starlette.requests import Request


async def publish(service: Service, request: "Request") -> Response:
    """Publish the events of a request's body, all in one append."""
    scope = request.scope
    door = service.door(scope)
    topic = topic_of(request)
    named = labels(request.query_params.getlist, scope["headers"])
    body = await read_body(scope, request.receive, service.settings.max_body_bytes)
    content_type = request.headers.get("content-type", "")
    if cloudevents.is_binary(scope["headers"]):
        event = cloudevents.of_binary(scope["headers"], content_type, body, named)
        parsed = Parsed([event], named.partition)
    else:
        parsed = events_of(content_type, body, named, service.settings.max_events)
    if len(parsed.events) > service.settings.max_events:
        raise too_many(service.settings.max_events)
    await service.ensure_topic(door, topic)
    key = request.headers.get("idempotency-key")
    if key is None:
        positions = await append(service, door, topic, parsed)
    else:
        peer = service.user(scope)
        positions = await service.keys.publish(peer, door, topic, parsed, _unquoted(key))
    service.counts.published += len(positions)
    return Response(positions_json(positions), media_type="application/json")


async def append(service: Service, door: Door, topic: str, parsed: Parsed) -> list[Position]:
    """Append events; return their positions once they are durable."""
    context = service.context
    published = door.try_publish(topic, parsed.events, parsed.partition)
    while isinstance(published, HeldPublish):
        held = await until_room(context, set(), published)
        published = door.try_publish(topic, parsed.events, parsed.partition, held)
    await until_durable(context, published.durable)
    return published.positions


def positions_json(positions: Iterable[Position]) -> bytes:
    """Return positions as JSON."""
    return b'{"positions":[%b]}\n' % b",".join(
        b'{"partition":%d,"offset":%d}' % each for each in positions
    )


def _unquoted(key: str) -> str:
    """Return an Idempotency-Key, which the draft standard puts in quotes."""
    is_quoted = len(key) > 1 and key[0] == key[-1] == '"'
    return key[1:-1] if is_quoted else key
