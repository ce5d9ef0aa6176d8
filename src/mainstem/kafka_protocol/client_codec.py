"""A client's side of the protocol: requests to bytes, bytes to responses.

Its functions take the API as an argument, so that a client need not import all messages.
"""

from struct import Struct
from struct import error as StructError  # noqa: N812 - it is a class

import msgspec

from mainstem.core.wire import Piece, ProtocolError
from mainstem.kafka_protocol import framing
from mainstem.kafka_protocol.api import Api
from mainstem.kafka_protocol.decoders import decoder
from mainstem.kafka_protocol.fields import Wire
from mainstem.kafka_protocol.primitives import size_of

_FRAMED_REQUEST = Struct(">ihhi")
_INT32 = Struct(">i")
_INT16 = Struct(">h")
_LENGTH_SIZE = 4
_NO_LIMIT = 2**31


class Response(msgspec.Struct, frozen=True, gc=False):
    """A decoded response, and the correlation id of the request that it answers."""

    correlation_id: int
    body: Wire


def encode_request(
    api: Api, version: int, correlation_id: int, client_id: str | None, body: Wire
) -> list[Piece]:
    """Encode a request as a list of buffers; large records are separate buffers."""
    frame: list[Piece] = []
    framing.encode_body(api.request, version, api.flexible(version), body, frame)
    client = b"" if client_id is None else client_id.encode()
    head = _INT16.pack(-1 if client_id is None else len(client)) + client
    if api.flexible(version):
        head += framing.NO_TAGS
    size = _FRAMED_REQUEST.size - _LENGTH_SIZE + len(head) + sum(map(size_of, frame))
    framed = _FRAMED_REQUEST.pack(size, api.key, version, correlation_id)
    frame[0] = framed + head + framing.as_bytes(frame[0])
    return frame


def decode_response(
    api: Api, version: int, frame: memoryview, max_elements: int = _NO_LIMIT
) -> Response:
    """Decode the response to a request of this API and version.

    Raises ProtocolError for any malformed frame.
    """
    what = f"{api.name} response v{version}"
    try:
        (correlation_id,) = _INT32.unpack_from(frame)
        at = _INT32.size
        if framing.has_flexible_header(api, version):
            at, _ = framing.pass_tags(frame, at, max_elements)
        decode = decoder(api.response, version, api.flexible(version))
        body, at = decode(frame, at, max_elements)
    except (StructError, IndexError, ValueError) as error:
        raise framing.malformed(what, error) from error
    if at != len(frame):
        raise ProtocolError(f"{what} ends at byte {at} of {len(frame)}")
    return Response(correlation_id, body)
