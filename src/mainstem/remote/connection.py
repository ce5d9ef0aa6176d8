"""One connection to a broker, for the few requests where librdkafka is too slow or has no call."""

import socket
from collections import deque
from struct import Struct
from typing import TypeVar

from mainstem.core.errors import Unreachable
from mainstem.core.wire import ProtocolError
from mainstem.kafka_protocol.api import Api
from mainstem.kafka_protocol.client_codec import decode_response, encode_request
from mainstem.kafka_protocol.fields import Wire

R = TypeVar("R", bound=Wire)

_INT32 = Struct(">i")
_MAX_BYTES = 512 << 20
"""Maximum size of a response; a larger one comes from something that is not Kafka."""
_MAX_ELEMENTS = 1_000_000
"""Maximum array elements in a response: allows 100,000 partitions with three replicas."""
_CLIENT_ID = "mainstem"


class Connection:
    """A connection to one broker; responses come in the order of the requests."""

    def __init__(self, host: str, port: int, timeout_s: float) -> None:
        self.address = f"{host}:{port}"
        self._sent = 0
        self._unanswered: deque[tuple[int, Api, int]] = deque()
        """Correlation id, API and version of each request that has no response yet."""
        try:
            self._socket = socket.create_connection((host, port), timeout_s)
        except OSError as error:
            raise self._gone(error) from None
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.settimeout(timeout_s)

    def send(self, api: Api, version: int, body: Wire) -> None:
        """Send a request without waiting for its response."""
        pieces = encode_request(api, version, self._sent, _CLIENT_ID, body)
        self._unanswered.append((self._sent, api, version))
        self._sent += 1
        try:
            for piece in pieces:
                assert isinstance(piece, bytes)
                self._socket.sendall(piece)
        except OSError as error:
            raise self._gone(error) from None

    def receive(self, response: type[R]) -> R:
        """Wait for the response to the oldest request that has none; raises Unreachable."""
        correlation_id, api, version = self._unanswered.popleft()
        (size,) = _INT32.unpack(self._exactly(_INT32.size))
        if not _INT32.size <= size <= _MAX_BYTES:
            raise Unreachable(self.address, f"a response of {size} bytes is not a Kafka broker's")
        frame = memoryview(self._exactly(size))
        (number,) = _INT32.unpack_from(frame)
        if number != correlation_id:
            raise Unreachable(self.address, f"response {number} came, not {correlation_id}")
        return read_response(api, version, frame, response, self.address)

    def ask(self, api: Api, version: int, body: Wire, response: type[R]) -> R:
        """Send a request and wait for its response; no other request may be waiting for one."""
        self.send(api, version, body)
        return self.receive(response)

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()

    def _exactly(self, size: int) -> bytearray:
        found = bytearray(size)
        view, position = memoryview(found), 0
        try:
            while position < size:
                count = self._socket.recv_into(view[position:])
                if not count:
                    raise ConnectionResetError("the connection was closed")
                position += count
        except OSError as error:
            raise self._gone(error) from None
        return found

    def _gone(self, error: OSError) -> Unreachable:
        return Unreachable(self.address, error.strerror or str(error) or type(error).__name__)


def read_response(api: Api, version: int, frame: memoryview, response: type[R], address: str) -> R:
    """Decode a response; raises Unreachable if it is malformed."""
    try:
        body = decode_response(api, version, frame, _MAX_ELEMENTS).body
    except ProtocolError as error:
        raise Unreachable(address, f"its response is not a Kafka broker's: {error}") from None
    assert isinstance(body, response)
    return body
