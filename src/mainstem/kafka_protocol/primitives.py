"""Functions that generated decoders and encoders call: varints, tagged fields, checks.

A frame is a memoryview ``view``, a position in it is ``at``. Decoders raise Malformed; struct.error
(a fixed-size value cut off), IndexError (a byte cut off) and UnicodeDecodeError mean the same, and
the codecs turn all four into a ProtocolError.
"""

from collections.abc import Callable, Iterator, Sequence
from struct import Struct
from typing import NoReturn

from mainstem.core.varint import unsigned_varint
from mainstem.core.wire import Piece

MAX_ELEMENTS = 200_000
"""Maximum array elements and tagged fields in a request; the most expensive ones then take 55 MiB
and 0.2 s to decode.
"""
MAX_STRING = 0x7FFF
"""Maximum length of a string, in every encoding [KIP-482 keeps the limit of the int16 length]."""
_LAST_OF_UVARINT = 0x0F
_LEAST_TAG = 2
SMALL_COUNT = 16
"""Arrays of fixed-size values that have fewer elements than this are packed in one call."""
_COPIED_BELOW = 8192
"""Records smaller than this are copied into the frame, which costs less than a separate buffer."""


class Malformed(ValueError):
    """Raised for bytes that violate the protocol."""


def read_uvarint(view: memoryview, at: int) -> tuple[int, int]:
    """Decode an unsigned varint of at most 5 bytes and 32 bits.

    Return the number and the position after it.
    """
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
    """Decode the length plus one of a compact string; return that number and the string's start."""
    length, at = read_uvarint(view, at)
    if length > MAX_STRING + 1:
        raise Malformed(f"a string of {length - 1} bytes; the limit is {MAX_STRING}")
    return length, at


def read_tags(view: memoryview, at: int, room: int) -> Iterator[tuple[int, int, int]]:
    """Yield the number, start and end of each tagged field."""
    count, at = read_uvarint(view, at)
    # An empty section is a single zero byte, which the caller has checked; a longer encoding of
    # zero would hide its end from the caller.
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
    """Skip tagged fields that are all unknown; return the position after them and the room left.

    ``room``: the number of elements that the frame may still hold.
    """
    for _, _, end in read_tags(view, at, room):
        at = end
        room -= 1
    return at, room


def refuse_length(what: str, length: int) -> NoReturn:
    """Raise for a length that is invalid: negative, or null where null is not allowed."""
    null = "null" if length == -1 else f"of length {length}"
    raise Malformed(f"{what} is {null}")


def refuse_null(what: str) -> NoReturn:
    """Raise for a null in a version that does not allow null."""
    raise Malformed(f"{what} is null")


def refuse_end(what: str, end: int, size: int) -> NoReturn:
    """Raise for a value that ends after the frame, or not where its tag says."""
    raise Malformed(f"{what} ends at byte {end}, not within {size}")


def refuse_count(what: str, count: int, left: int) -> NoReturn:
    """Raise for an array that has more elements than the rest of the frame can hold."""
    raise Malformed(f"{what} has {count} elements in {left} bytes")


def refuse_room(what: str) -> NoReturn:
    """Raise for a frame whose arrays have too many elements in total."""
    raise Malformed(f"too many elements at {what}; send fewer at once")


_ONE_BYTE = [bytes([value]) for value in range(0x80)]


def write_uvarint(value: int) -> bytes:
    """Encode an unsigned varint."""
    if value < 0x80:
        return _ONE_BYTE[value]
    return unsigned_varint(value)


write_int32 = Struct(">i").pack


def write_string_length(length: int) -> bytes:
    """Encode a compact string's length; ``length`` is the length plus one."""
    if length > MAX_STRING + 1:
        raise ValueError(f"a string of {length - 1} bytes; the limit is {MAX_STRING}")
    return write_uvarint(length)


def write_tags(tags: Sequence[tuple[int, bytes]]) -> bytes:
    """Encode tagged fields, given in ascending order of their numbers."""
    parts = [write_uvarint(len(tags))]
    for tag, value in tags:
        parts += (write_uvarint(tag), write_uvarint(len(value)), value)
    return b"".join(parts)


def write_many(code: str, values: Sequence[object]) -> bytes:
    """Encode the elements of an array of fixed-size values."""
    one = Struct(">" + code).pack
    return b"".join([one(value) for value in values])


def read_ids(view: memoryview, at: int, count: int) -> tuple[bytes, ...]:
    """Decode an array of UUIDs; the caller has checked that the frame is long enough."""
    return tuple(bytes(view[place : place + 16]) for place in range(at, at + 16 * count, 16))


def packers(before: str, code: str) -> list[Callable[..., bytes]]:
    """Return a function for each small count, which packs a prefix and that many elements."""
    return [Struct(f">{before}{code * count}").pack for count in range(SMALL_COUNT)]


def size_of(records: Piece) -> int:
    """Return the size in bytes of records that are in memory or in a file."""
    if isinstance(records, bytes | bytearray):
        return len(records)
    return records.nbytes if isinstance(records, memoryview) else records.length


def put_records(records: Piece, parts: list[bytes], frame: list[Piece]) -> None:
    """Append records to a frame: small ones are copied to ``parts``, large ones are not copied."""
    if isinstance(records, bytes) and len(records) < _COPIED_BELOW:
        parts.append(records)
        return
    frame.append(b"".join(parts))
    frame.append(records)
    parts.clear()
