"""AMQP 0-9-1 fields: short strings, long strings, and tables of typed values.

Types and their letters are RabbitMQ's [https://www.rabbitmq.com/amqp-0-9-1-errata, section 3],
which differ from the specification's: ``s`` is a 16-bit integer, ``l`` and ``L`` are both signed.

| letter | Python | | letter | Python |
|---|---|---|---|---|
| t | bool | | S | str; bytes if it is not UTF-8 |
| I, and l L if it is large | int | | x | Binary |
| b B s u i, other l L | a subclass of int | | T | Timestamp |
| d, f | float, and a subclass of it | | | |
| D | Decimal | | A, F | list, dict |
| V | None | | | |

Values written again, such as headers when one of them changes, keep the types that they were
received with: in Java, Integer and Long differ.

Every size is checked against the enclosing value before anything is read, and nesting is limited.
What cannot be decoded raises SYNTAX_ERROR.
"""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from struct import Struct

import msgspec

from mainstem.heads.amqp091.errors import AmqpError, ReplyCode

MAX_DEPTH = 64
"""Maximum nesting depth of tables and arrays."""
MAX_SHORT_BYTES = 255


class Octet(int):
    """Signed 8-bit integer, type ``b``."""


class UnsignedOctet(int):
    """Unsigned 8-bit integer, type ``B``."""


class Short(int):
    """Signed 16-bit integer, type ``s``."""


class UnsignedShort(int):
    """Unsigned 16-bit integer, type ``u``."""


class UnsignedInt(int):
    """Unsigned 32-bit integer, type ``i``."""


class Long(int):
    """64-bit integer, type ``l``, also for numbers that fit into 32 bits."""


class Single(float):
    """32-bit float, type ``f``."""


class Timestamp(msgspec.Struct, frozen=True, order=True):
    """A time in seconds since 1970 (UTC), an unsigned 64-bit integer on the wire."""

    seconds: int


class Binary(bytes):
    """Bytes of type ``x``, unlike plain Python bytes, which are encoded as a long string."""


Value = (
    bool
    | int
    | float
    | str
    | bytes
    | Decimal
    | Timestamp
    | None
    | Sequence[object]
    | Mapping[str, object]
)
"""The Python types of values in a table; arrays and nested tables contain the same types."""
Table = Mapping[str, Value]

_U32, _I32, _I64, _U64 = Struct(">I"), Struct(">i"), Struct(">q"), Struct(">Q")
_DOUBLE, _DECIMAL = Struct(">d"), Struct(">Bi")
_FIXED = {
    ord(letter): Struct(code)
    for letter, code in (
        ("t", ">?"),
        ("b", ">b"),
        ("B", ">B"),
        ("s", ">h"),
        ("u", ">H"),
        ("I", ">i"),
        ("i", ">I"),
        ("l", ">q"),
        ("L", ">q"),
        ("f", ">f"),
        ("d", ">d"),
        ("T", ">Q"),
        ("D", ">Bi"),
    )
}
_SIZED = frozenset(b"SxAF")
_NUMBERS: dict[int, type[int] | type[float]] = {
    ord("b"): Octet,
    ord("B"): UnsignedOctet,
    ord("s"): Short,
    ord("u"): UnsignedShort,
    ord("i"): UnsignedInt,
    ord("l"): Long,
    ord("L"): Long,
    ord("f"): Single,
}
_LETTERS: dict[type, int] = {
    kind: letter for letter, kind in _NUMBERS.items() if letter != ord("L")
}


def malformed(detail: str) -> AmqpError:
    """Return the AmqpError for bytes that cannot be decoded."""
    return AmqpError(ReplyCode.SYNTAX_ERROR, detail)


# Decoding. Every function takes the position to start at and the end of the enclosing value, and
# returns the value and the position after it.


def read_short_string(data: bytes, at: int, end: int) -> tuple[str, int]:
    """Decode a string of at most 255 bytes; return it and the position after it."""
    if at >= end:
        raise malformed("a short string begins past the end")
    begin = at + 1
    at = begin + data[at]
    if at > end:
        raise malformed("a short string goes past the end")
    try:
        return str(data[begin:at], "utf-8"), at
    except UnicodeDecodeError:
        raise malformed("malformed UTF-8 in a short string") from None


def read_long_string(data: bytes, at: int, end: int) -> tuple[bytes, int]:
    """Decode a string of any length as bytes; return them and the position after them."""
    begin, at = _sized(data, at, end)
    return data[begin:at], at


def read_table(data: bytes, at: int, end: int) -> tuple[dict[str, Value], int]:
    """Decode a table that is preceded by its length; return it and the position after it."""
    begin, at = _sized(data, at, end)
    return read_bare_table(data, begin, at), at


def read_bare_table(data: bytes, at: int, end: int, depth: int = 1) -> dict[str, Value]:
    """Decode a table without a length, up to ``end``; of equal names the last one applies."""
    found: dict[str, Value] = {}
    while at < end:
        name, at = read_short_string(data, at, end)
        found[name], at = _value(data, at, end, depth)
    return found


def _sized(data: bytes, at: int, end: int) -> tuple[int, int]:
    """Read the 4-byte length that precedes a value; return where the value begins and ends."""
    begin = at + 4
    if begin > end:
        raise malformed("a length goes past the end")
    at = begin + _U32.unpack_from(data, at)[0]
    if at > end:
        raise malformed("a string, table or array goes past the end")
    return begin, at


def _value(data: bytes, at: int, end: int, depth: int) -> tuple[Value, int]:
    if at >= end:
        raise malformed("a table value is missing")
    letter = data[at]
    at += 1
    if letter in _SIZED:
        begin, at = _sized(data, at, end)
        return _sized_value(letter, data, begin, at, depth), at
    fixed = _FIXED.get(letter)
    if fixed is None:
        if letter == ord("V"):
            return None, at
        raise malformed(f"unknown table value type {chr(letter)!r}")
    if at + fixed.size > end:
        raise malformed("a table value goes past the end")
    found = fixed.unpack_from(data, at)
    return _fixed_value(letter, found), at + fixed.size


def _fixed_value(letter: int, found: tuple[int, ...]) -> Value:
    if letter == ord("T"):
        return Timestamp(found[0])
    if letter == ord("D"):
        scale, unscaled = found
        # Digits and exponent are kept as they are: arithmetic would round.
        digits = tuple(map(int, str(abs(unscaled))))
        return Decimal((int(unscaled < 0), digits, -scale))
    number = _NUMBERS.get(letter)
    if number is None or (number is Long and not _fits_int(found[0])):
        return found[0]
    return number(found[0])


def _fits_int(value: int) -> bool:
    return -(2**31) <= value < 2**31


def _sized_value(letter: int, data: bytes, begin: int, end: int, depth: int) -> Value:
    if letter == ord("S"):
        text = data[begin:end]
        try:
            return str(text, "utf-8")
        except UnicodeDecodeError:
            return text
    if letter == ord("x"):
        return Binary(data[begin:end])
    if depth >= MAX_DEPTH:
        raise malformed(f"tables nest more than {MAX_DEPTH} deep")
    if letter == ord("F"):
        return read_bare_table(data, begin, end, depth + 1)
    values: list[Value] = []
    while begin < end:
        value, begin = _value(data, begin, end, depth + 1)
        values.append(value)
    return values


# Encoding. ValueError means that the wire format cannot hold a value, so it was never received.


def short_string(text: str) -> bytes:
    """Encode a string of at most 255 bytes."""
    data = text.encode()
    if len(data) > MAX_SHORT_BYTES:
        raise ValueError(f"a short string has at most {MAX_SHORT_BYTES} bytes, not {len(data)}")
    return bytes((len(data),)) + data


def long_string(data: bytes) -> bytes:
    """Encode a string of any length."""
    return _U32.pack(len(data)) + data


def table(values: Mapping[str, object]) -> bytes:
    """Encode a table preceded by its length."""
    parts: list[bytes] = []
    for name, value in values.items():
        parts += (short_string(name), _written(value))
    return long_string(b"".join(parts))


def _written(value: object) -> bytes:  # noqa: C901, PLR0911, PLR0912 - one for each
    letter = _LETTERS.get(type(value))
    if letter is not None:
        return bytes((letter,)) + _FIXED[letter].pack(value)
    match value:
        case str():
            return b"S" + long_string(value.encode())
        case bool():
            return b"t\1" if value else b"t\0"
        case int():
            if _fits_int(value):
                return b"I" + _I32.pack(value)
            if not -(2**63) <= value < 2**63:
                raise ValueError(f"{value} has more than 64 bits")
            return b"l" + _I64.pack(value)
        case None:
            return b"V"
        case Mapping():
            return b"F" + table(value)
        case Binary():
            return b"x" + long_string(value)
        case bytes():
            return b"S" + long_string(value)
        case float():
            return b"d" + _DOUBLE.pack(value)
        case Timestamp():
            return b"T" + _U64.pack(value.seconds)
        case Decimal():
            return b"D" + _written_decimal(value)
        case Sequence():
            return b"A" + long_string(b"".join(map(_written, value)))
    raise ValueError(f"a table cannot hold {type(value).__name__}")


def _written_decimal(value: Decimal) -> bytes:
    sign, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int):
        raise ValueError(f"a table cannot hold {value}")
    scale = max(-exponent, 0)
    if scale > 255 or exponent > 9 or len(digits) > 10:
        raise ValueError(f"{value} has too many digits")
    unscaled = int("".join(map(str, digits))) * 10 ** max(exponent, 0)
    unscaled = -unscaled if sign else unscaled
    if not -(2**31) <= unscaled < 2**31:
        raise ValueError(f"{value} has too many digits")
    # The specification says unsigned; clients decode it as signed.
    return _DECIMAL.pack(scale, unscaled)
