"""Converts events to JSON objects, and back.

An event's value is in one of four fields: ``value`` if it is JSON, ``text`` if it is other text,
``base64`` if it is neither; ``deleted`` is true if the event has no value, which deletes its key in
a compacted topic. A key that is not text is in ``key_base64``. Headers are an object; a header that
occurs several times has a list of values, and a value that is not text is ``{"base64": …}``.
"""

from base64 import b64encode
from collections.abc import Iterable, Mapping

import msgspec

from mainstem.core.errors import InvalidEvent
from mainstem.core.event import NATIVE_HEADER, NO_TIMESTAMP, Event, Headers
from mainstem.heads.http.formats import sizes

_encode = msgspec.json.Encoder().encode
_scan = msgspec.json.Decoder(msgspec.Raw).decode
_parse = msgspec.json.Decoder().decode


class Base64(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A header value that is not text."""

    base64: bytes


HeaderValue = str | Base64 | None


class EventFields(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True
):
    """An event as a JSON object; it has partition and offset when it is read."""

    partition: int | None = None
    offset: int | None = None
    """Ignored when the event is published: the log assigns it."""
    timestamp_ms: int | None = None
    key: str | None = None
    key_base64: bytes | None = None
    headers: dict[str, HeaderValue | list[HeaderValue]] = {}
    value: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    text: str | None = None
    base64: bytes | None = None
    deleted: bool = False

    def event(self) -> Event:
        """Convert to the event to publish; raises InvalidEvent."""
        given = (self.value is not msgspec.UNSET) + (self.text is not None)
        if given + (self.base64 is not None) + self.deleted != 1:
            raise InvalidEvent("an event has one of value, text, base64 and deleted")
        if self.key is not None and self.key_base64 is not None:
            raise InvalidEvent("an event has either key or key_base64")
        value: bytes | None = self.base64
        if not isinstance(self.value, msgspec.UnsetType):
            value = checked_json(bytes(self.value))
        elif self.text is not None:
            value = self.text.encode()
        key = self.key_base64 if self.key is None else self.key.encode()
        times = NO_TIMESTAMP if self.timestamp_ms is None else self.timestamp_ms
        return Event(value, key, _headers_of(self.headers), checked_time(times))


_read_fields = msgspec.json.Decoder(EventFields).decode


def check_json(values: Iterable[bytes]) -> None:
    """Raise InvalidEvent if one of the values is not JSON."""
    try:
        for value in values:
            # The scanner accepts more than the parser: numbers out of range, half surrogates.
            (_parse if len(value) <= sizes.MAX_PARSED else sizes.scan)(value)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise InvalidEvent(
            f"the value is not JSON: {error}; send other values as text/plain or "
            "application/octet-stream"
        ) from None
    except RecursionError:
        raise InvalidEvent("the value is JSON that is nested too deeply") from None


def checked_json(value: bytes) -> bytes:
    """Return a value without white space around it; raises InvalidEvent if it is not JSON."""
    check_json((value,))
    return value.strip(b" \t\r\n")


def checked_time(timestamp_ms: int) -> int:
    """Return a timestamp; raises InvalidEvent if the log cannot store it."""
    if NO_TIMESTAMP <= timestamp_ms < 2**63:
        return timestamp_ms
    raise InvalidEvent(f"{timestamp_ms} is not a time in milliseconds since 1970")


def read_event(line: bytes) -> tuple[Event, int | None]:
    """Decode an event from a JSON object, and its partition or None; raises InvalidEvent."""
    try:
        sizes.check_event(line)
        fields = _read_fields(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidEvent(f"not an event as a JSON object: {error}") from None
    return fields.event(), fields.partition


def event_json(event: Event) -> bytes:
    """Encode an event as a JSON object on one line."""
    at = (event.partition, event.offset, event.timestamp_ms)
    if event.key is None and not event.headers:
        # The common case; this takes two thirds of the time of the code below.
        return b'{"partition":%d,"offset":%d,"timestamp_ms":%d,%b}' % (
            *at,
            value_field(event.value),
        )
    parts = [b'{"partition":%d,"offset":%d,"timestamp_ms":%d' % at]
    if event.key is not None:
        text = _text(event.key)
        parts.append(
            b',"key_base64":"%b"' % b64encode(event.key)
            if text is None
            else b',"key":%b' % _encode(text)
        )
    if event.headers and (shown := _shown_headers(event.headers)):
        parts.append(b',"headers":%b' % _encode(shown))
    parts.append(b",%b}" % value_field(event.value))
    return b"".join(parts)


def value_field(value: bytes | None) -> bytes:
    """Encode the field of a JSON object that holds an event's value."""
    if value is None:
        return b'"deleted":true'
    found = as_json(value)
    if found is not None:
        return b'"value":%b' % found
    text = _text(value)
    if text is not None:
        return b'"text":%b' % _encode(text)
    return b'"base64":"%b"' % b64encode(value)


def as_json(value: bytes) -> bytes | None:
    """Return a value on one line if it is JSON, else None."""
    try:
        _scan(value)
        if not value.isascii():
            value.decode()
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    if b"\n" in value or b"\r" in value:
        return msgspec.json.format(value, indent=-1)
    return value


def _shown_headers(headers: Headers) -> Mapping[str, object]:
    found: dict[str, object] = {}
    for name, value in headers:
        if name == NATIVE_HEADER:
            continue
        shown = _shown(value)
        if name not in found:
            found[name] = shown
            continue
        earlier = found[name]
        found[name] = [*earlier, shown] if isinstance(earlier, list) else [earlier, shown]
    return found


def _shown(value: bytes | None) -> HeaderValue:
    if value is None:
        return None
    text = _text(value)
    return Base64(value) if text is None else text


def _headers_of(given: Mapping[str, HeaderValue | list[HeaderValue]]) -> Headers:
    return tuple(
        (name, _stored(each))
        for name, value in given.items()
        for each in (value if isinstance(value, list) else (value,))
    )


def _stored(value: HeaderValue) -> bytes | None:
    if isinstance(value, Base64):
        return value.base64
    return None if value is None else value.encode()


def _text(value: bytes) -> str | None:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return None
