"""AMQP 0-9-1 frames: finds where they end, and encodes methods and messages.

Reference: AMQP 0-9-1 (sections in brackets), as RabbitMQ speaks it.

A frame is a type, a channel, the payload's size, the payload, and the octet 0xCE [2.3.5]. A message
is a method frame, a content header frame (size and properties), and body frames [4.2.6].

Messages are the hot path, so their decoder (``session.py``) and encoder (here) are written by hand,
and bytes that need no decoding are passed on unchanged:

``route``       exchange and routing key, two short strings. BasicPublish, BasicDeliver, BasicGetOk
                and BasicReturn encode them alike: so these bytes are kept with a message, passed
                on, and are the key of the cache of routes.
``properties``  flags and properties, encoded as in a content header (``properties.py``).

All other methods are encoded and decoded by ``methods.py``.
"""

from struct import Struct

from mainstem.heads.amqp091.errors import AmqpError, ReplyCode
from mainstem.heads.amqp091.fields import short_string
from mainstem.heads.amqp091.methods import Bare, Method, encode_method

PROTOCOL_HEADER = b"AMQP\x00\x00\x09\x01"
METHOD, HEADER, BODY, HEARTBEAT = 1, 2, 3, 8
FRAME_END = 0xCE
FRAME_OVERHEAD = 8
"""Bytes of a frame besides its payload."""
HEADER_BYTES = FRAME_OVERHEAD + 12
"""Bytes of a content header frame besides its properties."""
MIN_FRAME_MAX = 4096
"""The largest frame size that every peer must accept [1.1, frame-min-size]."""
HEARTBEAT_FRAME = b"\x08\0\0\0\0\0\0\xce"
HEAD = Struct(">BHI")
"""Layout of a frame's header: type, channel, and size of the payload."""

_ENDED = b"\xce"
_JOINED_BYTES = 16 * 1024
"""Bodies above this size are sent as separate buffers, as copying costs more than one more buffer.
"""
_METHOD = Struct(">BHIHH")
_TAG = Struct(">QB")
_COUNT = Struct(">I")
_CONTENT = Struct(">BBHIHHQ")
_BODY = Struct(">BBHI")
_SETTLED = Struct(">BHIHHQBB")


def frame_size(view: memoryview, frame_max: int) -> int | None:
    """Return the size of the frame that begins here, None if too few bytes have arrived.

    Raises AmqpError for a payload of more than ``frame_max`` bytes. The specification also counts
    the 8 other bytes of a frame; RabbitMQ does not either, because some clients do not.
    """
    if len(view) < HEAD.size:
        return None
    kind, _, size = HEAD.unpack_from(view)
    if size > frame_max:
        most = frame_max - FRAME_OVERHEAD
        raise AmqpError(
            ReplyCode.FRAME_ERROR,
            f"type {kind}, all octets = <<>>: {{frame_too_large,{size},{most}}}",
        )
    found: int = size + FRAME_OVERHEAD
    return found


def frame(kind: int, channel: int, payload: bytes) -> bytes:
    """Encode a frame from its payload."""
    return HEAD.pack(kind, channel, len(payload)) + payload + _ENDED


def method_frame(channel: int, method: Method | Bare) -> bytes:
    """Encode the frame of a method without content."""
    return frame(METHOD, channel, encode_method(method))


def ack_frame(channel: int, delivery_tag: int, *, multiple: bool = False) -> bytes:
    """Encode BasicAck: a publish, or with ``multiple`` all publishes up to it, was confirmed."""
    return _SETTLED.pack(METHOD, channel, 13, 60, 80, delivery_tag, multiple, FRAME_END)


def nack_frame(channel: int, delivery_tag: int, *, multiple: bool = False) -> bytes:
    """Encode BasicNack: a publish, or with ``multiple`` all publishes up to it, was not stored."""
    return _SETTLED.pack(METHOD, channel, 13, 60, 120, delivery_tag, multiple, FRAME_END)


def route_of(exchange: str, routing_key: str) -> bytes:
    """Encode an exchange and a routing key as two short strings, as they are in BasicPublish."""
    return short_string(exchange) + short_string(routing_key)


def deliver_frames(
    channel: int,
    consumer_tag: bytes,
    delivery_tag: int,
    redelivered: bool,
    route: bytes,
    properties: bytes,
    body: bytes,
    frame_max: int,
) -> list[bytes | memoryview]:
    """Encode BasicDeliver with properties and body; ``consumer_tag`` is an encoded short string."""
    method = _METHOD.pack(METHOD, channel, len(consumer_tag) + len(route) + 13, 60, 60)
    tag, size = _TAG.pack(delivery_tag, redelivered), len(body)
    if not 0 < size <= _JOINED_BYTES or size > frame_max - FRAME_OVERHEAD:
        said = b"".join((method, consumer_tag, tag, route))
        return _with_content(said, channel, properties, body, frame_max)
    # The same result as _with_content, but in one step: nearly all messages are small.
    header = _CONTENT.pack(FRAME_END, HEADER, channel, len(properties) + 12, 60, 0, size)
    first = _BODY.pack(FRAME_END, BODY, channel, size)
    parts = (method, consumer_tag, tag, route, header, properties, first, body, _ENDED)
    return [b"".join(parts)]


def get_ok_frames(
    channel: int,
    delivery_tag: int,
    redelivered: bool,
    route: bytes,
    message_count: int,
    properties: bytes,
    body: bytes,
    frame_max: int,
) -> list[bytes | memoryview]:
    """Encode BasicGetOk with properties and body."""
    method = _METHOD.pack(METHOD, channel, len(route) + 17, 60, 71)
    tag, count = _TAG.pack(delivery_tag, redelivered), _COUNT.pack(message_count)
    said = b"".join((method, tag, route, count))
    return _with_content(said, channel, properties, body, frame_max)


def return_frames(
    channel: int,
    code: ReplyCode,
    text: str,
    route: bytes,
    properties: bytes,
    body: bytes,
    frame_max: int,
) -> list[bytes | memoryview]:
    """Encode BasicReturn with properties and body."""
    why = code.to_bytes(2, "big") + short_string(text)
    method = _METHOD.pack(METHOD, channel, len(why) + len(route) + 4, 60, 50)
    said = b"".join((method, why, route))
    return _with_content(said, channel, properties, body, frame_max)


def _with_content(
    method: bytes, channel: int, properties: bytes, body: bytes, frame_max: int
) -> list[bytes | memoryview]:
    """Encode a method frame (given without its end octet), content header and body frames."""
    size, most = len(body), frame_max - FRAME_OVERHEAD
    header = _CONTENT.pack(FRAME_END, HEADER, channel, len(properties) + 12, 60, 0, size)
    if not size:
        return [b"".join((method, header, properties, _ENDED))]
    first = _BODY.pack(FRAME_END, BODY, channel, min(size, most))
    if size <= most and size <= _JOINED_BYTES:
        return [b"".join((method, header, properties, first, body, _ENDED))]
    view = memoryview(body)
    pieces: list[bytes | memoryview] = [b"".join((method, header, properties, first)), view[:most]]
    for at in range(most, size, most):
        part = view[at : at + most]
        pieces += (_BODY.pack(FRAME_END, BODY, channel, len(part)), part)
    pieces.append(_ENDED)
    return pieces
