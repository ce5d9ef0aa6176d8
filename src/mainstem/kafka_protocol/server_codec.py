"""A server's side of the protocol: bytes to requests, responses to bytes.

A frame is a length of four bytes and that many bytes. Encoding returns both; decoding gets only the
bytes, because the session, which knows the maximum size, splits the stream into frames.

``messages`` defines the messages, one class each; their codecs are generated from these classes
when a version is first used (``decoders``, ``encoders``).
"""

from struct import Struct
from struct import error as StructError  # noqa: N812 - it is a class

import msgspec

from mainstem.core.wire import Piece, ProtocolError
from mainstem.kafka_protocol.apis import APIS
from mainstem.kafka_protocol.decoders import Decoder, decoder
from mainstem.kafka_protocol.fields import Wire
from mainstem.kafka_protocol.framing import (
    NO_TAGS,
    as_bytes,
    encode_body,
    has_flexible_header,
    malformed,
    pass_tags,
)
from mainstem.kafka_protocol.primitives import MAX_ELEMENTS, Malformed, size_of

_HEAD_OF_REQUEST = Struct(">hhih")
_FRAMED_RESPONSE = Struct(">ii")
_INT32 = Struct(">i")


class UnsupportedVersion(ProtocolError):
    """A request of an unknown API or version; its correlation id allows a response."""

    def __init__(self, api_key: int, api_version: int, correlation_id: int) -> None:
        api = APIS.get(api_key)
        known = f"{api.name} is known in {api.first} to {api.last}" if api else "no such API"
        super().__init__(f"request of API {api_key} in version {api_version}: {known}")
        self.api_key, self.api_version = api_key, api_version
        self.correlation_id = correlation_id


class RequestHeader(msgspec.Struct, frozen=True, gc=False):
    """The header of a request."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None


class Request(msgspec.Struct, frozen=True, gc=False):
    """A request with its header; the class of ``body`` tells the API."""

    header: RequestHeader
    body: Wire


def decode_request(frame: memoryview, max_elements: int = MAX_ELEMENTS) -> Request:
    """Decode the request in a frame; records in it are memoryviews of the frame.

    Raises UnsupportedVersion, or ProtocolError for any malformed frame.
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
            at, room = pass_tags(frame, at, room)
        body, _ = decode(frame, at, room)
    except (StructError, IndexError, ValueError) as error:
        raise malformed(f"{APIS[key].name} request v{version}", error) from error
    # Further bytes are ignored, as Kafka does: librdkafka 2.16 adds three bytes when it requests
    # the metadata of all topics.
    return Request(RequestHeader(key, version, correlation_id, client_id), body)


def encode_response(api_key: int, version: int, correlation_id: int, body: Wire) -> list[Piece]:
    """Encode a response as a list of buffers; large records are separate buffers.

    Raises ValueError if the version lacks a field of the body.
    """
    api = APIS[api_key]
    frame: list[Piece] = []
    encode_body(api.response, version, api.flexible(version), body, frame)
    tags = NO_TAGS if has_flexible_header(api, version) else b""
    size = _INT32.size + len(tags) + sum(map(size_of, frame))
    frame[0] = _FRAMED_RESPONSE.pack(size, correlation_id) + tags + as_bytes(frame[0])
    return frame


_request_decoders: dict[tuple[int, int], tuple[Decoder, bool]] = {}
"""The decoders used so far by API and version, each with whether the version is flexible."""


def _find_request_decoder(key: int, version: int, correlation_id: int) -> tuple[Decoder, bool]:
    api = APIS.get(key)
    if api is None or not api.first <= version <= api.last:
        raise UnsupportedVersion(key, version, correlation_id)
    flexible = api.flexible(version)
    found = decoder(api.request, version, flexible), flexible
    _request_decoders[key, version] = found
    return found


def _read_client_id(frame: memoryview, length: int) -> tuple[str | None, int]:
    """Decode the client id, which is not compact even in flexible versions.

    Return the client id and the position after it.
    """
    begin = _HEAD_OF_REQUEST.size
    if length < 0:
        if length != -1:
            raise Malformed(f"client id is of length {length}")
        return None, begin
    end = begin + length
    if end > len(frame):
        raise Malformed(f"client id ends at byte {end} of {len(frame)}")
    return str(frame[begin:end], "utf-8"), end
