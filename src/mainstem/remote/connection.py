"""One connection to a broker, for the few requests where librdkafka is not quick enough.

Bytes only: requests and answers in the versions of the protocol that need no tagged fields, which
every broker since Kafka 2.1 knows; and for what came later, in the flexible ones [KIP-482].
"""

import socket
from collections.abc import Callable, Iterable
from struct import Struct
from struct import error as StructError  # noqa: N812
from typing import TypeVar

from mainstem.core.errors import Unreachable

T = TypeVar("T")

INT8, INT16, INT32, INT64 = Struct(">b"), Struct(">h"), Struct(">i"), Struct(">q")
_BYTE = Struct(">B")
_HEAD = Struct(">hhi")
_LARGEST = 512 << 20
"""More than this is not an answer, but something else that listens there."""
_CLIENT = "mainstem"
NO_TAGS = b"\0"
"""The end of every structure in a flexible version that has nothing more to say."""


class Connection:
    """A connection; answers come in the order of the requests."""

    def __init__(self, host: str, port: int, timeout_s: float) -> None:
        self.address = f"{host}:{port}"
        self._asked = self._answered = 0
        try:
            self._socket = socket.create_connection((host, port), timeout_s)
        except OSError as error:
            raise self._gone(error) from None
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.settimeout(timeout_s)

    def send(self, api: int, version: int, body: bytes, *, flexible: bool = False) -> None:
        """Put a request on its way."""
        head = _HEAD.pack(api, version, self._asked) + string(_CLIENT) + NO_TAGS * flexible
        self._asked += 1
        try:
            self._socket.sendall(INT32.pack(len(head) + len(body)) + head + body)
        except OSError as error:
            raise self._gone(error) from None

    def receive(self) -> "Answer":
        """Wait for the answer to the oldest request that has none yet."""
        (size,) = INT32.unpack(self._exactly(INT32.size))
        if not INT32.size <= size <= _LARGEST:
            raise Unreachable(self.address, f"an answer of {size} bytes is none of a Kafka broker")
        answer = Answer(self._exactly(size), self.address)
        number = answer.int32()
        if number != self._answered:
            raise Unreachable(self.address, f"answer {number} came, not {self._answered}")
        self._answered += 1
        return answer

    def ask(self, api: int, version: int, body: bytes, *, flexible: bool = False) -> "Answer":
        """Send a request and wait for its answer; nothing else may be on its way."""
        self.send(api, version, body, flexible=flexible)
        answer = self.receive()
        if flexible:
            answer.tags()
        return answer

    def close(self) -> None:
        """Let go."""
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


class Answer:
    """The bytes of an answer, read field by field."""

    def __init__(self, data: bytearray, address: str) -> None:
        self._view = memoryview(data)
        self._address = address
        self._at = 0

    def int8(self) -> int:
        """Read one byte."""
        return self._number(INT8)

    def int16(self) -> int:
        """Read two bytes."""
        return self._number(INT16)

    def int32(self) -> int:
        """Read four bytes."""
        return self._number(INT32)

    def int64(self) -> int:
        """Read eight bytes."""
        return self._number(INT64)

    def string(self) -> str:
        """Read a text; an absent one is empty."""
        return str(self._bytes(self.int16()), "utf-8", "replace")

    def data(self) -> memoryview:
        """Read bytes; absent ones are empty."""
        return self._bytes(self.int32())

    def array(self, read: Callable[[], T]) -> list[T]:
        """Read an array of whatever is read; an absent one is empty."""
        return [read() for _ in range(self.int32())]

    # Of flexible versions

    def compact_string(self) -> str:
        """Read a text; an absent one is empty."""
        return str(self._bytes(self._varint() - 1), "utf-8", "replace")

    def compact_array(self, read: Callable[[], T]) -> list[T]:
        """Read an array of whatever is read; an absent one is empty."""
        return [read() for _ in range(self._varint() - 1)]

    def tags(self) -> None:
        """Pass over whatever a structure says beyond what is known of it."""
        for _ in range(self._varint()):
            self._varint()
            self._bytes(self._varint())

    def uuid(self) -> None:
        """Pass over an id."""
        self._bytes(16)

    def _varint(self) -> int:
        found = shift = 0
        while True:
            byte = self._number(_BYTE)
            found |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return found
            if shift > 28:
                raise Unreachable(self._address, "its answer is none of a Kafka broker")

    def _number(self, form: Struct) -> int:
        try:
            (found,) = form.unpack_from(self._view, self._at)
        except StructError:
            raise Unreachable(self._address, "its answer is cut off") from None
        self._at += form.size
        return int(found)

    def _bytes(self, size: int) -> memoryview:
        start = self._at
        self._at += max(size, 0)
        return self._view[start : self._at]


def string(text: str) -> bytes:
    """Write a text."""
    data = text.encode()
    return INT16.pack(len(data)) + data


def array(items: Iterable[bytes]) -> bytes:
    """Write an array of what is written already."""
    parts = list(items)
    return INT32.pack(len(parts)) + b"".join(parts)


def compact_string(text: str) -> bytes:
    """Write a text in a flexible version."""
    data = text.encode()
    return _varint(len(data) + 1) + data


def compact_array(items: Iterable[bytes]) -> bytes:
    """Write an array of what is written already in a flexible version."""
    parts = list(items)
    return _varint(len(parts) + 1) + b"".join(parts)


def _varint(number: int) -> bytes:
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    found.append(number)
    return bytes(found)
