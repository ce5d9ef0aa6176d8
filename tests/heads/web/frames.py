"""Frames of WebSockets, as a client writes them, and as none should."""

import os
import struct

MIB = 1024 * 1024


def frame(opcode: int, payload: bytes, *, masked: bool = True, fin: bool = True) -> bytes:
    """Write a frame of a client."""
    mask = os.urandom(4) if masked else b"\0\0\0\0"
    size = len(payload)
    short = size if size < 126 else 126 if size < 65536 else 127
    extended = b"" if size < 126 else struct.pack(">H" if size < 65536 else ">Q", size)
    head = bytes([fin << 7 | opcode, masked << 7 | short]) + extended
    body = bytes(each ^ mask[at % 4] for at, each in enumerate(payload))
    return head + (mask if masked else b"") + body


HOSTILE_FRAMES = {
    "unmasked": (frame(1, b"hello", masked=False), 1002),
    "a long control frame": (frame(9, b"x" * 126), 1002),
    "a control frame in parts": (frame(9, b"x", fin=False), 1002),
    "a reserved opcode": (frame(3, b"x"), 1002),
    "a continuation of nothing": (frame(0, b"x"), 1002),
    "reserved bits": (bytes([0x81 | 0x40]) + frame(1, b"x")[1:], 1002),
    "a message over the limit": (frame(1, b"")[:1] + b"\xff" + struct.pack(">Q", MIB + 1), 1009),
    "a length of 2^63": (b"\x81\xff" + struct.pack(">Q", 1 << 63), 1009),
    "fragments without end": (
        frame(1, b"x" * 60_000, fin=False) + frame(0, b"x" * 60_000, fin=False) * 20,
        1009,
    ),
    "text that is not UTF-8": (frame(1, b"\xff\xfe"), 1007),
}
"""What may be sent, and the code that the WebSocket is closed with; a message may have 1 MiB."""
