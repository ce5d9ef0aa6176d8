"""nng's protocol over TCP: each side sends a header, then messages, each preceded by its length.

The header is ``00 53 50 00``, the number of the sender's protocol (2 bytes, big-endian), and two
zeros.
"""

import struct

from mainstem.core.wire import ProtocolError

PUB, SUB = 0x20, 0x21
HEADER_BYTES = 8
_MAGIC = b"\0SP\0"
_HEADER = struct.Struct(">4sHH")
_LENGTH = struct.Struct(">Q")


def header(protocol: int) -> bytes:
    """Return the header of a socket of this protocol, such as PUB."""
    return _HEADER.pack(_MAGIC, protocol, 0)


def is_header(begin: bytes) -> bool:
    """Tell whether these bytes can be the beginning of a header."""
    return begin[: len(_MAGIC)] == _MAGIC[: len(begin)]


def check_peer(said: bytes, expected: int) -> None:
    """Raise ProtocolError unless a peer's header names the protocol ``expected``."""
    magic, protocol, reserved = _HEADER.unpack(said)
    if magic != _MAGIC or reserved:
        raise ProtocolError("it does not speak nng's protocol")
    if protocol != expected:
        raise ProtocolError(f"it speaks protocol {protocol:#x} of nng, not {expected:#x}")


def framed(message: bytes) -> bytes:
    """Return a message preceded by its length."""
    return _LENGTH.pack(len(message)) + message
