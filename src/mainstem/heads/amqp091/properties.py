"""Message properties, as a content header contains them.

Consumers get the same bytes that the publisher sent. So properties are decoded before a message is
accepted, even if none is used: malformed ones would break the message's consumers.
"""

from collections.abc import Callable
from functools import lru_cache
from struct import Struct

import msgspec

from mainstem.heads.amqp091 import fields
from mainstem.heads.amqp091.errors import AmqpError

NO_PROPERTIES = b"\0\0"
_CACHED_BYTES = 128
"""Maximum size of properties whose decoded form is cached: short ones repeat, while longer ones
usually contain an id or a time.
"""


class Properties(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The properties of a message; None for absent ones. The headers must not be modified."""

    content_type: str | None = None
    content_encoding: str | None = None
    headers: fields.Table | None = None
    delivery_mode: int | None = None
    priority: int | None = None
    correlation_id: str | None = None
    reply_to: str | None = None
    expiration: str | None = None
    message_id: str | None = None
    timestamp: int | None = None
    """Seconds since 1970."""
    type: str | None = None
    user_id: str | None = None
    app_id: str | None = None
    cluster_id: str | None = None


_U16 = Struct(">H")
_U64 = Struct(">Q")
# Bit 15 is the first property; bit 0 says that more flags follow, and there are none [4.2.6.1].
_FLAGS = tuple((1 << 15 - place, name) for place, name in enumerate(Properties.__struct_fields__))
_UNKNOWN = 0xFFFF & ~sum(flag for flag, _ in _FLAGS)


def _read_octet(raw: bytes, at: int, end: int) -> tuple[int, int]:
    if at >= end:
        raise fields.malformed("a property is missing")
    return raw[at], at + 1


def _read_timestamp(raw: bytes, at: int, end: int) -> tuple[int, int]:
    if at + 8 > end:
        raise fields.malformed("a timestamp goes past the end")
    return _U64.unpack_from(raw, at)[0], at + 8


_READ: dict[str, Callable[[bytes, int, int], tuple[object, int]]] = {
    "headers": fields.read_table,
    "delivery_mode": _read_octet,
    "priority": _read_octet,
    "timestamp": _read_timestamp,
}
_WRITE: dict[str, Callable[..., bytes]] = {
    "headers": fields.table,
    "delivery_mode": Struct(">B").pack,
    "priority": Struct(">B").pack,
    "timestamp": _U64.pack,
}
"""Encoders by property; properties not listed here are short strings."""


def decode_properties(raw: bytes) -> Properties:
    """Decode property flags and properties, as in a content header; AmqpError if malformed."""
    return _cached(raw) if len(raw) <= _CACHED_BYTES else _decode(raw)


def _decode(raw: bytes) -> Properties:
    try:
        return _properties(raw)
    except AmqpError as error:
        raise AmqpError(error.code, f"{error.detail}, in a content header", 60, 40) from None


_cached = lru_cache(1024)(_decode)


def _properties(raw: bytes) -> Properties:
    end = len(raw)
    if end < 2:
        raise fields.malformed("no property flags")
    flags = _U16.unpack_from(raw)[0]
    if flags & _UNKNOWN:
        raise fields.malformed(f"unknown property flags {flags & _UNKNOWN:#x}")
    found: dict[str, object] = {}
    at = 2
    for flag, name in _FLAGS:
        if not flags & flag:
            continue
        found[name], at = _READ.get(name, fields.read_short_string)(raw, at, end)
    if at != end:
        raise fields.malformed(f"{end - at} bytes too many")
    return Properties(**found)  # type: ignore[arg-type]


def encode_properties(properties: Properties) -> bytes:
    """Encode property flags and properties, as in a content header."""
    flags = 0
    parts = [b""]
    for flag, name in _FLAGS:
        value = getattr(properties, name)
        if value is not None:
            flags |= flag
            parts.append(_WRITE.get(name, fields.short_string)(value))
    parts[0] = _U16.pack(flags)
    return b"".join(parts)
