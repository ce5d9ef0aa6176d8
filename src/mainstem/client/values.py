"""Converts Python values (text, JSON, mappings, times) to the bytes of an event."""

import json
from collections.abc import AsyncIterable, Iterable, Mapping
from typing import Any, TypedDict

import msgspec

from mainstem.core.errors import InvalidEvent
from mainstem.core.event import NO_TIMESTAMP, Event, Headers

Value = bytes | str | None | dict[str, Any] | list[Any] | int | float | bool
"""Bytes are stored as they are, text as UTF-8, None as a tombstone, anything else as JSON."""
Key = bytes | str | None
Values = Iterable[Value | Event]
AsyncValues = Iterable[Value | Event] | AsyncIterable[Value | Event]
HeadersLike = Mapping[str, bytes | str | None] | Iterable[tuple[str, bytes | str | None]]


class EventParts(TypedDict, total=False):
    """What an event may have besides its value; all of it is optional."""

    key: Key
    headers: HeadersLike
    timestamp_ms: int | None


_to_json = msgspec.json.Encoder().encode
_check_numbers = json.JSONEncoder(allow_nan=False, default=msgspec.to_builtins).encode


def make_event(
    value: Value, key: Key = None, headers: HeadersLike = (), timestamp_ms: int | None = None
) -> Event:
    """Make an event from its value, key, headers and timestamp."""
    return Event(
        value_bytes(value),
        key if key is None else key_bytes(key),
        header_pairs(headers) if headers else (),
        NO_TIMESTAMP if timestamp_ms is None else timestamp_ms,
    )


def event_of(value: Value | Event) -> Event:
    """Return an event unchanged; make an event of any other value, without key and headers."""
    return value if isinstance(value, Event) else Event(value_bytes(value))


def value_bytes(value: Value) -> bytes | None:
    """Return a value as bytes: bytes as they are, text as UTF-8, None as None, the rest as JSON."""
    if type(value) is bytes or value is None:
        return value
    found = _plain_bytes(value, "value")
    return _json_bytes(value) if found is None else found


def key_bytes(key: Key) -> bytes | None:
    """Return a key as bytes: bytes as they are, text as UTF-8, None as None.

    Raises InvalidEvent for other types.
    """
    if type(key) is bytes or key is None:
        return key
    found = _plain_bytes(key, "key")
    if found is None:
        kind = type(key).__name__
        raise InvalidEvent(f"a key is text or bytes, not {kind}: use str() or encode it")
    return found


def header_pairs(headers: HeadersLike) -> Headers:
    """Return headers as ordered pairs of a text and bytes."""
    if not headers:
        return ()
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    try:
        return tuple((_name(name), key_bytes(value)) for name, value in pairs)
    except (TypeError, ValueError) as error:
        raise InvalidEvent(f"headers are a mapping, or pairs of name and value: {error}") from None


def _name(name: str) -> str:
    if not isinstance(name, str):
        raise InvalidEvent(f"a header's name is text, not {type(name).__name__}")
    _utf8(name, "header name")
    return name


def _plain_bytes(value: object, what: str) -> bytes | None:
    """Return text as UTF-8, any type of bytes as ``bytes``, None for anything else.

    Raises InvalidEvent, naming the value ``what``, for text that is not valid Unicode.
    """
    if isinstance(value, str):
        return _utf8(value, what)
    return bytes(value) if isinstance(value, bytes | bytearray | memoryview) else None


def _utf8(text: str, what: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise InvalidEvent(f"the {what} is not valid Unicode: {error}") from None


def _json_bytes(value: object) -> bytes:
    try:
        encoded = _to_json(value)
        # msgspec would write NaN and infinities as null, which would change the value.
        if b"null" in encoded:
            _check_numbers(value)
    except (TypeError, ValueError, RecursionError, msgspec.MsgspecError) as error:
        raise InvalidEvent(f"the value cannot be written as JSON: {error}") from None
    return encoded
