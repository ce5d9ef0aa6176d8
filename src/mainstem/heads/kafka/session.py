"""One Kafka client's connection: finds frames, and decodes them to requests."""

from struct import Struct

from mainstem.heads.conversation import ProtocolError
from mainstem.kafka_protocol.server_codec import Request, decode_request

_LENGTH = Struct(">i")
_LEAST = 8
"""Minimum size of a request, that of one without a client id."""
_MISTAKEN = {
    b"GET ": "an HTTP request",
    b"POST": "an HTTP request",
    b"HEAD": "an HTTP request",
    b"\x16\x03": "a TLS handshake",
    b"\x15\x03": "a TLS alert",
    b"AMQP": "an AMQP header",
}


class Session:
    """Finds frames and decodes them to requests; refuses frames over the size limit."""

    def __init__(self, max_frame_bytes: int) -> None:
        self._max_frame_bytes = max_frame_bytes

    def frame_size(self, view: memoryview) -> int | None:
        """Return the whole size of the frame that begins here, None if it is not known yet.

        Raises ProtocolError for a size that is not allowed.
        """
        if len(view) < _LENGTH.size:
            return None
        (length,) = _LENGTH.unpack_from(view)
        if not _LEAST <= length <= self._max_frame_bytes:
            raise ProtocolError(self._wrong_length(bytes(view[:4]), length))
        return int(length) + _LENGTH.size

    def receive(self, frame: memoryview) -> Request:
        """Decode the request in a complete frame."""
        return decode_request(frame[_LENGTH.size :])

    def _wrong_length(self, start: bytes, length: int) -> str:
        known = _MISTAKEN.get(start) or _MISTAKEN.get(start[:2])
        if known:
            return f"this port speaks the Kafka protocol in plain text, and got {known}"
        return f"frame of {length} bytes; {_LEAST} to {self._max_frame_bytes} are accepted"
