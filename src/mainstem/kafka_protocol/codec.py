"""The frames of the Kafka protocol: requests and responses to bytes and back.

A frame is four bytes of length and what they count. Encoding gives both, decoding takes what is
counted: cutting the stream into frames is the session's work, because that is where the limit on
their size is known.

Which messages there are is said in ``messages``, one class each; how they are written is generated
from those classes when a version is first spoken (``decoders``, ``encoders``).
"""

from struct import Struct
from struct import error as StructError  # noqa: N812 - it is a class
from typing import TypeVar

import msgspec

from mainstem.core.wire import Piece, ProtocolError
from mainstem.kafka_protocol.api import Api
from mainstem.kafka_protocol.decoders import Decoder, decoder
from mainstem.kafka_protocol.encoders import encoder
from mainstem.kafka_protocol.fields import Wire
from mainstem.kafka_protocol.messages import APIS
from mainstem.kafka_protocol.messages.connection import API_VERSIONS
from mainstem.kafka_protocol.messages.consumer_protocol import CONSUMER_PROTOCOL_VERSION
from mainstem.kafka_protocol.primitives import Malformed, size_of, skip_tags

MAX_ELEMENTS = 200_000
"""Array elements and tagged fields in one request: the costliest ones decode to 55 MiB in 0.2 s."""

_HEAD_OF_REQUEST = Struct(">hhih")
_FRAMED_REQUEST = Struct(">ihhi")
_FRAMED_RESPONSE = Struct(">ii")
_INT32 = Struct(">i")
_INT16 = Struct(">h")
_LENGTH_SIZE = 4
_NO_TAGS = b"\0"
_NO_LIMIT = 2**31

W = TypeVar("W", bound=Wire)


class UnsupportedVersion(ProtocolError):
    """A request of an API or in a version that is not defined here; its id allows an answer."""

    def __init__(self, api_key: int, api_version: int, correlation_id: int) -> None:
        api = APIS.get(api_key)
        known = f"{api.name} is known in {api.first} to {api.last}" if api else "no such API"
        super().__init__(f"request of API {api_key} in version {api_version}: {known}")
        self.api_key, self.api_version = api_key, api_version
        self.correlation_id = correlation_id


class RequestHeader(msgspec.Struct, frozen=True, gc=False):
    """What stands before every request."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None


class Request(msgspec.Struct, frozen=True, gc=False):
    """A request and its header; the class of ``body`` says what is asked."""

    header: RequestHeader
    body: Wire


class Response(msgspec.Struct, frozen=True, gc=False):
    """A response and the id of the request that it answers."""

    correlation_id: int
    body: Wire


def decode_request(frame: memoryview, max_elements: int = MAX_ELEMENTS) -> Request:
    """Return the request in a frame; records in it are views of the frame.

    Raises UnsupportedVersion, or ProtocolError for anything else that is wrong.
    """
    if len(frame) < _HEAD_OF_REQUEST.size:
        raise ProtocolError(f"a frame of {len(frame)} bytes is too short for a request's header")
    key, version, correlation_id, length = _HEAD_OF_REQUEST.unpack_from(frame)
    known = _request_decoders.get((key, version))
    if known is None:
        known = _find_request_decoder(key, version, correlation_id)
    decode, flexible = known
    try:
        client_id, at = _read_client_id(frame, length)
        room = max_elements
        if flexible:
            at, room = _pass_tags(frame, at, room)
        body, _ = decode(frame, at, room)
    except (StructError, IndexError, ValueError) as error:
        raise _malformed(f"{APIS[key].name} request v{version}", error) from error
    # What follows is passed over, as Kafka does: librdkafka 2.16 leaves three bytes there when it
    # asks for the metadata of all topics.
    return Request(RequestHeader(key, version, correlation_id, client_id), body)


def encode_response(api_key: int, version: int, correlation_id: int, body: Wire) -> list[Piece]:
    """Return a response as a frame in pieces; records are a piece of their own unless small.

    Raises ValueError if the version cannot say what the body says.
    """
    api = APIS[api_key]
    frame: list[Piece] = []
    _encode(api.response, version, api.flexible(version), body, frame)
    tags = _NO_TAGS if _flexible_answer(api, version) else b""
    size = _INT32.size + len(tags) + sum(map(size_of, frame))
    frame[0] = _FRAMED_RESPONSE.pack(size, correlation_id) + tags + _bytes(frame[0])
    return frame


def encode_request(
    api_key: int, version: int, correlation_id: int, client_id: str | None, body: Wire
) -> list[Piece]:
    """Return a request as a frame in pieces, as ``encode_response`` does."""
    api = APIS[api_key]
    frame: list[Piece] = []
    _encode(api.request, version, api.flexible(version), body, frame)
    client = b"" if client_id is None else client_id.encode()
    head = _INT16.pack(-1 if client_id is None else len(client)) + client
    if api.flexible(version):
        head += _NO_TAGS
    size = _FRAMED_REQUEST.size - _LENGTH_SIZE + len(head) + sum(map(size_of, frame))
    framed = _FRAMED_REQUEST.pack(size, api_key, version, correlation_id)
    frame[0] = framed + head + _bytes(frame[0])
    return frame


def decode_response(
    api_key: int, version: int, frame: memoryview, max_elements: int = _NO_LIMIT
) -> Response:
    """Return the response in a frame, given what it answers; for clients.

    Raises ProtocolError for anything that is wrong.
    """
    api = APIS[api_key]
    what = f"{api.name} response v{version}"
    try:
        (correlation_id,) = _INT32.unpack_from(frame)
        at = _INT32.size
        if _flexible_answer(api, version):
            at, _ = _pass_tags(frame, at, max_elements)
        decode = decoder(api.response, version, api.flexible(version))
        body, at = decode(frame, at, max_elements)
    except (StructError, IndexError, ValueError) as error:
        raise _malformed(what, error) from error
    if at != len(frame):
        raise ProtocolError(f"{what} ends at byte {at} of {len(frame)}")
    return Response(correlation_id, body)


def decode_blob(message: type[W], blob: bytes | memoryview) -> W:
    """Return what a member of a consumer group tells the others through the group's coordinator."""
    body, at = decode_beginning(message, blob)
    (version,) = _INT16.unpack_from(blob)
    # A later version adds its fields at the end, for readers that know them.
    if at != len(blob) and version <= CONSUMER_PROTOCOL_VERSION:
        raise ProtocolError(f"{message.__name__} v{version} ends at byte {at} of {len(blob)}")
    return body


def decode_beginning(
    message: type[W], blob: bytes | memoryview, max_elements: int = MAX_ELEMENTS
) -> tuple[W, int]:
    """Return the part that such a blob begins with, and where that ends."""
    view = memoryview(blob)
    try:
        (version,) = _INT16.unpack_from(view)
        if version < 0:
            raise Malformed(f"version {version}")
        spoken = min(version, CONSUMER_PROTOCOL_VERSION)
        body, at = decoder(message, spoken, False)(view, _INT16.size, max_elements)
    except (StructError, IndexError, ValueError) as error:
        raise _malformed(message.__name__, error) from error
    assert isinstance(body, message)
    return body, at


def encode_blob(version: int, body: Wire) -> bytes:
    """Return what ``decode_blob`` reads."""
    frame: list[Piece] = []
    _encode(type(body), version, False, body, frame)
    return _INT16.pack(version) + _bytes(frame[0])


_request_decoders: dict[tuple[int, int], tuple[Decoder, bool]] = {}
"""What was asked for so far: the decoder, and whether the version is flexible."""


def _find_request_decoder(key: int, version: int, correlation_id: int) -> tuple[Decoder, bool]:
    api = APIS.get(key)
    if api is None or not api.first <= version <= api.last:
        raise UnsupportedVersion(key, version, correlation_id)
    flexible = api.flexible(version)
    found = decoder(api.request, version, flexible), flexible
    _request_decoders[key, version] = found
    return found


def _read_client_id(frame: memoryview, length: int) -> tuple[str | None, int]:
    """Return the client id, which is not compact even in flexible versions, and where it ends."""
    begin = _HEAD_OF_REQUEST.size
    if length < 0:
        if length != -1:
            raise Malformed(f"client id is of length {length}")
        return None, begin
    end = begin + length
    if end > len(frame):
        raise Malformed(f"client id ends at byte {end} of {len(frame)}")
    return str(frame[begin:end], "utf-8"), end


def _pass_tags(frame: memoryview, at: int, room: int) -> tuple[int, int]:
    return skip_tags(frame, at, room) if frame[at] else (at + 1, room)


def _flexible_answer(api: Api, version: int) -> bool:
    # A peer that asks for versions cannot know yet which header the answer has [KIP-511].
    return api.flexible(version) and api is not API_VERSIONS


def _encode(
    message: type[Wire], version: int, flexible: bool, body: Wire, frame: list[Piece]
) -> None:
    try:
        encoder(message, version, flexible)(body, frame)
    except (StructError, AttributeError, TypeError) as error:
        raise ValueError(f"{message.__name__} v{version} cannot say {body!r:.500}") from error


def _bytes(piece: Piece) -> bytes:
    assert isinstance(piece, bytes)
    return piece


def _malformed(what: str, error: Exception) -> ProtocolError:
    cut_off = isinstance(error, StructError | IndexError)
    return ProtocolError(f"malformed {what}: {'cut off' if cut_off else error}")
