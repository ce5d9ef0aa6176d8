"""nng's wire by hand: what a REQ socket says over TCP, and what it hears."""

import struct

HEADER = b"\0SP\0\0\x30\0\0"
PUSH, PAIR, REQ = 0x50, 0x10, 0x30
"""Protocol numbers in the header."""
_LENGTH = struct.Struct(">Q")
_ID = struct.Struct(">I").pack(0x80000001)


def message(data: bytes) -> bytes:
    return _LENGTH.pack(len(data)) + data


def request(body: bytes) -> bytes:
    return message(_ID + body)


def messages_of(stream: bytes) -> list[bytes]:
    """Return the whole messages after the header."""
    found, at = list[bytes](), len(HEADER)
    while at + _LENGTH.size <= len(stream):
        (size,) = _LENGTH.unpack_from(stream, at)
        at += _LENGTH.size
        if at + size > len(stream):
            break
        found.append(stream[at : at + size])
        at += size
    return found


def bodies_of(stream: bytes) -> list[bytes]:
    return [each[len(_ID) :] for each in messages_of(stream)]


def is_answered(said: bytes, heard: bytes) -> bool:
    """Return whether nothing more is to be heard: nng forgets peers that half-close."""
    asked = messages_of(said)
    whole = HEADER + b"".join(map(message, asked))
    if whole != said or not all(each.startswith(_ID) for each in asked):
        # It may never be answered.
        return True
    return len(messages_of(heard)) >= len(asked)
