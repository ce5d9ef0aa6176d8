"""Makes the body and headers of a request from the events that it delivers.

The id of a message is made of the topic's id and the event's position, so it is the same in every
attempt and replay, and unique among all topics.
"""

import base64
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from hashlib import blake2b
from urllib.parse import quote

import msgspec

from mainstem.core.event import NATIVE_HEADER, NO_TIMESTAMP, Event, Position
from mainstem.heads.webhooks.endpoints import Payload
from mainstem.heads.webhooks.templates import Template, member

JSON = "application/json"
OCTETS = "application/octet-stream"
CLOUDEVENT, CLOUDEVENTS = "application/cloudevents+json", "application/cloudevents-batch+json"
_CONTENT_TYPES = ("content-type", "ce_datacontenttype")
_PREFIX = "msg_"
_CE = "ce_"
"""Prefix of the event headers with the attributes of a CloudEvent (Kafka binding, binary mode)."""

_Write = Callable[[str, Event], object]

_encode = msgspec.json.Encoder().encode
_decoder = msgspec.json.Decoder(msgspec.Raw)


class Message(msgspec.Struct, frozen=True):
    """The content of one request: its body and headers, without the signature."""

    id: str
    content_type: str
    body: bytes
    headers: tuple[tuple[str, str], ...] = ()


class Envelope(msgspec.Struct, frozen=True, omit_defaults=True):
    """An event in the JSON of the payload ``envelope``."""

    id: str
    topic: str
    partition: int
    offset: int
    timestamp: str | None = None
    key: str | None = None
    """The key as text; absent if there is none, or if it is not UTF-8."""
    key_base64: str | None = None
    headers: dict[str, str | None] = {}
    """The headers as text; of several with one name, the last."""
    value: msgspec.Raw | msgspec.UnsetType | None = msgspec.UNSET
    """The value if it is JSON; null if the event has no value."""
    text: str | None = None
    """The value if it is UTF-8, but not JSON."""
    base64: str | None = None
    """The value if it is not UTF-8, in base64."""


def message_id(topic_id: str, position: Position) -> str:
    """Return the message id of one event."""
    return f"{_PREFIX}{topic_id}_{position.partition}_{position.offset}"


def parse_message_id(text: str) -> tuple[str, Position] | None:
    """Return the topic id and position that a message id contains; None if it is malformed."""
    parts = text.removeprefix(_PREFIX).split("_")
    if not text.startswith(_PREFIX) or len(parts) != 3 or not all(map(str.isdecimal, parts[1:])):
        return None
    return parts[0], Position(int(parts[1]), int(parts[2]))


def message(
    payload: Payload,
    topic_id: str,
    events: Sequence[Event],
    *,
    batch: bool,
    template: Template | None = None,
) -> Message:
    """Make the message for the events of one request; ``batch``: as a JSON array, even for one."""
    ids = [message_id(topic_id, each.position) for each in events]
    if batch:
        whole = ids[0] if len(ids) == 1 else _PREFIX + _digest(ids)
        as_cloudevents = payload is Payload.CLOUDEVENTS
        write: _Write = _cloudevent if as_cloudevents else _envelope
        if template is not None:
            write = partial(_by_template, template)
        body = _encode([write(one, each) for one, each in zip(ids, events, strict=True)])
        return Message(whole, CLOUDEVENTS if as_cloudevents else JSON, body)
    ((only, event),) = zip(ids, events, strict=True)
    match payload:
        case Payload.VALUE:
            return Message(only, _content_type(event), event.value or b"")
        case Payload.TEMPLATE:
            assert template is not None
            return Message(only, JSON, _encode(_by_template(template, only, event)))
        case Payload.ENVELOPE:
            return Message(only, JSON, _encode(_envelope(only, event)))
        case Payload.CLOUDEVENTS:
            return Message(only, CLOUDEVENT, _encode(_cloudevent(only, event)))
        case Payload.CLOUDEVENTS_BINARY:
            headers = tuple(
                (f"ce-{name}", quote(value, safe=_PRINTABLE))
                for name, value in _attributes(only, event).items()
            )
            return Message(only, _content_type(event), event.value or b"", headers)


_PRINTABLE = "".join(map(chr, range(0x21, 0x7F))).replace('"', "").replace("%", "")
"""Characters that are not escaped in a header of a CloudEvent [CloudEvents HTTP binding, 3.1.3.2].
"""


def _digest(ids: Sequence[str]) -> str:
    return blake2b(" ".join(ids).encode(), digest_size=16).hexdigest()


def _envelope(message_id: str, event: Event) -> Envelope:
    key = _text(event.key)
    key_base64 = None
    if key is None and event.key is not None:
        key_base64 = base64.b64encode(event.key).decode()
    raw, text, octets = _json_text_or_base64(event.value)
    return Envelope(
        id=message_id,
        topic=event.topic,
        partition=event.partition,
        offset=event.offset,
        timestamp=_time(event),
        key=key,
        key_base64=key_base64,
        headers={
            name: None if value is None else value.decode("utf-8", "replace")
            for name, value in event.headers
            if name != NATIVE_HEADER
        },
        value=raw,
        text=text,
        base64=octets,
    )


def _by_template(template: Template, message_id: str, event: Event) -> object:
    told = _envelope(message_id, event)

    def find(field: str) -> object:
        kind, _, rest = field.partition(".")
        if kind == "header":
            named = (value for name, value in told.headers.items() if name.lower() == rest.lower())
            return next(named, None)
        if kind != "value":
            found: object = getattr(told, field)
            return found
        if isinstance(told.value, msgspec.Raw):
            return member(msgspec.json.decode(told.value), rest) if rest else told.value
        # Only JSON values have members, text and bytes have none.
        return None if rest else told.base64 if told.text is None else told.text

    return template.filled(find)


def _cloudevent(message_id: str, event: Event) -> dict[str, object]:
    found: dict[str, object] = dict(_attributes(message_id, event))
    raw, text, octets = _json_text_or_base64(event.value)
    if octets is not None:
        return found | {"data_base64": octets}
    if text is not None:
        return {"datacontenttype": "text/plain"} | found | {"data": text}
    return found if event.value is None else {"datacontenttype": JSON} | found | {"data": raw}


def _attributes(message_id: str, event: Event) -> dict[str, str]:
    """Return the attributes of an event as a CloudEvent: those in its headers, and defaults."""
    came = {
        name.removeprefix(_CE): value.decode("utf-8", "replace")
        for name, value in event.headers
        if name.startswith(_CE) and value is not None and name[3:].isascii() and name[3:].isalnum()
    }
    found = {
        "specversion": "1.0",
        "id": message_id,
        "source": f"/topics/{event.topic}",
        "type": event.topic,
    }
    if (time := _time(event)) is not None:
        found["time"] = time
    if (key := _text(event.key)) is not None:
        found["partitionkey"] = key
    return found | {name.lower(): value for name, value in came.items()}


def _json_text_or_base64(
    value: bytes | None,
) -> tuple[msgspec.Raw | msgspec.UnsetType | None, str | None, str | None]:
    if value is None:
        return None, None, None
    text = _text(value)
    if text is None:
        return msgspec.UNSET, None, base64.b64encode(value).decode()
    try:
        return _decoder.decode(value), None, None
    except (msgspec.DecodeError, RecursionError):
        return msgspec.UNSET, text, None


def _content_type(event: Event) -> str:
    """Return the content type in an event's headers, or else guess it from the value."""
    for name, value in reversed(event.headers):
        if name.lower() in _CONTENT_TYPES and value:
            text = value.decode("utf-8", "replace")
            if text.isascii() and text.isprintable() and len(text) <= 200:
                return text
    return JSON if (event.value or b"")[:1] in (b"{", b"[", b'"') else OCTETS


def _time(event: Event) -> str | None:
    if event.timestamp_ms == NO_TIMESTAMP:
        return None
    try:
        at = datetime.fromtimestamp(event.timestamp_ms / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return None
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _text(value: bytes | None) -> str | None:
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        return None
