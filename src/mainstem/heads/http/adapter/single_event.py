"""One event by its position: its value as it was published, as a CloudEvent, or as JSON."""

from typing import TYPE_CHECKING
from urllib.parse import quote

from starlette.responses import Response

from mainstem.core.errors import InvalidSetting, OffsetOutOfRange
from mainstem.heads.http.adapter.service import Service, topic_of
from mainstem.heads.http.formats import cloudevents
from mainstem.heads.http.formats.event_json import event_json

if TYPE_CHECKING:
    from starlette.requests import Request

_HEADERS = [
    # The content comes from any producer: a browser must not run it.
    (b"content-security-policy", b"sandbox; default-src 'none'"),
    (b"content-disposition", b"attachment"),
]


async def read_one(service: Service, request: "Request") -> Response:
    """Answer with one event: as a CloudEvent document or as JSON, if Accept names that type.

    Otherwise the body is the event's value, and ``ce-`` headers have its CloudEvents attributes.
    """
    topic = topic_of(request)
    partition, offset = (_number(request, name) for name in ("partition", "offset"))
    door = service.door(request.scope)
    bounds = door.bounds(topic, partition)
    place = f"partition {partition} of topic {topic!r}"
    if not bounds.start <= offset < bounds.tail:
        raise OffsetOutOfRange(place, offset, bounds.start, bounds.tail)
    found = door.follow(topic, partition, offset).take(1)
    if not found or found[0].offset != offset:
        # Compacted, or of an aborted transaction.
        raise OffsetOutOfRange(place, offset, bounds.start, bounds.tail)
    event = found[0]
    service.counts.read += 1
    accept = request.headers.get("accept", "")
    if cloudevents.STRUCTURED in accept:
        return Response(cloudevents.structured(event), media_type=cloudevents.STRUCTURED)
    if "application/json" in accept:
        return Response(event_json(event) + b"\n", media_type="application/json")
    response = Response(event.value or b"")
    kind = cloudevents.content_type_of(event)
    response.raw_headers += [
        (b"content-type", quote(kind, safe=" !#$&'*+-./;=\"").encode()),
        *_HEADERS,
        *cloudevents.http_headers(event),
    ]
    return response


def _number(request: "Request", name: str) -> int:
    said: str = request.path_params[name]
    if not (said.isascii() and said.isdigit() and len(said) < 20):
        raise InvalidSetting(f"{name} {said!r:.50} is not a number")
    return int(said)
