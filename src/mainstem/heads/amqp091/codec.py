"""AMQP 0-9-1 frames: where they end, and those with content written in one go.

Reference: AMQP 0-9-1 (sections in brackets), as RabbitMQ speaks it.

A frame is a type, a channel, the payload's size, the payload, and the octet 0xCE [2.3.5]. A
message is a method frame, a content header frame (size and properties), and body frames [4.2.6].

Messages are the hot path, so they are read (``session.py``) and written (here) by hand, with the
bytes that need no decoding left as they are:

``route``       exchange and routing key, two short strings as they stand in BasicPublish. They
                stand just so in BasicDeliver, BasicGetOk and BasicReturn: keep them with a message,
                use them as the key of a cache of routes, and pass them on.
``properties``  flags and properties, as they stand in a content header (``properties.py``).

All other methods are read and written by ``methods.py``.
"""

from struct import Struct

from mainstem.heads.amqp091.errors import AmqpError, ReplyCode
from mainstem.heads.amqp091.fields import short_string
from mainstem.heads.amqp091.methods import Bare, Method, encode_method

PROTOCOL_HEADER = b"AMQP\x00\x00\x09\x01"
METHOD, HEADER, BODY, HEARTBEAT = 1, 2, 3, 8
FRAME_END = 0xCE
FRAME_OVERHEAD = 8
"""Bytes of a frame beside its payload."""
MIN_FRAME_MAX = 4096
"""What every peer takes [1.1, frame-min-size]."""
HEARTBEAT_FRAME = b"\x08\0\0\0\0\0\0\xce"
HEAD = Struct(">BHI")
"""Type, channel, and size of the payload."""

_ENDED = b"\xce"
_JOINED_BYTES = 16 * 1024
"""Larger bodies are pieces of their own: copying them costs more than a longer list of pieces."""
_METHOD = Struct(">BHIHH")
_TAG = Struct(">QB")
_COUNT = Struct(">I")
_CONTENT = Struct(">BBHIHHQ")
_BODY = Struct(">BBHI")
_SETTLED = Struct(">BHIHHQBB")


def frame_size(view: memoryview, frame_max: int) -> int | None:
    """Return the size of the frame that begins here, None if more has to come to tell.

    AmqpError for one over the limit. As RabbitMQ does, clients are let off 8 bytes: some count only
    the payload.
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
    """Write a frame."""
    return HEAD.pack(kind, channel, len(payload)) + payload + _ENDED


def method_frame(channel: int, method: Method | Bare) -> bytes:
    """Write a method that has no content."""
    return frame(METHOD, channel, encode_method(method))


def ack_frame(channel: int, delivery_tag: int, *, multiple: bool = False) -> bytes:
    """Confirm a publish, or all up to it."""
    return _SETTLED.pack(METHOD, channel, 13, 60, 80, delivery_tag, multiple, FRAME_END)


def nack_frame(channel: int, delivery_tag: int, *, multiple: bool = False) -> bytes:
    """Say that a publish, or all up to it, was not taken."""
    return _SETTLED.pack(METHOD, channel, 13, 60, 120, delivery_tag, multiple, FRAME_END)


def route_of(exchange: str, routing_key: str) -> bytes:
    """Return an exchange and a routing key as they stand in a method."""
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
    """Write BasicDeliver with its content; ``consumer_tag`` as ``short_string`` writes it."""
    method = _METHOD.pack(METHOD, channel, len(consumer_tag) + len(route) + 13, 60, 60)
    tag, size = _TAG.pack(delivery_tag, redelivered), len(body)
    if not 0 < size <= _JOINED_BYTES or size > frame_max - FRAME_OVERHEAD:
        said = b"".join((method, consumer_tag, tag, route))
        return _with_content(said, channel, properties, body, frame_max)
    # As _with_content does, but in one step: nearly all messages are small.
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
    """Write BasicGetOk with its content."""
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
    """Write BasicReturn with its content."""
    why = code.to_bytes(2, "big") + short_string(text)
    method = _METHOD.pack(METHOD, channel, len(why) + len(route) + 4, 60, 50)
    said = b"".join((method, why, route))
    return _with_content(said, channel, properties, body, frame_max)


def _with_content(
    method: bytes, channel: int, properties: bytes, body: bytes, frame_max: int
) -> list[bytes | memoryview]:
    """Write a method, given short of its end, the content header and the body."""
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
