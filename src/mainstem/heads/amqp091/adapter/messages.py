"""Converts AMQP messages to events, and events to messages.

| message | event |
|---|---|
| body | value |
| properties, and headers that are text, numbers or booleans | headers of the same names, as text |
| exchange and routing key, if there is an exchange | ``amqp-exchange``, ``amqp-routing-key`` |
| that it is a dead letter | ``amqp-dead-letter`` |
| that it is in several queues | ``mainstem-id``, the same in all of them |
| exchange, routing key, properties, all as they came | the header ``mainstem-native`` |

AMQP consumers get the exchange, routing key and properties of ``mainstem-native``; all other
readers use the other headers. An event published over another protocol has no such header: its AMQP
properties are derived from its headers.

Producers of other protocols may write any header. So the server signs ``mainstem-native`` with a
secret of its own. From a header without a signature, as older versions wrote it, it reads route and
properties only if they are well-formed, and never that the message is a dead letter.
"""

from functools import lru_cache
from hashlib import blake2b
from hmac import compare_digest
from typing import NamedTuple

from msgspec.structs import replace

from mainstem.broker.door import Delivery
from mainstem.core.event import ID_HEADER, NATIVE_HEADER, NO_TIMESTAMP, Event, Headers
from mainstem.heads.amqp091 import codec, fields
from mainstem.heads.amqp091.errors import AmqpError
from mainstem.heads.amqp091.properties import (
    NO_PROPERTIES,
    Properties,
    decode_properties,
    encode_properties,
)

HEADER_EXCHANGE = "amqp-exchange"
HEADER_ROUTING_KEY = "amqp-routing-key"
HEADER_DEAD_LETTER = "amqp-dead-letter"
HEADER_KEY = "mainstem-key"
DELIVERY_COUNT = "x-delivery-count"
SECRET_BYTES = 32
MAX_FOREIGN_BYTES = 64 * 1024
"""Maximum size of properties that are derived from an event; headers beyond it are left out."""

_NATIVE = b"amqp091\1"
_UNSIGNED = b"amqp091\0"
"""How the header began in versions that did not sign it; older data directories have such events.
"""
_SIGNATURE_BYTES = 12
_SIGNED_AT = len(_NATIVE) + _SIGNATURE_BYTES
_PUBLISHED, _DEAD = b"\0", b"\1"
"""The first signed byte: whether a client published the message, or a queue dead-lettered it."""
_CACHED_BYTES = 128
_TEXTS = {
    "content-type": "content_type",
    "content-encoding": "content_encoding",
    "correlation-id": "correlation_id",
    "reply-to": "reply_to",
    "expiration": "expiration",
    "message-id": "message_id",
    "type": "type",
    "user-id": "user_id",
    "app-id": "app_id",
}
"""The event header for each property of a message that is a text."""
_NUMBERS = {"delivery-mode": "delivery_mode", "priority": "priority", "timestamp": "timestamp"}
_RESERVED = frozenset(
    (
        NATIVE_HEADER,
        HEADER_EXCHANGE,
        HEADER_ROUTING_KEY,
        HEADER_DEAD_LETTER,
        HEADER_KEY,
        ID_HEADER,
        # A header of this name has no effect; only the property expires a message.
        "expiration",
    )
)
"""Event headers with a meaning: a publisher's own headers of these names are for AMQP only."""
_SHORT_BYTES = fields.MAX_SHORT_BYTES
_VALUE_BYTES = 6
"""Bytes of a table's entry in addition to its name and value."""


class Content(NamedTuple):
    """A message without its body: encoded route (exchange and routing key) and properties."""

    route: bytes
    properties: bytes
    is_dead_letter: bool = False
    """Whether a queue dead-lettered the message, so that its ``x-death`` is the server's."""


def with_delivery_count(properties: bytes, delivery: Delivery) -> bytes:
    """Add the header x-delivery-count of RabbitMQ's quorum queues, except to a first delivery."""
    count = max(delivery.count - 1, int(delivery.redelivered))
    if not count:
        return properties
    said = decode_properties(properties)
    headers = {**(said.headers or {}), DELIVERY_COUNT: fields.Long(count)}
    return encode_properties(replace(said, headers=headers))


class MessageFormat:
    """Converts a message's route and properties to event headers, and back.

    The header ``mainstem-native`` has both as they came, signed by the server, because producers of
    other protocols can write a header of that name, too.
    """

    def __init__(self, secret: bytes) -> None:
        """``secret``: SECRET_BYTES random bytes, the same in every process of a data directory."""
        self._mac = blake2b(key=secret, digest_size=_SIGNATURE_BYTES)
        self._cached_headers = lru_cache(4096)(self._headers)
        self._cached_content = lru_cache(4096)(self._content)

    def headers_of(
        self, route: bytes, properties: bytes, *, is_dead_letter: bool = False
    ) -> Headers:
        """Return the event headers for a message with this encoded route and properties."""
        if len(properties) <= _CACHED_BYTES:
            return self._cached_headers(route, properties, is_dead_letter)
        return self._headers(route, properties, is_dead_letter)

    def signed_content(self, headers: Headers) -> Content | None:
        """Return the route and properties that this server has signed, None if there are none."""
        for name, value in headers:
            if name == NATIVE_HEADER and value is not None and value.startswith(_NATIVE):
                small = len(value) <= 2 * _CACHED_BYTES
                found = self._cached_content(value) if small else self._content(value)
                if found is not None:
                    return found
        return None

    def content_of(self, event: Event, queue: str, most: int = MAX_FOREIGN_BYTES) -> Content:
        """Return the route and properties of an event.

        If its headers have none that are valid, the properties are derived from its other headers,
        up to ``most`` bytes, the exchange is the default one, and the routing key is ``queue``.
        """
        found = self.signed_content(event.headers) or _unsigned_content(event.headers, most)
        if found is not None:
            return found
        return Content(codec.route_of("", queue), _foreign_properties(event, most))

    def _headers(self, route: bytes, properties: bytes, is_dead_letter: bool) -> Headers:
        signed = (_DEAD if is_dead_letter else _PUBLISHED) + route + properties
        end: Headers = ((NATIVE_HEADER, _NATIVE + self._signature(signed) + signed),)
        if is_dead_letter:
            end = (*end, (HEADER_DEAD_LETTER, b"true"))
        found: dict[str, bytes] = {}
        if route[0]:
            at = 1 + route[0]
            found[HEADER_EXCHANGE], found[HEADER_ROUTING_KEY] = route[1:at], route[at + 1 :]
        if properties == NO_PROPERTIES:
            return (*found.items(), *end)
        said = decode_properties(properties)
        for name, field in (*_TEXTS.items(), *_NUMBERS.items()):
            value = getattr(said, field)
            if value is not None:
                found[name] = str(value).encode()
        for name, value in (said.headers or {}).items():
            text = None if name in _RESERVED else _text(value)
            if text is not None:
                found.setdefault(name, text)
        return (*found.items(), *end)

    def _content(self, value: bytes) -> Content | None:
        signed = value[_SIGNED_AT:]
        if not compare_digest(value[len(_NATIVE) : _SIGNED_AT], self._signature(signed)):
            return None
        end = 2 + signed[1]
        end += 1 + signed[end]
        return Content(signed[1:end], signed[end:], signed[:1] == _DEAD)

    def _signature(self, signed: bytes) -> bytes:
        mac = self._mac.copy()
        mac.update(signed)
        return mac.digest()


def _unsigned_content(headers: Headers, most: int) -> Content | None:
    """Return the route and properties in an unsigned header; None if absent, invalid or too large.

    Older versions of this server wrote such headers, but any producer can write them, too.
    """
    native = next((value for name, value in headers if name == NATIVE_HEADER), None)
    if native is None or not native.startswith(_UNSIGNED):
        return None
    stored = native[len(_UNSIGNED) :]
    try:
        middle = 1 + stored[0]
        end = middle + 1 + stored[middle]
        route, properties = stored[:end], stored[end:]
        stored[1:middle].decode(), stored[middle + 1 : end].decode()
        decode_properties(properties)
    except (IndexError, UnicodeDecodeError, AmqpError):
        return None
    return Content(route, properties) if len(properties) <= most else None


def _text(value: object) -> bytes | None:
    """Convert a header value to text for other protocols; None if it has no text form."""
    match value:
        case str():
            return value.encode()
        case bool():
            return b"true" if value else b"false"
        case int() | float():
            return str(value).encode()
        case _:
            return None


def _foreign_properties(event: Event, most: int) -> bytes:
    """Derive AMQP properties from an event of another protocol."""
    known: dict[str, object] = {}
    table: dict[str, str | bytes] = {}
    if event.key is not None:
        table[HEADER_KEY] = _decoded(event.key)
    for name, value in event.headers:
        text = _decoded(value or b"")
        if isinstance(text, str) and name in _TEXTS and len(value or b"") <= _SHORT_BYTES:
            known[_TEXTS[name]] = text
        elif isinstance(text, str) and name in _NUMBERS and _fits(name, text):
            known[_NUMBERS[name]] = int(text)
        elif name not in (NATIVE_HEADER, HEADER_KEY) and len(name.encode()) <= _SHORT_BYTES:
            table[name] = text
    if "timestamp" not in known and event.timestamp_ms != NO_TIMESTAMP:
        known["timestamp"] = max(0, event.timestamp_ms // 1000)
    said = Properties(headers=table or None, **known)  # type: ignore[arg-type]
    raw = encode_properties(said)
    if len(raw) <= most:
        return raw
    room = most - len(encode_properties(Properties(headers={}, **known)))  # type: ignore[arg-type]
    fitting: dict[str, str | bytes] = {}
    for name, carried in table.items():
        encoded = carried.encode() if isinstance(carried, str) else carried
        size = _VALUE_BYTES + len(name.encode()) + len(encoded)
        if size <= room:
            fitting[name] = carried
            room -= size
    return encode_properties(Properties(headers=fitting or None, **known))  # type: ignore[arg-type]


def _decoded(value: bytes) -> str | bytes:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value


def _fits(name: str, text: str) -> bool:
    return text.isdecimal() and len(text) <= 18 and (name == "timestamp" or int(text) < 256)
