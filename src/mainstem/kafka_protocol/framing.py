"""What requests, responses and group metadata share: encoding of bodies, header tags, errors."""

from struct import error as StructError  # noqa: N812 - it is a class

from mainstem.core.wire import Piece, ProtocolError
from mainstem.kafka_protocol.api import Api
from mainstem.kafka_protocol.encoders import encoder
from mainstem.kafka_protocol.fields import Wire
from mainstem.kafka_protocol.messages.connection import API_VERSIONS
from mainstem.kafka_protocol.primitives import skip_tags

NO_TAGS = b"\0"
"""The encoding of no tagged fields."""


def pass_tags(frame: memoryview, at: int, room: int) -> tuple[int, int]:
    """Skip the tagged fields of a header; return the position after them and the room left.

    ``room``: the number of elements that the frame may still hold.
    """
    return skip_tags(frame, at, room) if frame[at] else (at + 1, room)


def has_flexible_header(api: Api, version: int) -> bool:
    """Tell whether the response header of an API version has tagged fields."""
    # A client that requests the versions cannot know yet which header the response has [KIP-511].
    return api.flexible(version) and api is not API_VERSIONS


def encode_body(
    message: type[Wire], version: int, flexible: bool, body: Wire, frame: list[Piece]
) -> None:
    """Encode a body and append it to a frame; ValueError if the version lacks a used field."""
    try:
        encoder(message, version, flexible)(body, frame)
    except (StructError, AttributeError, TypeError) as error:
        raise ValueError(f"{message.__name__} v{version} cannot encode {body!r:.500}") from error


def as_bytes(piece: Piece) -> bytes:
    """Return a buffer that must be ``bytes``; only narrows the type."""
    assert isinstance(piece, bytes)
    return piece


def malformed(what: str, error: Exception) -> ProtocolError:
    """Return the ProtocolError for bytes that cannot be decoded."""
    cut_off = isinstance(error, StructError | IndexError)
    return ProtocolError(f"malformed {what}: {'cut off' if cut_off else error}")
