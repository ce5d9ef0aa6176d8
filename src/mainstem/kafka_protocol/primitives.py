"""What generated decoders and encoders call: variable-length integers, tagged fields, checks.

A frame is given as a memoryview ``view``, a place in it as ``at``. Decoders refuse with Malformed;
struct.error (a fixed-size value cut off), IndexError (a byte cut off) and UnicodeDecodeError mean
the same, and the codecs turn all four into a ProtocolError.
"""

from collections.abc import Callable, Iterator, Sequence
from struct import Struct
from typing import NoReturn

from mainstem.core.wire import Piece

MAX_ELEMENTS = 200_000
"""Array elements and tagged fields in one request: the costliest ones decode to 55 MiB in 0.2 s."""
MAX_STRING = 0x7FFF
"""Strings are at most this long in every form [KIP-482 keeps the limit of the int16 length]."""
_LAST_OF_UVARINT = 0x0F
_LEAST_TAG = 2
SMALL_COUNT = 16
"""Arrays of fixed-size types with fewer elements are packed in one call."""
_COPIED_BELOW = 8192
"""Smaller records are copied into the frame, which costs less than to send them by themselves."""


class Malformed(ValueError):
    """Bytes that violate the protocol."""


def read_uvarint(view: memoryview, at: int) -> tuple[int, int]:
    """Return the unsigned varint at a place, of at most 5 bytes and 32 bits, and where it ends."""
    value = view[at]
    if value < 0x80:
        return value, at + 1
    byte = view[at + 1]
    value = value & 0x7F | (byte & 0x7F) << 7
    if byte < 0x80:
        return value, at + 2
    byte = view[at + 2]
    value |= (byte & 0x7F) << 14
    if byte < 0x80:
        return value, at + 3
    byte = view[at + 3]
    value |= (byte & 0x7F) << 21
    if byte < 0x80:
        return value, at + 4
    byte = view[at + 4]
    if byte > _LAST_OF_UVARINT:
        raise Malformed(f"a varint of more than 32 bits at byte {at}")
    return value | byte << 28, at + 5


def read_string_length(view: memoryview, at: int) -> tuple[int, int]:
    """Return a compact string's length plus one, and where the string begins."""
    length, at = read_uvarint(view, at)
    if length > MAX_STRING + 1:
        raise Malformed(f"a string of {length - 1} bytes; the limit is {MAX_STRING}")
    return length, at


def read_tags(view: memoryview, at: int, room: int) -> Iterator[tuple[int, int, int]]:
    """Yield every tagged field as its number, where its value begins, and where it ends."""
    count, at = read_uvarint(view, at)
    # An empty section is a single zero, which the caller has seen; spelled longer, the caller
    # could not tell where it ends.
    if count == 0 or count > room or count * _LEAST_TAG > len(view) - at:
        raise Malformed(f"{count} tagged fields in {len(view) - at} bytes")
    last = -1
    for _ in range(count):
        tag, at = read_uvarint(view, at)
        if tag <= last:
            raise Malformed(f"tag {tag} after tag {last}; tags must ascend")
        last = tag
        size, at = read_uvarint(view, at)
        if size > len(view) - at:
            raise Malformed(f"tag {tag} of {size} bytes, and {len(view) - at} are left")
        yield tag, at, at + size
        at += size


def skip_tags(view: memoryview, at: int, room: int) -> tuple[int, int]:
    """Return where the tagged fields end, none of which is known, and how much room they leave."""
    for _, _, end in read_tags(view, at, room):
        at = end
        room -= 1
    return at, room


def refuse_length(what: str, length: int) -> NoReturn:
    """Refuse a length that is negative where nothing may be null, or means nothing at all."""
    null = "null" if length == -1 else f"of length {length}"
    raise Malformed(f"{what} is {null}")


def refuse_null(what: str) -> NoReturn:
    """Refuse a null that the version does not allow."""
    raise Malformed(f"{what} is null")


def refuse_end(what: str, end: int, size: int) -> NoReturn:
    """Refuse a value that would end after the frame, or not where its tag says."""
    raise Malformed(f"{what} ends at byte {end}, not within {size}")


def refuse_count(what: str, count: int, left: int) -> NoReturn:
    """Refuse an array whose elements cannot fit into the rest of the frame."""
    raise Malformed(f"{what} has {count} elements in {left} bytes")


def refuse_room(what: str) -> NoReturn:
    """Refuse a frame that holds more elements than it may, all arrays taken together."""
    raise Malformed(f"too many elements at {what}; send fewer at once")


_ONE_BYTE = [bytes([value]) for value in range(0x80)]


def write_uvarint(value: int) -> bytes:
    """Return an unsigned varint."""
    if value < 0x80:
        return _ONE_BYTE[value]
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


write_int32 = Struct(">i").pack


def write_string_length(length: int) -> bytes:
    """Return a compact string's length, given plus one."""
    if length > MAX_STRING + 1:
        raise ValueError(f"a string of {length - 1} bytes; the limit is {MAX_STRING}")
    return write_uvarint(length)


def write_tags(tags: Sequence[tuple[int, bytes]]) -> bytes:
    """Return a section of tagged fields, given with their numbers ascending."""
    parts = [write_uvarint(len(tags))]
    for tag, value in tags:
        parts += (write_uvarint(tag), write_uvarint(len(value)), value)
    return b"".join(parts)


def write_many(code: str, values: Sequence[object]) -> bytes:
    """Return the elements of an array of a fixed-size type."""
    one = Struct(">" + code).pack
    return b"".join([one(value) for value in values])


def read_ids(view: memoryview, at: int, count: int) -> tuple[bytes, ...]:
    """Return an array of UUIDs, whose bytes are known to be there."""
    return tuple(bytes(view[place : place + 16]) for place in range(at, at + 16 * count, 16))


def packers(before: str, code: str) -> list[Callable[..., bytes]]:
    """Return for each small count a packer of that many elements with their prefix."""
    return [Struct(f">{before}{code * count}").pack for count in range(SMALL_COUNT)]


def size_of(records: Piece) -> int:
    """Return how many bytes records are, wherever they are."""
    if isinstance(records, bytes | bytearray):
        return len(records)
    return records.nbytes if isinstance(records, memoryview) else records.length


def put_records(records: Piece, parts: list[bytes], frame: list[Piece]) -> None:
    """Add records: small ones to ``parts``, large ones to the frame without a copy."""
    if isinstance(records, bytes) and len(records) < _COPIED_BELOW:
        parts.append(records)
        return
    frame.append(b"".join(parts))
    frame.append(records)
    parts.clear()
