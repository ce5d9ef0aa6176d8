"""CloudEvents 1.0: converts structured, binary and batched ones to events and back.

An event is stored as CloudEvents' Kafka binding says, so that Kafka consumers with a CloudEvents
SDK read it: an attribute ``x`` is the header ``ce_x``, the media type of its data the header
``content-type``, and the data is the value. Its ``partitionkey`` is the event's key. An event that
was not published as a CloudEvent is read with the required attributes added.
"""

import re
from base64 import b64encode
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from urllib.parse import quote, unquote_to_bytes

import msgspec

from mainstem.core.errors import InvalidEvent
from mainstem.core.event import Event
from mainstem.heads.http.formats.event_json import as_json, checked_json
from mainstem.heads.http.formats.labels import CONTENT_TYPE, Labels
from mainstem.heads.http.formats.sizes import check_event

STRUCTURED = "application/cloudevents+json"
BATCH = "application/cloudevents-batch+json"
HTTP_PREFIX = b"ce-"
"""Prefix of the HTTP headers of a CloudEvent in binary mode."""
MARK = b"ce-specversion"
"""The HTTP header that marks a request as a CloudEvent in binary mode: all of them have it."""
KAFKA_PREFIX = "ce_"
REQUIRED = ("specversion", "id", "source", "type")
_NAME = re.compile(r"[a-z0-9]{1,100}")
_DATA = ("data", "data_base64", "datacontenttype")
_JSON_TYPE = re.compile(r"[^;]*[/+]json *(;.*)?", re.I)

_Object = dict[str, msgspec.Raw]
_read_object = msgspec.json.Decoder(_Object).decode
_read_batch = msgspec.json.Decoder(list[msgspec.Raw]).decode
_read_value = msgspec.json.Decoder(str | int | bool | None).decode
_read_bytes = msgspec.json.Decoder(bytes).decode
_write = msgspec.json.Encoder().encode


def of_structured(body: bytes, labels: Labels) -> Event:
    """Convert a CloudEvent in structured mode (JSON) to an event; raises InvalidEvent."""
    try:
        check_event(body)
        return _of_object(_read_object(body), labels)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidEvent(f"this is no CloudEvent as JSON: {error}") from None


def split(body: bytes) -> list[bytes]:
    """Split a batch into its CloudEvents, each as JSON; raises InvalidEvent."""
    try:
        return [bytes(each) for each in _read_batch(body)]
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidEvent(f"the body is no batch of CloudEvents as JSON: {error}") from None


def of_binary(
    headers: Iterable[tuple[bytes, bytes]], content_type: str, body: bytes, labels: Labels
) -> Event:
    """Convert a CloudEvent in binary mode to an event; raises InvalidEvent."""
    attributes: dict[str, str] = {}
    for name, value in headers:
        if name.startswith(HTTP_PREFIX):
            # [HTTP Protocol Binding 1.0.2, 3.1.3.2]
            text = unquote_to_bytes(value.strip(b'"')).decode("utf-8", "replace")
            attributes[name.removeprefix(HTTP_PREFIX).decode("latin-1")] = text
    if _is_json(content_type) and body:
        body = checked_json(body)
    return _event(attributes, content_type, body, labels)


def structured(event: Event) -> bytes:
    """Encode an event as a CloudEvent in JSON, on one line."""
    attributes = attributes_of(event)
    parts = [b"%b:%b" % (_write(name), _write(value)) for name, value in attributes.items()]
    if event.value:
        kind = content_type_of(event)
        parts.append(b'"datacontenttype":%b' % _write(kind))
        parts.append(_data_field(event.value, kind))
    return b"{%b}" % b",".join(parts)


def batch(events: Iterable[Event]) -> bytes:
    """Encode events as a batch of CloudEvents."""
    return b"[%b]" % b",\n".join(structured(event) for event in events)


def http_headers(event: Event) -> list[tuple[bytes, bytes]]:
    """Return the HTTP headers for an event as a CloudEvent in binary mode."""
    return [
        (HTTP_PREFIX + name.encode(), quote(value, safe=" !#$&'()*+,/:;=?@[]~`^{}|<>").encode())
        for name, value in attributes_of(event).items()
    ]


def attributes_of(event: Event) -> Mapping[str, str]:
    """Return the attributes of an event as a CloudEvent, except the media type of its data."""
    found: dict[str, str] = {}
    for name, value in event.headers:
        if name.startswith(KAFKA_PREFIX) and _NAME.fullmatch(name[len(KAFKA_PREFIX) :]):
            found[name[len(KAFKA_PREFIX) :]] = (value or b"").decode("utf-8", "replace")
    if not all(found.get(name) for name in REQUIRED) or found["specversion"] != "1.0":
        found = {
            "specversion": "1.0",
            "id": f"{event.partition}:{event.offset}",
            "source": f"/topics/{event.topic}",
            "type": "mainstem.event",
        }
        if event.timestamp_ms >= 0:
            found |= _time(event.timestamp_ms)
    if event.key is not None and "partitionkey" not in found:
        found["partitionkey"] = event.key.decode("utf-8", "replace")
    return found


def content_type_of(event: Event) -> str:
    """Return the media type of an event's value: that in its headers, else JSON or bytes."""
    for name, value in event.headers:
        if name == CONTENT_TYPE and value:
            return value.decode("latin-1")
    if event.value is not None and as_json(event.value) is not None:
        return "application/json"
    return "application/octet-stream"


def _of_object(found: _Object, labels: Labels) -> Event:
    attributes: dict[str, str] = {}
    for name, raw in found.items():
        if name in _DATA:
            continue
        value = _read_value(raw)
        if isinstance(value, bool):
            attributes[name] = "true" if value else "false"
        elif value is not None:
            attributes[name] = str(value)
    kind = _read_value(found["datacontenttype"]) if "datacontenttype" in found else None
    content_type = kind if isinstance(kind, str) else ""
    return _event(attributes, content_type, _data(found, content_type), labels)


def _data(found: _Object, content_type: str) -> bytes:
    if "data_base64" in found:
        if "data" in found:
            raise InvalidEvent("a CloudEvent has either data or data_base64")
        return _read_bytes(found["data_base64"])
    if "data" not in found:
        return b""
    raw = checked_json(bytes(found["data"]))
    if content_type and not _is_json(content_type):
        # [JSON Event Format 1.0.2, 3.1.1]
        text = msgspec.json.decode(raw)
        if isinstance(text, str):
            return text.encode()
    return raw


def _event(attributes: Mapping[str, str], content_type: str, data: bytes, labels: Labels) -> Event:
    for name in attributes:
        if not _NAME.fullmatch(name):
            raise InvalidEvent(f"{name!r:.100} is no name of a CloudEvents attribute")
    for name in REQUIRED:
        if not attributes.get(name):
            raise InvalidEvent(f"the CloudEvent has no {name}")
    if attributes["specversion"] != "1.0":
        raise InvalidEvent("only CloudEvents with specversion 1.0 are accepted")
    headers = [(KAFKA_PREFIX + name, value.encode()) for name, value in attributes.items()]
    if content_type:
        headers.append((CONTENT_TYPE, content_type.encode("latin-1", "replace")))
    key = labels.key
    if key is None and "partitionkey" in attributes:
        key = attributes["partitionkey"].encode()
    return Event(data, key, (*labels.headers, *headers), labels.timestamp_ms)


def _data_field(value: bytes, content_type: str) -> bytes:
    if _is_json(content_type):
        found = as_json(value)
        if found is not None:
            return b'"data":%b' % found
    elif content_type.startswith("text/"):
        try:
            return b'"data":%b' % _write(value.decode())
        except UnicodeDecodeError:
            pass
    return b'"data_base64":"%b"' % b64encode(value)


def _is_json(content_type: str) -> bool:
    return _JSON_TYPE.fullmatch(content_type) is not None


def _time(timestamp_ms: int) -> dict[str, str]:
    try:
        time = datetime.fromtimestamp(timestamp_ms / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return {}
    return {"time": time.isoformat(timespec="milliseconds").replace("+00:00", "Z")}
