"""Converts MariaDB's values, of the binlog and of queries, for JSON, as Debezium maps them.

How this works: each column has a decoder for its bytes in the binlog, and a converter for the text
that a query returns. Both give the same value. A date that does not exist, such as 0000-00-00,
becomes null, or 1970-01-01 in a column that may not be null.
"""

import ipaddress
import math
import struct
import uuid
from collections.abc import Callable, Mapping
from datetime import date

from mainstem.connectors.mariadb.columns import INTEGERS, Spec
from mainstem.connectors.settings import Decimals

Decode = Callable[[bytes, int], tuple[object, int]]
"""From the bytes of a row and a place in them to a value and the place after it."""
Convert = Callable[[str | bytes], object]
_EPOCH = date(1970, 1, 1).toordinal()
_SIZES = {"tinyint": 1, "smallint": 2, "mediumint": 3, "int": 4, "bigint": 8}
_SCHEMAS = {"tinyint": "int16", "smallint": "int16", "mediumint": "int32", "int": "int32"}
_UNSIGNED = {"tinyint": "int16", "smallint": "int32", "mediumint": "int32", "int": "int64"}
_DIGIT_BYTES = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)
_FLOAT, _DOUBLE = struct.Struct("<f"), struct.Struct("<d")
_PLACE, _PLACE_AT = struct.Struct("<dd"), 9
"""The coordinates of a point, after its srid, byte order and type."""
_FRACTION_US = (1, 10_000, 100, 1)
"""What one unit of a fraction of so many bytes is, in microseconds."""


def _named(kind: str, name: str, version: int = 1, **more: object) -> Mapping[str, object]:
    return {"type": kind, "name": name, "version": version, **more}


def _field(kind: str, name: str, *, optional: bool = False) -> Mapping[str, object]:
    return {"type": kind, "optional": optional, "field": name}


def schema_of(spec: Spec, decimals: Decimals) -> Mapping[str, object]:
    """Return the Kafka Connect schema of a column's values."""
    kind = spec.kind
    if kind in INTEGERS:
        return {"type": (_UNSIGNED if spec.is_unsigned else _SCHEMAS).get(kind, "int64")}
    if kind == "decimal":
        return _decimal_schema(spec, decimals)
    if kind.endswith(("blob", "binary")):
        return {"type": "bytes"}
    found = dict(_PLAIN_SCHEMAS.get(kind, {"type": "string"}))
    if kind == "bit" and spec.size > 1:
        parameters = {"length": str(spec.size)}
        found = {**_named("bytes", "io.debezium.data.Bits"), "parameters": parameters}
    elif kind in ("enum", "set"):
        found["parameters"] = {"allowed": ",".join(spec.labels)}
    elif kind == "datetime" and spec.scale > 3:
        found["name"] = "io.debezium.time.MicroTimestamp"
    return found


_PLAIN_SCHEMAS: Mapping[str, Mapping[str, object]] = {
    "bit": {"type": "boolean"},
    "float": {"type": "float"},
    "double": {"type": "double"},
    "year": _named("int32", "io.debezium.time.Year"),
    "date": _named("int32", "io.debezium.time.Date"),
    "time": _named("int64", "io.debezium.time.MicroTime"),
    "timestamp": _named("string", "io.debezium.time.ZonedTimestamp"),
    "datetime": _named("int64", "io.debezium.time.Timestamp"),
    "enum": _named("string", "io.debezium.data.Enum"),
    "set": _named("string", "io.debezium.data.EnumSet"),
    "uuid": _named("string", "io.debezium.data.Uuid"),
    "geometry": _named(
        "struct",
        "io.debezium.data.geometry.Geometry",
        fields=[_field("bytes", "wkb"), _field("int32", "srid", optional=True)],
        doc="Geometry",
    ),
    "point": _named(
        "struct",
        "io.debezium.data.geometry.Point",
        fields=[
            _field("double", "x"),
            _field("double", "y"),
            _field("bytes", "wkb", optional=True),
            _field("int32", "srid", optional=True),
        ],
        doc="Geometry (POINT)",
    ),
}


def _decimal_schema(spec: Spec, decimals: Decimals) -> Mapping[str, object]:
    if decimals is Decimals.PRECISE:
        parameters = {"scale": str(spec.scale), "connect.decimal.precision": str(spec.size)}
        return _named("bytes", "org.apache.kafka.connect.data.Decimal", parameters=parameters)
    return {"type": "string" if decimals is Decimals.STRING else "double"}


# Shared by decoders and converters


def _exact(whole: int, spec: Spec, decimals: Decimals) -> object:
    """Return a decimal in the form that ``decimals`` says; ``whole`` has all its digits."""
    if decimals is Decimals.PRECISE:
        bits = whole.bit_length() if whole >= 0 else (whole + 1).bit_length()
        return whole.to_bytes(bits // 8 + 1, "big", signed=True)
    digits = str(abs(whole)).rjust(spec.scale + 1, "0")
    point = len(digits) - spec.scale
    text = f"{'-' if whole < 0 else ''}{digits[:point]}"
    text += f".{digits[point:]}" if spec.scale else ""
    return text if decimals is Decimals.STRING else float(text)


def _single(value: float) -> float:
    """Return the shortest number that rounds to the same 32-bit float."""
    for digits in range(6, 9):
        short = float(f"{value:.{digits}g}")
        if _FLOAT.pack(short) == _FLOAT.pack(value):
            return short
    return float(f"{value:.9g}") if math.isfinite(value) else value


def _days(year: int, month: int, day: int) -> int | None:
    # Dates whose month or day is zero do not exist, either.
    return date(year, month, day).toordinal() - _EPOCH if year and month and day else None


def _date(spec: Spec, year: int, month: int, day: int) -> object:
    days = _days(year, month, day)
    return 0 if days is None and not spec.optional else days


def _datetime(spec: Spec, days: int | None, seconds: int, micros: int) -> object:
    if days is None:
        return None if spec.optional else 0
    value = (days * 86_400 + seconds) * 1_000_000 + micros
    return value if spec.scale > 3 else value // 1000


def _timestamp(spec: Spec, seconds: int, micros: int) -> object:
    if not seconds and not micros:
        return None if spec.optional else "1970-01-01T00:00:00Z"
    days, rest = divmod(seconds, 86_400)
    fraction = f".{micros:06}"[: spec.scale + 1] if spec.scale else ""
    clock = f"{rest // 3600:02}:{rest // 60 % 60:02}:{rest % 60:02}"
    return f"{date.fromordinal(days + _EPOCH).isoformat()}T{clock}{fraction}Z"


def _geometry(data: bytes) -> object:
    srid = int.from_bytes(data[:4], "little")
    return {"wkb": data[4:], "srid": srid or None}


def _point(data: bytes) -> object:
    x, y = _PLACE.unpack_from(data, _PLACE_AT)
    srid = int.from_bytes(data[:4], "little")
    return {"x": x, "y": y, "wkb": data[4:], "srid": srid or None}


def _bits(spec: Spec, number: int) -> object:
    if spec.size == 1:
        return bool(number)
    return number.to_bytes((spec.size + 7) // 8, "little")


# From queries


def converter(spec: Spec, decimals: Decimals) -> Convert:
    """Return the function that converts a column's text in a query result."""
    kind = spec.kind
    if (of_spec := _OF_SPEC.get(kind)) is not None:
        return lambda it: of_spec(spec, it)
    if kind == "decimal":
        return lambda it: _exact(int(_text(it).replace(".", "")), spec, decimals)
    return _bytes if kind.endswith(("blob", "binary")) else _CONVERTERS.get(kind, _text)


_OF_SPEC: Mapping[str, Callable[[Spec, str | bytes], object]] = {
    "date": lambda spec, it: _date(spec, *map(int, _text(it).split("-"))),
    "bit": lambda spec, it: _bits(spec, int.from_bytes(_bytes(it), "big")),
    "datetime": lambda spec, it: _moment_of(spec, _text(it)),
    "timestamp": lambda spec, it: _moment_of(spec, _text(it)),
    "binary": lambda spec, it: _bytes(it).ljust(spec.size, b"\0"),
}
_CONVERTERS: Mapping[str, Convert] = {
    **dict.fromkeys([*INTEGERS, "year"], int),
    "float": lambda it: _single(float(it)),
    "double": float,
    "time": lambda it: _time_of(_text(it)),
    "geometry": lambda it: _geometry(_bytes(it)),
    "point": lambda it: _point(_bytes(it)),
    # The bytes of the binlog are converted to the same text.
    "inet6": lambda it: str(ipaddress.IPv6Address(_text(it))),
}


def _text(value: str | bytes) -> str:
    return value if isinstance(value, str) else value.decode("utf-8", "replace")


def _bytes(value: str | bytes) -> bytes:
    return value if isinstance(value, bytes) else value.encode()


def _micros(fraction: str) -> int:
    return int(fraction.ljust(6, "0")) if fraction else 0


def _seconds_of(clock: str) -> int:
    hours, minutes, seconds = map(int, clock.split(":"))
    return hours * 3600 + minutes * 60 + seconds


def _time_of(text: str) -> int:
    clock, _, fraction = text.lstrip("-").partition(".")
    value = _seconds_of(clock) * 1_000_000 + _micros(fraction)
    return -value if text.startswith("-") else value


def _moment_of(spec: Spec, text: str) -> object:
    day, _, rest = text.partition(" ")
    clock, _, fraction = rest.partition(".")
    days, seconds, micros = _days(*map(int, day.split("-"))), _seconds_of(clock), _micros(fraction)
    if spec.kind == "datetime":
        return _datetime(spec, days, seconds, micros)
    return _timestamp(spec, 0 if days is None else days * 86_400 + seconds, micros)


# From the binlog


def decoder(spec: Spec, decimals: Decimals) -> Decode:
    """Return the function that decodes a column's bytes in a row of the binlog."""
    kind = spec.kind
    if kind in INTEGERS:
        return _integer(_SIZES[kind], is_signed=not spec.is_unsigned)
    if kind == "decimal":
        return _decimal(spec, decimals)
    return _FIXED[kind] if kind in _FIXED else _DECODERS.get(kind, _sized)(spec)


def _bit(spec: Spec) -> Decode:
    size = (spec.size + 7) // 8
    return lambda data, at: (_bits(spec, int.from_bytes(data[at : at + size], "big")), at + size)


def _packed_date(spec: Spec) -> Decode:
    def decode(data: bytes, at: int) -> tuple[object, int]:
        number = int.from_bytes(data[at : at + 3], "little")
        return _date(spec, number >> 9, number >> 5 & 15, number & 31), at + 3

    return decode


def _integer(size: int, *, is_signed: bool) -> Decode:
    if size == 3:
        return lambda data, at: (
            int.from_bytes(data[at : at + 3], "little", signed=is_signed),
            at + 3,
        )
    letter = {1: "b", 2: "h", 4: "i", 8: "q"}[size]
    unpack = struct.Struct("<" + (letter if is_signed else letter.upper())).unpack_from
    return lambda data, at: (unpack(data, at)[0], at + size)


_FIXED: Mapping[str, Decode] = {
    "float": lambda data, at: (_single(_FLOAT.unpack_from(data, at)[0]), at + 4),
    "double": lambda data, at: (_DOUBLE.unpack_from(data, at)[0], at + 8),
    "year": lambda data, at: (data[at] + 1900 if data[at] else 0, at + 1),
}


def _fraction_bytes(spec: Spec) -> int:
    return (spec.scale + 1) // 2


def _time(spec: Spec) -> Decode:
    after = _fraction_bytes(spec)
    size, unit = 3 + after, _FRACTION_US[after]
    middle, mask = 1 << (8 * size - 1), (1 << 8 * after) - 1

    def decode(data: bytes, at: int) -> tuple[object, int]:
        number = int.from_bytes(data[at : at + size], "big") - middle
        clock, fraction = abs(number) >> 8 * after, abs(number) & mask
        seconds = (clock >> 12) * 3600 + (clock >> 6 & 63) * 60 + (clock & 63)
        value = seconds * 1_000_000 + fraction * unit
        return (-value if number < 0 else value), at + size

    return decode


def _moment(spec: Spec) -> Decode:
    after = _fraction_bytes(spec)
    whole = 5 if spec.kind == "datetime" else 4
    size, unit = whole + after, _FRACTION_US[after]

    def datetime(data: bytes, at: int) -> tuple[object, int]:
        number = int.from_bytes(data[at : at + 5], "big") - 0x8000000000
        micros = int.from_bytes(data[at + 5 : at + size], "big") * unit
        day, clock = number >> 17, number & 0x1FFFF
        year, month = divmod(day >> 5, 13)
        seconds = (clock >> 12) * 3600 + (clock >> 6 & 63) * 60 + (clock & 63)
        return _datetime(spec, _days(year, month, day & 31), seconds, micros), at + size

    def timestamp(data: bytes, at: int) -> tuple[object, int]:
        seconds = int.from_bytes(data[at : at + 4], "big")
        micros = int.from_bytes(data[at + 4 : at + size], "big") * unit
        return _timestamp(spec, seconds, micros), at + size

    return datetime if spec.kind == "datetime" else timestamp


def _labels(spec: Spec) -> Decode:
    labels = spec.labels
    if spec.kind == "enum":
        size = 1 if len(labels) < 256 else 2

        def one(data: bytes, at: int) -> tuple[object, int]:
            number = int.from_bytes(data[at : at + size], "little")
            # 0 means that an invalid value was inserted while strict mode was off.
            return (labels[number - 1] if number else ""), at + size

        return one
    width = (len(labels) + 7) // 8
    width = width if width <= 4 else 8

    def some(data: bytes, at: int) -> tuple[object, int]:
        number = int.from_bytes(data[at : at + width], "little")
        chosen = [each for place, each in enumerate(labels) if number >> place & 1]
        return ",".join(chosen), at + width

    return some


def _decimal(spec: Spec, decimals: Decimals) -> Decode:
    # Nine digits take four bytes; the remaining ones, on each side of the point, as few as
    # possible.
    before, after = spec.size - spec.scale, spec.scale
    parts = [before % 9] * (before % 9 > 0) + [9] * (before // 9 + after // 9)
    parts += [after % 9] * (after % 9 > 0)
    plan = [(_DIGIT_BYTES[digits], 10**digits) for digits in parts]
    size = sum(each for each, _ in plan)
    all_ones, first = (1 << 8 * size) - 1, 1 << (8 * size - 1)

    def decode(data: bytes, at: int) -> tuple[object, int]:
        number = int.from_bytes(data[at : at + size], "big") ^ first
        is_negative = bool(number & first)
        if is_negative:
            number ^= all_ones
        raw, whole, place = number.to_bytes(size, "big"), 0, 0
        for width, factor in plan:
            whole = whole * factor + int.from_bytes(raw[place : place + width], "big")
            place += width
        return _exact(-whole if is_negative else whole, spec, decimals), at + size

    return decode


def _sized(spec: Spec) -> Decode:
    """Return a decoder of values that are preceded by their size."""
    width = _width(spec)
    convert = _of_bytes(spec)

    def decode(data: bytes, at: int) -> tuple[object, int]:
        start = at + width
        end = start + int.from_bytes(data[at:start], "little")
        return convert(data[start:end]), end

    return decode


def _width(spec: Spec) -> int:
    if spec.kind in ("char", "varchar", "binary", "varbinary"):
        return 1 if spec.size < 256 else 2
    begins = {"tiny": 1, "medi": 3, "long": 4, "geom": 4, "poin": 4}
    if spec.kind in ("text", "blob"):
        return 2
    return begins.get(spec.kind[:4], 1)


def _of_bytes(spec: Spec) -> Callable[[bytes], object]:
    kind = spec.kind
    if spec.encoding:
        encoding = spec.encoding
        return lambda data: data.decode(encoding, "replace")
    # The server does not store zero bytes at the end of a fixed-size binary.
    if kind == "binary":
        return lambda data: data.ljust(spec.size, b"\0")
    return {
        "geometry": _geometry,
        "point": _point,
        "uuid": lambda data: str(uuid.UUID(bytes=data.ljust(16, b"\0"))),
        "inet6": lambda data: str(ipaddress.IPv6Address(data.ljust(16, b"\0"))),
        "inet4": lambda data: str(ipaddress.IPv4Address(data.ljust(4, b"\0"))),
    }.get(kind, bytes)


_DECODERS: Mapping[str, Callable[[Spec], Decode]] = {
    "time": _time,
    "datetime": _moment,
    "timestamp": _moment,
    "enum": _labels,
    "set": _labels,
    "bit": _bit,
    "date": _packed_date,
}
