"""ZMTP 3.0 by hand: what a DEALER with PLAIN says, and what it hears."""

import struct
from collections.abc import Iterator, Sequence

MORE, LONG, COMMAND = 1, 2, 4
GREETING_BYTES = 64
_TYPE = b"\x0bSocket-Type\x00\x00\x00\x06DEALER"


def greeting(mechanism: bytes) -> bytes:
    signature = b"\xff" + bytes(8) + b"\x7f"
    return (signature + b"\x03\x00" + mechanism.ljust(20, b"\0")).ljust(GREETING_BYTES, b"\0")


def frame(data: bytes, flags: int = 0) -> bytes:
    if len(data) > 255:
        return bytes((flags | LONG,)) + struct.pack(">Q", len(data)) + data
    return bytes((flags, len(data))) + data


def command(name: bytes, data: bytes = b"") -> bytes:
    return frame(bytes((len(name),)) + name + data, COMMAND)


def message(*frames: bytes) -> bytes:
    return b"".join(frame(each, MORE) for each in frames[:-1]) + frame(frames[-1])


def hello(user: bytes = b"ann", password: bytes = b"secret") -> bytes:
    said = bytes((len(user),)) + user + bytes((len(password),)) + password
    return greeting(b"PLAIN") + command(b"HELLO", said)


def logged_in(user: bytes = b"ann", password: bytes = b"secret") -> bytes:
    """Return a whole handshake."""
    return hello(user, password) + command(b"INITIATE", _TYPE)


def frames_of(stream: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield flags and data of the whole frames after a greeting."""
    at = GREETING_BYTES
    while at + 2 <= len(stream):
        flags = stream[at]
        head = 9 if flags & LONG else 2
        if at + head > len(stream):
            return
        size = struct.unpack_from(">Q", stream, at + 1)[0] if flags & LONG else stream[at + 1]
        end = at + head + size
        if end > len(stream):
            return
        yield flags, stream[at + head : end]
        at = end


def messages_of(stream: bytes) -> list[Sequence[bytes]]:
    """Return the whole messages in a stream."""
    found, current = list[Sequence[bytes]](), list[bytes]()
    for flags, data in frames_of(stream):
        if flags & COMMAND:
            continue
        current.append(data)
        if not flags & MORE:
            found.append(current)
            current = []
    return found


def error_of(stream: bytes) -> bytes | None:
    """Return the reason of the ERROR command, None if there is none."""
    for flags, data in frames_of(stream):
        # libzmq 4.3.5 writes a PLAIN server's error with 0x5E instead of 0x05 and E.
        if flags & COMMAND and data.startswith((b"\x05ERROR", b"^RROR")):
            return data[data.index(b"RROR") + 5 :]
    return None


def may_say(said: bytes, heard: bytes) -> int:
    """Return how much may be said by now: libzmq takes no step of a login before its time."""
    steps = _steps(said)
    if not steps or error_of(heard) is not None:
        return len(said)
    commands = [data for flags, data in frames_of(heard) if flags & COMMAND]
    for end, wanted in zip(steps, (b"\x07WELCOME", b"\x05READY"), strict=False):
        if not any(each.startswith(wanted) for each in commands):
            return end
    return len(said)


def is_answered(said: bytes, heard: bytes) -> bool:
    """Return whether nothing more is to be heard."""
    steps = _steps(said)
    whole = b"".join(frame(data, flags & ~LONG) for flags, data in frames_of(said))
    if len(steps) < 2 or len(whole) != len(said) - GREETING_BYTES:
        # It may never be answered.
        return True
    return len(messages_of(heard)) >= len(messages_of(said)) or error_of(heard) is not None


def _steps(said: bytes) -> list[int]:
    """Return where HELLO and INITIATE end."""
    if not said.startswith(greeting(b"PLAIN")):
        return []
    found = [frame(data, flags) for flags, data in frames_of(said)][:2]
    if not found or not found[0][2:].startswith(b"\x05HELLO"):
        return []
    first = GREETING_BYTES + len(found[0])
    return [first, first + len(found[1])] if found[1:] == [command(b"INITIATE", _TYPE)] else [first]
