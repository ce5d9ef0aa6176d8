"""Encodes and decodes subscriptions and assignments of classic consumer groups."""

from struct import Struct
from struct import error as StructError  # noqa: N812 - it is a class
from typing import TypeVar

from mainstem.core.wire import Piece, ProtocolError
from mainstem.kafka_protocol.decoders import decoder
from mainstem.kafka_protocol.fields import Wire
from mainstem.kafka_protocol.framing import as_bytes, encode_body, malformed
from mainstem.kafka_protocol.messages.consumer_protocol import CONSUMER_PROTOCOL_VERSION
from mainstem.kafka_protocol.primitives import MAX_ELEMENTS, Malformed

_INT16 = Struct(">h")

W = TypeVar("W", bound=Wire)


def decode_blob(message: type[W], blob: bytes | memoryview) -> W:
    """Decode a subscription or assignment that group members exchange through the coordinator."""
    body, at = decode_beginning(message, blob)
    (version,) = _INT16.unpack_from(blob)
    # A later version adds its fields at the end, for readers that know that version.
    if at != len(blob) and version <= CONSUMER_PROTOCOL_VERSION:
        raise ProtocolError(f"{message.__name__} v{version} ends at byte {at} of {len(blob)}")
    return body


def decode_beginning(
    message: type[W], blob: bytes | memoryview, max_elements: int = MAX_ELEMENTS
) -> tuple[W, int]:
    """Decode the struct that a subscription begins with; return it and the position after it."""
    view = memoryview(blob)
    try:
        (version,) = _INT16.unpack_from(view)
        if version < 0:
            raise Malformed(f"version {version}")
        spoken = min(version, CONSUMER_PROTOCOL_VERSION)
        body, at = decoder(message, spoken, False)(view, _INT16.size, max_elements)
    except (StructError, IndexError, ValueError) as error:
        raise malformed(message.__name__, error) from error
    assert isinstance(body, message)
    return body, at


def encode_blob(version: int, body: Wire) -> bytes:
    """Encode a subscription or assignment; the reverse of ``decode_blob``."""
    frame: list[Piece] = []
    encode_body(type(body), version, False, body, frame)
    return _INT16.pack(version) + as_bytes(frame[0])
