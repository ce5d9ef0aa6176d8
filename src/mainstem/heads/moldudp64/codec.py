"""MoldUDP64 packets and requests, as NASDAQ's specification defines them.

A packet: session (10 bytes), sequence number of its first message, message count, then each message
as its length and its bytes. Count 0 is a heartbeat and 0xFFFF the end of the session; in both the
sequence number is that of the next message. A request is a header alone.
"""

import struct
from collections.abc import Iterable

import msgspec

from mainstem.core.errors import Failure, InvalidSetting, MainstemError

_HEADER = struct.Struct(">10sQH")
_LENGTH = struct.Struct(">H")
HEADER_BYTES = _HEADER.size
LENGTH_BYTES = _LENGTH.size
END_OF_SESSION = 0xFFFF
MAX_COUNT = END_OF_SESSION - 1
"""Maximum messages in a packet or a request."""
MAX_SEQUENCE = 2**64 - 1
MAX_DATAGRAM_BYTES = 65_507
MAX_MESSAGE_BYTES = MAX_DATAGRAM_BYTES - HEADER_BYTES - LENGTH_BYTES
"""The largest message that fits into a UDP packet."""


class BadPacket(MainstemError, failure=Failure.INVALID):
    """The bytes are not a MoldUDP64 packet; the text of the error says why."""


class Packet(msgspec.Struct, frozen=True):
    """A packet of a session; without messages it is a heartbeat."""

    session: str
    sequence: int
    """The sequence number of the first message; without messages, of the next one."""
    messages: tuple[bytes, ...] = ()
    is_end: bool = False
    """Whether this is an end-of-session packet."""


class Request(msgspec.Struct, frozen=True):
    """A request for messages, from a sequence number on."""

    session: str
    sequence: int
    count: int


def check_session(name: str) -> str:
    """Return a session name unchanged; raises InvalidSetting if it does not fit into a packet."""
    if not 1 <= len(name) <= 10 or not name.isascii() or not name.isalnum():
        raise InvalidSetting(
            f"session {name!r:.40}: a session's name has 1 to 10 letters or digits"
        )
    return name


def encode_packet(packet: Packet) -> bytes:
    """Encode a packet."""
    if packet.is_end:
        return _header(packet.session, packet.sequence, END_OF_SESSION)
    return joined(packet.session, packet.sequence, [blocked(it) for it in packet.messages])


def blocked(message: bytes) -> bytes:
    """Encode a message as it is in a packet: its length, then its bytes (a block)."""
    return _LENGTH.pack(len(message)) + message


def joined(session: str, sequence: int, blocks: list[bytes]) -> bytes:
    """Encode a packet of these blocks."""
    return b"".join((_header(session, sequence, len(blocks)), *blocks))


def decode_packet(data: bytes) -> Packet:
    """Decode a packet; raises BadPacket."""
    session, sequence, count = _read_header(data)
    if count in (0, END_OF_SESSION):
        if len(data) > HEADER_BYTES:
            raise BadPacket(f"a packet without messages has {len(data) - HEADER_BYTES} more bytes")
        return Packet(session, sequence, is_end=count == END_OF_SESSION)
    if sequence + count - 1 > MAX_SEQUENCE:
        raise BadPacket("sequence numbers beyond 64 bits")
    messages: list[bytes] = []
    at, end = HEADER_BYTES, len(data)
    for _ in range(count):
        begin = at + LENGTH_BYTES
        # A length that is cut off ends beyond the packet, too.
        at = begin + int.from_bytes(data[at:begin], "big")
        if at > end:
            raise BadPacket(f"{count} messages do not fit into {end} bytes")
        messages.append(data[begin:at])
    if at != end:
        raise BadPacket(f"{end - at} bytes after the last message")
    return Packet(session, sequence, tuple(messages))


def encode_request(request: Request) -> bytes:
    """Encode a request."""
    return _header(request.session, request.sequence, request.count)


def decode_request(data: bytes) -> Request:
    """Decode a request; raises BadPacket."""
    if len(data) != HEADER_BYTES:
        raise BadPacket(f"a request has {HEADER_BYTES} bytes, not {len(data)}")
    session, sequence, count = _read_header(data)
    if not sequence or not 1 <= count <= MAX_COUNT:
        raise BadPacket(f"a request for {count} messages from {sequence}")
    return Request(session, sequence, count)


def fitting(sizes: Iterable[int], max_bytes: int, max_count: int = MAX_COUNT) -> tuple[int, bool]:
    """Return how many of the next messages fit into a packet, and whether that fills the packet.

    ``sizes``: the sizes of their blocks. At least one fits, whatever its size.
    """
    used = HEADER_BYTES
    count = 0
    for size in sizes:
        used += size
        if count and used > max_bytes:
            return count, True
        count += 1
        if count == max_count:
            return count, True
    return count, used >= max_bytes


def _header(session: str, sequence: int, count: int) -> bytes:
    # "left justified and padded with spaces" applies to alphanumeric fields of NASDAQ's formats.
    return _HEADER.pack(session.encode("ascii").ljust(10), sequence, count)


def _read_header(data: bytes) -> tuple[str, int, int]:
    if len(data) < HEADER_BYTES:
        raise BadPacket(f"{len(data)} bytes are less than a header")
    name, sequence, count = _HEADER.unpack_from(data)
    try:
        session = str(name, "ascii").rstrip(" ")
    except UnicodeDecodeError:
        raise BadPacket("the session's name is not ASCII") from None
    return session, sequence, count
