"""Decodes the body of a request to events, by its media type.

| media type | events |
|---|---|
| ``application/json``, ``…+json`` | one: any JSON value |
| ``application/x-ndjson``, ``application/jsonl`` | one per line: any JSON value |
| ``application/vnd.mainstem.events+json`` | one per line, with key and headers, as in answers |
| ``application/cloudevents+json``, ``…-batch+json``, or ``ce-`` headers | CloudEvents |
| ``multipart/…`` | those of each part, by the part's own media type |
| any other | one: the bytes of the body |
"""

from collections.abc import Mapping
from email.message import Message

import msgspec

from mainstem.core.errors import InvalidEvent
from mainstem.core.event import Event
from mainstem.heads.http.formats import cloudevents, parts
from mainstem.heads.http.formats.event_json import check_json, checked_json, read_event
from mainstem.heads.http.formats.labels import CONTENT_TYPE, Labels
from mainstem.heads.web.problem import Refused

JSON = "application/json"
NDJSON = ("application/x-ndjson", "application/ndjson", "application/jsonl", "application/x-jsonl")
EVENTS = "application/vnd.mainstem.events+json"
BYTES = "application/octet-stream"
FORM = "application/x-www-form-urlencoded"


class Parsed(msgspec.Struct, frozen=True):
    """The events of a request, and their partition; None to choose it by key, or round robin."""

    events: list[Event]
    partition: int | None = None


def media_type(content_type: str) -> tuple[str, Mapping[str, str]]:
    """Return the media type in a Content-Type header, and its parameters."""
    if ";" not in content_type:
        return content_type.strip().lower(), {}
    message = Message()
    message["content-type"] = content_type
    options = message.get_params() or []
    return message.get_content_type(), {name.lower(): value for name, value in options[1:]}


def events_of(content_type: str, body: bytes, labels: Labels, max_events: int) -> Parsed:
    """Decode the events of a request's body; raises InvalidEvent, Refused."""
    if labels.deleted:
        if body:
            raise InvalidEvent("deleted=true publishes an event without a value: send no body")
        return Parsed([labels.event(None)], labels.partition)
    kind, options = media_type(content_type or JSON)
    if not kind.startswith("multipart/"):
        return _events_of(kind, content_type, body, labels, max_events)
    found: list[Event] = []
    partitions: set[int | None] = set()
    for part in parts.split(body, options.get("boundary", ""), max_events):
        parsed = _events_of_part(part, labels, max_events)
        found += parsed.events
        if len(found) > max_events:
            raise too_many(max_events)
        partitions.add(parsed.partition)
    return Parsed(found, _one_of(partitions))


def _events_of(
    kind: str, content_type: str, body: bytes, labels: Labels, max_events: int
) -> Parsed:
    if kind == EVENTS:
        return _described(body, labels, max_events)
    if kind in NDJSON:
        lines = _lines(body, max_events)
        check_json(lines)
        found = labels.events(lines)
    elif kind == cloudevents.STRUCTURED:
        found = [cloudevents.of_structured(body, labels)]
    elif kind == cloudevents.BATCH:
        found = [cloudevents.of_structured(each, labels) for each in _batch(body, max_events)]
    else:
        found = [_single(kind, content_type, body, labels)]
    return Parsed(found, labels.partition)


def _single(kind: str, content_type: str, body: bytes, labels: Labels) -> Event:
    if kind == JSON:
        return labels.event(checked_json(body))
    if kind == FORM:
        raise Refused(
            415,
            f"a form ({FORM}, which curl -d sends unless told otherwise) is no event: "
            "set the Content-Type, such as application/json",
        )
    named = (CONTENT_TYPE, content_type.encode("latin-1", "replace"))
    if kind.endswith("+json"):
        return labels.event(checked_json(body), named)
    if kind == BYTES:
        return labels.event(body)
    return labels.event(body, named)


def _events_of_part(part: parts.Part, labels: Labels, max_events: int) -> Parsed:
    content_type = part.content_type or "text/plain"
    kind, _ = media_type(content_type)
    if kind.startswith("multipart/"):
        raise Refused(415, "a part of a multipart body cannot be multipart itself")
    own = Labels(
        labels.key if part.key is None else part.key,
        labels.headers + part.headers,
        labels.partition,
        labels.timestamp_ms,
    )
    return _events_of(kind, content_type, part.body, own, max_events)


def _described(body: bytes, labels: Labels, max_events: int) -> Parsed:
    found: list[Event] = []
    partitions: set[int | None] = set()
    for line in _lines(body, max_events):
        event, partition = read_event(line)
        found.append(labels.added_to(event))
        partitions.add(partition)
    if labels.partition is not None:
        return Parsed(found, labels.partition)
    return Parsed(found, _one_of(partitions))


def _one_of(partitions: set[int | None]) -> int | None:
    if len(partitions) > 1:
        raise InvalidEvent(
            "the events of one request name several partitions: send one request for each, or "
            "leave out the partition, and the keys choose it"
        )
    return next(iter(partitions))


def _batch(body: bytes, max_events: int) -> list[bytes]:
    """Return each CloudEvent of a batch as JSON; raises if there are none or too many."""
    found = cloudevents.split(body)
    if not found:
        raise InvalidEvent("the body has no events")
    if len(found) > max_events:
        raise too_many(max_events)
    return found


def _lines(body: bytes, max_events: int) -> list[bytes]:
    """Return the lines of a body that are not blank; raises if there are none or too many."""
    # A body of very many blank lines would be large as a list, so it is refused.
    most = 2 * max_events + 1
    lines = body.split(b"\n", most)
    found = [line for each in lines if (line := each.strip())]
    if len(found) > max_events or len(lines) > most:
        raise too_many(max_events)
    if not found:
        raise InvalidEvent("the body has no events")
    return found


def too_many(max_events: int) -> Refused:
    """Return the error for a request with too many events."""
    return Refused(
        413, f"a request may have up to {max_events} events (http.max_events): send several"
    )
