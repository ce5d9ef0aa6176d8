"""Frames for tests: in one piece, and without the length prefix."""

from mainstem.core.wire import Piece
from mainstem.kafka_protocol.api import Api
from mainstem.kafka_protocol.client_codec import encode_request
from mainstem.kafka_protocol.fields import Wire
from mainstem.kafka_protocol.server_codec import encode_response


def whole(pieces: list[Piece]) -> bytes:
    """Join a frame whose length is checked and taken off."""
    data = b"".join(piece for piece in pieces if isinstance(piece, bytes | bytearray | memoryview))
    assert int.from_bytes(data[:4], "big") == len(data) - 4
    return data[4:]


def request_frame(api: Api, version: int, body: Wire) -> bytes:
    """Encode a request of a peer that calls itself ``me``."""
    return whole(encode_request(api, version, 7, "me", body))


def response_frame(api: Api, version: int, body: Wire) -> bytes:
    """Encode a response to request 7."""
    return whole(encode_response(api.key, version, 7, body))
