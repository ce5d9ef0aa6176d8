"""Publishes the events of a request; the response has their positions, and is sent once durable."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from starlette.responses import Response

from mainstem.core.event import Position
from mainstem.heads.http.adapter.service import Service, topic_of
from mainstem.heads.http.formats import cloudevents
from mainstem.heads.http.formats.bodies import Parsed, events_of, too_many
from mainstem.heads.http.formats.labels import NO_LABELS, PREFIX, labels
from mainstem.heads.web.body import read_body

if TYPE_CHECKING:
    from starlette.requests import Request

_JSON = (b"content-type", b"application/json")


async def publish(service: Service, request: "Request") -> Response:
    """Publish the events of a request's body, all in one append."""
    scope = request.scope
    door = service.door(scope)
    topic = topic_of(request)
    # Most requests have neither a query nor headers that concern the events.
    headers = dict(scope["headers"])
    named = NO_LABELS
    if scope["query_string"] or any(each.startswith(PREFIX) for each in headers):
        named = labels(request.query_params.getlist, scope["headers"])
    body = await read_body(scope, request.receive, service.settings.max_body_bytes)
    content_type = headers.get(b"content-type", b"").decode("latin-1")
    if cloudevents.MARK in headers:
        event = cloudevents.of_binary(scope["headers"], content_type, body, named)
        parsed = Parsed([event], named.partition)
    else:
        parsed = events_of(content_type, body, named, service.settings.max_events)
    if len(parsed.events) > service.settings.max_events:
        raise too_many(service.settings.max_events)
    await service.ensure_topic(door, topic)
    key = headers.get(b"idempotency-key", b"").decode("latin-1")
    if b"idempotency-key" not in headers:
        positions = await service.appends.append(door, topic, parsed)
    else:
        peer = service.user(scope)
        positions = await service.keys.publish(peer, door, topic, parsed, _unquoted(key))
    service.counts.published += len(positions)
    return Published(positions_json(positions))


class Published(Response):
    """The response to a publish; cheaper to make than Starlette's, which checks its headers."""

    def __init__(self, body: bytes) -> None:
        self.status_code, self.background, self.body = 200, None, body
        self.raw_headers = [_JSON, (b"content-length", b"%d" % len(body))]


def positions_json(positions: Iterable[Position]) -> bytes:
    """Return positions as JSON."""
    return b'{"positions":[%b]}\n' % b",".join(
        b'{"partition":%d,"offset":%d}' % each for each in positions
    )


def _unquoted(key: str) -> str:
    """Return an Idempotency-Key without the quotes that the draft standard requires."""
    is_quoted = len(key) > 1 and key[0] == key[-1] == '"'
    return key[1:-1] if is_quoted else key
