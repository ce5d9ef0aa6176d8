"""The frames of messages: published events, and requests for replay with their answers.

A published event has three frames: its subject (topic, ``/``, key), its value, and its details. The
details are 29 bytes, big-endian: partition (4), offset (8), the offset after which it follows (8),
timestamp in ms (8), flags (1: 1 = no key, 2 = no value); then the headers: name length (2), name,
value length (4; 0xFFFFFFFF = no value), value. Headers with longer names are left out.

A request's frames, in ASCII: ``REPLAY topic partition offset`` or ``BOUNDS topic``. Frames up to an
empty one (the envelope of a REQ socket) are returned at the start of the answer. Answers: ``EVENTS
topic partition first next tail`` and three frames for each event, ``BOUNDS topic port`` and a frame
``start tail`` for each partition, or ``ERROR failure text``.
"""

import struct
from collections.abc import Iterator, Sequence

import msgspec

from mainstem.core.errors import Failure, MainstemError
from mainstem.core.event import Event, Headers

REPLAY, BOUNDS, EVENTS, ERROR = b"REPLAY", b"BOUNDS", b"EVENTS", b"ERROR"
FRAMES_PER_EVENT = 3
_DETAILS = struct.Struct(">IQQqB")
_WHOLE = struct.Struct(">xIIQQqBI")
"""Layout of an event in one message, after the subject: a NUL, the length of the details, the
details without headers, and the length of the value.
"""
_NAME = struct.Struct(">H")
_VALUE = struct.Struct(">I")
MAX_NAME_BYTES = 65_535
"""Maximum size of a header's name."""
_NO_KEY, _NO_VALUE = 1, 2
_NULL = 0xFFFFFFFF
_NUL = b"\xc0\x80"
_MAX_NUMBER = 2**63 - 1


class BadMessage(MainstemError, failure=Failure.INVALID):
    """A message does not have the format of this protocol."""


class Replay(msgspec.Struct, frozen=True):
    """A request for the events of a partition from an offset on."""

    topic: str
    partition: int
    offset: int


class BoundsOf(msgspec.Struct, frozen=True):
    """A request for the first and last offsets of a topic's partitions."""

    topic: str


class Published(msgspec.Struct, frozen=True):
    """An event, with the offset from which on no event precedes it in its partition."""

    event: Event
    after: int
    """No event of the partition is between this offset and the event's."""


class Events(msgspec.Struct, frozen=True):
    """The answer to a request for replay."""

    topic: str
    partition: int
    first: int
    """The requested offset, or the start of the log if retention has deleted that."""
    next: int
    """The offset for the next request."""
    tail: int
    """The end of the partition when it was read."""
    events: tuple[Published, ...]


class TopicBounds(msgspec.Struct, frozen=True):
    """The answer to a request for the offsets of a topic's partitions."""

    topic: str
    port: int
    """The port of the PUB socket."""
    partitions: tuple[tuple[int, int], ...]
    """Start and tail of each partition."""


class Refusal(msgspec.Struct, frozen=True):
    """The answer to a request that was refused."""

    failure: str
    text: str


Request = Replay | BoundsOf
Answer = Events | TopicBounds | Refusal


def subject_of(event: Event) -> bytes:
    """Encode the first frame of an event, its subject, to which subscribers give a prefix."""
    return b"%s/%s" % (event.topic.encode(), event.key or b"")


def details_of(event: Event, after: int) -> bytes:
    """Encode the third frame of an event, its details."""
    flags = (_NO_KEY if event.key is None else 0) | (_NO_VALUE if event.value is None else 0)
    details = _DETAILS.pack(event.partition, event.offset, after, event.timestamp_ms, flags)
    return details + b"".join(_headers(event.headers)) if event.headers else details


def encode_event(event: Event, after: int) -> list[bytes]:
    """Encode an event as its three frames."""
    return [subject_of(event), event.value or b"", details_of(event, after)]


def decode_event(frames: Sequence[bytes]) -> Published:
    """Decode an event from its three frames; raises BadMessage."""
    try:
        subject, value, details = frames
        partition, offset, after, timestamp_ms, flags = _DETAILS.unpack_from(details)
        topic, slash, key = subject.partition(b"/")
        if not slash:
            raise BadMessage("the subject has no /")
        event = Event(
            None if flags & _NO_VALUE else value,
            None if flags & _NO_KEY else key,
            tuple(_read_headers(details)) if len(details) > _DETAILS.size else (),
            timestamp_ms,
            topic.decode(),
            partition,
            offset,
        )
    except (ValueError, struct.error) as error:
        raise BadMessage(f"no event: {error}") from None
    return Published(event, after)


def encode_request(request: Request) -> list[bytes]:
    """Encode a request as frames, without an envelope."""
    if isinstance(request, BoundsOf):
        return [BOUNDS, request.topic.encode()]
    return [REPLAY, request.topic.encode(), *_ascii(request.partition, request.offset)]


def envelope_of(frames: Sequence[bytes]) -> int:
    """Return the number of frames of the envelope, which ends with the first empty frame; or 0."""
    return frames.index(b"") + 1 if b"" in frames else 0


def decode_request(frames: Sequence[bytes]) -> Request:
    """Decode a request from the frames after the envelope; raises BadMessage."""
    try:
        match frames:
            case [kind, topic] if kind == BOUNDS:
                return BoundsOf(topic.decode())
            case [kind, topic, partition, offset] if kind == REPLAY:
                return Replay(topic.decode(), _number(partition), _number(offset))
    except UnicodeDecodeError as error:
        raise BadMessage(f"the topic is not UTF-8: {error}") from None
    raise BadMessage("the frames are neither REPLAY topic partition offset nor BOUNDS topic")


def encode_answer(answer: Answer) -> list[bytes]:
    """Encode an answer as frames, without an envelope."""
    if isinstance(answer, Refusal):
        return [ERROR, answer.failure.encode(), answer.text.encode()]
    if isinstance(answer, TopicBounds):
        bounds = [b"%d %d" % each for each in answer.partitions]
        return [BOUNDS, answer.topic.encode(), *_ascii(answer.port), *bounds]
    numbers = _ascii(answer.partition, answer.first, answer.next, answer.tail)
    frames = [EVENTS, answer.topic.encode(), *numbers]
    for each in answer.events:
        frames += encode_event(each.event, each.after)
    return frames


def decode_answer(frames: Sequence[bytes]) -> Answer:
    """Decode an answer from the frames after the envelope; raises BadMessage."""
    try:
        match frames:
            case [kind, failure, text] if kind == ERROR:
                return Refusal(failure.decode(), text.decode())
            case [kind, topic, port, *bounds] if kind == BOUNDS:
                return TopicBounds(topic.decode(), int(port), tuple(map(_pair, bounds)))
            case [kind, topic, partition, first, following, tail, *rest] if kind == EVENTS:
                return Events(
                    topic.decode(),
                    int(partition),
                    *(int(first), int(following), int(tail)),
                    events=tuple(_events(rest)),
                )
    except ValueError as error:
        raise BadMessage(f"a bad answer: {error}") from None
    raise BadMessage("the frames are neither EVENTS, BOUNDS nor ERROR")


def _events(frames: Sequence[bytes]) -> Iterator[Published]:
    for at in range(0, len(frames), FRAMES_PER_EVENT):
        yield decode_event(frames[at : at + FRAMES_PER_EVENT])


def _headers(headers: Headers) -> Iterator[bytes]:
    for name, value in headers:
        said = name.encode()
        if len(said) > MAX_NAME_BYTES:
            # Any producer may have written such a header; it must not stop the publisher.
            continue
        yield _NAME.pack(len(said)) + said
        yield _VALUE.pack(_NULL) if value is None else _VALUE.pack(len(value)) + value


def _read_headers(details: bytes) -> Iterator[tuple[str, bytes | None]]:
    at = _DETAILS.size
    while at < len(details):
        name, at = _read(details, _NAME, at)
        value, at = _read(details, _VALUE, at)
        yield (name or b"").decode(), value


def _read(details: bytes, length: struct.Struct, at: int) -> tuple[bytes | None, int]:
    (size,) = length.unpack_from(details, at)
    at += length.size
    if length is _VALUE and size == _NULL and at >= _DETAILS.size:
        return None, at
    if at + size > len(details):
        raise BadMessage("a header goes beyond the frame")
    return details[at : at + size], at + size


def _ascii(*numbers: int) -> list[bytes]:
    return [b"%d" % each for each in numbers]


def _number(frame: bytes) -> int:
    # No int() of many digits, signs, or spaces.
    if not frame.isdigit() or len(frame) > 19 or int(frame) > _MAX_NUMBER:
        raise BadMessage(f"{frame[:30]!r} is no number from 0 to {_MAX_NUMBER}")
    return int(frame)


def _pair(frame: bytes) -> tuple[int, int]:
    start, tail = frame.split(b" ")
    return int(start), int(tail)


def joined(frames: Sequence[bytes]) -> bytes:
    """Join frames to one message, each after its length (4 bytes), for nng, which has no frames."""
    return b"".join(part for each in frames for part in (_VALUE.pack(len(each)), each))


def parted(data: bytes) -> list[bytes]:
    """Split a message that ``joined`` has made into its frames; raises BadMessage."""
    found, at = list[bytes](), 0
    while at < len(data):
        try:
            frame, at = _read(data, _VALUE, at)
        except struct.error as error:
            raise BadMessage(f"a frame has no length: {error}") from None
        found.append(frame or b"")
    return found


def encode_whole(event: Event, after: int) -> bytes:
    """Encode an event as one message that begins with its subject, for subscriptions by prefix.

    The message is the subject (a NUL in the key becomes C0 80), a NUL, and the frames of details
    and value, each preceded by its length.
    """
    return encode_after(f"{event.topic}/".encode(), event, after)


def encode_after(topic: bytes, event: Event, after: int) -> bytes:
    """Encode an event as ``encode_whole`` does; ``topic``: the encoded topic and ``/``."""
    key, value = event.key, event.value
    subject = topic
    if key:
        subject += key.replace(b"\0", _NUL) if b"\0" in key else key
    if event.headers:
        return subject + b"\0" + joined((details_of(event, after), value or b""))
    flags = (_NO_KEY if key is None else 0) | (_NO_VALUE if value is None else 0)
    value = value or b""
    details = event.partition, event.offset, after, event.timestamp_ms, flags
    return subject + _WHOLE.pack(_DETAILS.size, *details, len(value)) + value


def decode_whole(data: bytes) -> Published:
    """Decode an event from one message; raises BadMessage."""
    at = data.find(b"\0")
    begin = at + 1 + _VALUE.size
    end = begin + int.from_bytes(data[at + 1 : begin], "big")
    value = end + _VALUE.size
    if at < 0 or value + int.from_bytes(data[end:value], "big") != len(data):
        raise BadMessage("no event: details and value are expected after the subject")
    return decode_event([data[:at].replace(_NUL, b"\0"), data[value:], data[begin:end]])
