"""Converts AMQP messages to events, and events to messages.

| message | event |
|---|---|
| body | value |
| properties, and headers that are text, numbers or booleans | headers of the same names, as text |
| exchange and routing key, if there is an exchange | ``amqp-exchange``, ``amqp-routing-key`` |
| that it is a dead letter | ``amqp-dead-letter`` |
| exchange, routing key, properties, all as they came | the header ``mainstem-native`` |

AMQP consumers get the exchange, routing key and properties of ``mainstem-native``; all other
readers use the other headers. An event published over another protocol has no such header: its AMQP
properties are derived from its headers.
"""

from functools import lru_cache

from mainstem.core.event import NATIVE_HEADER, NO_TIMESTAMP, Event, Headers
from mainstem.heads.amqp091 import codec, fields
from mainstem.heads.amqp091.messages import Publish
from mainstem.heads.amqp091.properties import (
    NO_PROPERTIES,
    Properties,
    decode_properties,
    encode_properties,
)

HEADER_EXCHANGE = "amqp-exchange"
HEADER_ROUTING_KEY = "amqp-routing-key"
DEAD_LETTER = ("amqp-dead-letter", b"true")
"""The event header of messages that the server dead-lettered, so that their ``x-death`` is valid.
"""

_NATIVE = b"amqp091\0"
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
"""Maps event headers to the text properties of a message that they carry."""
_NUMBERS = {"delivery-mode": "delivery_mode", "priority": "priority", "timestamp": "timestamp"}
_SHORT_BYTES = fields.MAX_SHORT_BYTES


Content = tuple[bytes, bytes]
"""The route (exchange and routing key) and the properties of a message, encoded as in frames."""


def event_of(message: Publish) -> Event:
    """Return the event for a message; raises AmqpError if its properties are malformed."""
    return Event(message.body, None, headers_of(message.target.route, message.properties))


def headers_of(route: bytes, properties: bytes) -> Headers:
    """Return the event headers for a message with this encoded route and properties."""
    if len(properties) <= _CACHED_BYTES:
        return _cached_headers(route, properties)
    return _headers(route, properties)


def _headers(route: bytes, properties: bytes) -> Headers:
    native = (NATIVE_HEADER, _NATIVE + route + properties)
    found: dict[str, bytes] = {}
    if route[0]:
        end = 1 + route[0]
        found[HEADER_EXCHANGE], found[HEADER_ROUTING_KEY] = route[1:end], route[end + 1 :]
    if properties == NO_PROPERTIES:
        return (*found.items(), native)
    said = decode_properties(properties)
    for name, field in (*_TEXTS.items(), *_NUMBERS.items()):
        value = getattr(said, field)
        if value is not None:
            found[name] = str(value).encode()
    for name, value in (said.headers or {}).items():
        text = _text(value)
        if text is not None:
            found.setdefault(name, text)
    return (*found.items(), native)


_cached_headers = lru_cache(4096)(_headers)


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


def is_dead_letter(event: Event) -> bool:
    """Return whether a queue dead-lettered the event, so that its ``x-death`` is the server's."""
    return DEAD_LETTER in event.headers


def native_content(headers: Headers) -> Content | None:
    """Return the route and properties that an AMQP client published; None if no AMQP client did."""
    for name, value in headers:
        if name == NATIVE_HEADER and value is not None and value.startswith(_NATIVE):
            at = len(_NATIVE)
            end = at + 1 + value[at]
            end += 1 + value[end]
            return value[at:end], value[end:]
    return None


def content_of(event: Event, queue: str) -> Content:
    """Return the route and properties of an event; without a stored route, the key is ``queue``."""
    found = native_content(event.headers)
    if found is not None:
        return found
    return codec.route_of("", queue), encode_properties(_foreign_properties(event))


def _foreign_properties(event: Event) -> Properties:
    """Derive AMQP properties from an event of another protocol."""
    known: dict[str, object] = {}
    table: dict[str, fields.Value] = {}
    for name, value in event.headers:
        text = _decoded(value or b"")
        if isinstance(text, str) and name in _TEXTS and len(value or b"") <= _SHORT_BYTES:
            known[_TEXTS[name]] = text
        elif isinstance(text, str) and name in _NUMBERS and _fits(name, text):
            known[_NUMBERS[name]] = int(text)
        elif len(name.encode()) <= _SHORT_BYTES:
            table[name] = text
    if event.key is not None:
        table["mainstem-key"] = _decoded(event.key)
    if "timestamp" not in known and event.timestamp_ms != NO_TIMESTAMP:
        known["timestamp"] = max(0, event.timestamp_ms // 1000)
    return Properties(headers=table or None, **known)  # type: ignore[arg-type]


def _decoded(value: bytes) -> str | bytes:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value


def _fits(name: str, text: str) -> bool:
    return text.isdecimal() and len(text) <= 18 and (name == "timestamp" or int(text) < 256)
