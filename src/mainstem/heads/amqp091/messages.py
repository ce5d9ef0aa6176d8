"""Messages that clients publish: assembles BasicPublish, content header and body.

How this works: the frames of a message may arrive one by one, on many channels at a time; each
channel keeps those that have arrived (``Channel.add_content``). But nearly always whole messages
arrive, and many at once: ``take_run`` then decodes each message in one step, without keeping
anything.
"""

from functools import lru_cache
from struct import Struct

import msgspec

from mainstem.heads.amqp091 import codec, fields
from mainstem.heads.amqp091.errors import AmqpError, ReplyCode
from mainstem.heads.amqp091.methods import BasicAck, BasicNack, BasicPublish, BasicReject

PUBLISH, ACK, REJECT, NACK = (b"\0\x3c\0" + bytes((each,)) for each in (40, 80, 90, 120))
_CONTENT = Struct(">BHIHHQ")
TAG = Struct(">QB")
_BEFORE_PROPERTIES = 19
"""Size of a content header frame up to the property flags, in bytes."""
_PART_BYTES = 128 * 1024
"""Size of a body frame as most clients send it: memory counted ahead for an incomplete message."""
SETTLE_BYTES = 21
"""Size of a BasicAck, BasicNack or BasicReject frame; no complete message is shorter."""


class Target(msgspec.Struct, frozen=True, gc=False):
    """The exchange, routing key and flags of BasicPublish; shared by publishes of equal bytes."""

    exchange: str
    routing_key: str
    mandatory: bool
    route: bytes
    """Exchange and routing key as received bytes, which ``deliver_frames`` sends on unchanged."""


class Publish(msgspec.Struct, frozen=True, gc=False):
    """A published message: BasicPublish with properties and body."""

    target: Target
    properties: bytes
    """The properties as received bytes; ``properties.decode_properties`` decodes and checks them.
    """
    body: bytes

    @property
    def size(self) -> int:
        """Approximate size of the message in memory."""
        return len(self.body) + len(self.properties) + len(self.target.route)


Said = Publish | BasicAck | BasicNack | BasicReject


class Channel:
    """One open channel of the connection, and the message on it that is not complete yet."""

    __slots__ = ("_came", "_left", "_parts", "_properties", "_target", "busy", "closing")

    def __init__(self) -> None:
        self.closing = False
        """Whether we have sent Channel.Close and wait for CloseOk."""
        self.busy = False
        """Whether frames must go through the slow path: a message is incomplete, or ``closing`` is
        set.
        """
        self._begin()

    def _begin(self) -> None:
        self._target: Target | None = None
        self._properties: bytes | None = None
        self._parts: list[bytes] = []
        self._came = 0
        self._left = 0

    @property
    def held(self) -> int:
        """Bytes used by the incomplete message, and reserved for its next body frame."""
        return self._came + len(self._properties or b"") + min(self._left, _PART_BYTES)

    def close(self) -> None:
        """Drop the incomplete message, and ignore frames until CloseOk arrives."""
        self.closing = self.busy = True
        self._begin()

    def publish(self, said: bytes) -> None:
        """Start a message from the fields of a BasicPublish; its content must follow."""
        self._target = target_of(said)
        self.busy = True

    def add_content(self, kind: int, frame: memoryview, max_bytes: int) -> Publish | None:
        """Add a content header or body frame; return the message if it is now complete."""
        assert self._target is not None
        if self._properties is None:
            self._properties = self._content_header(kind, frame, max_bytes)
            body = b""
        else:
            body = self._add_body(kind, frame[7:-1])
        if self._left:
            return None
        done = Publish(self._target, self._properties, body)
        self.busy = False
        self._begin()
        return done

    def _content_header(self, kind: int, frame: memoryview, max_bytes: int) -> bytes:
        if kind != codec.HEADER:
            got = "got non content header frame instead"
            raise _unexpected(f"expected content header for class 60, {got}")
        if len(frame) < _BEFORE_PROPERTIES + 3:
            detail = "a content header is too short"
            raise AmqpError(ReplyCode.SYNTAX_ERROR, detail, *BasicPublish.ids)
        _, _, _, class_id, weight, size = _CONTENT.unpack_from(frame)
        if class_id != 60:
            got = f"got one for class {class_id} instead"
            raise _unexpected(f"expected content header for class 60, {got}")
        if weight:
            raise _unexpected(f"expected a content header of weight 0, not {weight}")
        if size > max_bytes:
            detail = f"message size {size} is larger than configured max size {max_bytes}"
            raise AmqpError(ReplyCode.PRECONDITION_FAILED, detail, *BasicPublish.ids)
        self._left = size
        return bytes(frame[_BEFORE_PROPERTIES:-1])

    def _add_body(self, kind: int, part: memoryview) -> bytes:
        """Add the payload of a body frame; return the whole body if it is now complete."""
        if kind != codec.BODY:
            raise _unexpected("expected content body, got non content body frame instead")
        if len(part) > self._left:
            detail = "content body frame exceeds remaining content size"
            raise AmqpError(ReplyCode.FRAME_ERROR, detail, *BasicPublish.ids)
        self._left -= len(part)
        self._came += len(part)
        self._parts.append(bytes(part))
        if self._left:
            return b""
        return self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)


def take_run(  # noqa: C901 - calls are what costs most here
    data: bytes, channels: dict[int, Channel], max_bytes: int
) -> tuple[list[tuple[int, Said]], int]:
    """Decode messages and acknowledgements from the start of ``data``, until another frame.

    Returns pairs of channel and request, and the number of bytes decoded. Stops before any other
    method, an incomplete message, or an invalid frame.
    """
    found: list[tuple[int, Said]] = []
    stop, at = len(data), 0
    head, content, tag_of = codec.HEAD.unpack_from, _CONTENT.unpack_from, TAG.unpack_from
    while at + SETTLE_BYTES <= stop:
        kind, number, size = head(data, at)
        end = at + 7 + size
        channel = channels.get(number)
        if kind != 1 or channel is None or channel.busy or end >= stop or data[end] != 0xCE:
            break
        ids = data[at + 7 : at + 11]
        if ids != PUBLISH:
            said = settled(ids, size, *tag_of(data, at + 11))
            if said is None:
                break
            found.append((number, said))
            at = end + 1
            continue
        begin = end + 1
        if begin + _CONTENT.size > stop:
            break
        kind, again, size, class_id, weight, length = content(data, begin)
        until = begin + 7 + size
        if kind != 2 or again != number or class_id != 60 or weight or size < 14:
            break
        if length > max_bytes or until >= stop or data[until] != 0xCE:
            break
        properties, body = data[begin + _BEFORE_PROPERTIES : until], b""
        if length:
            begin = until + 1
            until = begin + 7 + length
            if until >= stop or data[until] != 0xCE or head(data, begin) != (3, number, length):
                break
            body = data[begin + 7 : until]
        try:
            target = target_of(data[at + 13 : end])
        except AmqpError:
            break
        found.append((number, Publish(target, properties, body)))
        at = until + 1
    return found, at


def settled(
    ids: bytes, size: int, tag: int, bits: int
) -> BasicAck | BasicNack | BasicReject | None:
    """Return the BasicAck, BasicNack or BasicReject with these class and method ids, tag and bits.

    None if the ids or the size are those of another method.
    """
    if size == 13:
        if ids == ACK:
            return BasicAck(tag, bits & 1 == 1)
        if ids == NACK:
            return BasicNack(tag, bits & 1 == 1, bits & 2 == 2)
        if ids == REJECT:
            return BasicReject(tag, bits & 1 == 1)
    return None


@lru_cache(4096)
def target_of(said: bytes) -> Target:
    """Decode the fields of a BasicPublish that begin with its exchange; raises AmqpError."""
    end = len(said) - 1
    try:
        exchange, at = fields.read_short_string(said, 0, end)
        routing_key, at = fields.read_short_string(said, at, end)
        if at != end:
            raise fields.malformed(f"{end - at} bytes too many in a method frame")
    except AmqpError as error:
        raise AmqpError(error.code, error.detail, *BasicPublish.ids) from None
    if said[end] & 2:
        raise AmqpError(ReplyCode.NOT_IMPLEMENTED, "immediate=true", *BasicPublish.ids)
    return Target(exchange, routing_key, said[end] & 1 == 1, said[:end])


def _unexpected(detail: str) -> AmqpError:
    return AmqpError(ReplyCode.UNEXPECTED_FRAME, detail, *BasicPublish.ids)
