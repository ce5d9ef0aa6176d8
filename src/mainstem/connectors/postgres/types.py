"""Converts PostgreSQL's values from text for JSON, in Debezium's default mapping.

How this works: PostgreSQL sends every value as text. Each type has a function that converts the
text to the value that Debezium's JSON has, and a Kafka Connect schema for that value. Values of
types that Debezium does not support (line, box, unknown ones) are published as their text.
"""

import math
import re
import struct
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import NamedTuple

import msgspec

from mainstem.connectors.errors import SourceRefused
from mainstem.connectors.postgres.hstore import parse_hstore
from mainstem.connectors.settings import Decimals

UNAVAILABLE = "__debezium_unavailable_value"
"""What stands for a large value that an update has not changed, and the database did not send."""
Convert = Callable[[str], object]
Schema = Mapping[str, object]

MONEY_SCALE = 2
_VARIABLE, _POINT_DOC = "Variable scaled decimal", "Geometry (POINT)"
_INFINITY_US = 9223372036825200000
_MINUS_INFINITY_US = -9223372036832400000
"""Debezium's values for ``infinity`` and ``-infinity`` as a timestamp."""
_INFINITY_DAYS, _MINUS_INFINITY_DAYS = 2147483647, -2147483648
_DAYS_PER_MONTH = 365.25 / 12
_EPOCH_TIME = datetime(1970, 1, 1)
_LONGEST_PLAIN = len("2024-02-29 12:00:00.123456")
_EPOCH = date(1970, 1, 1).toordinal()
_NOT_MONEY = re.compile(r"[^0-9.-]")
_POINT = struct.Struct("<bidd")
_TIMESTAMP = re.compile(
    r"(\d{4,})-(\d\d)-(\d\d) (\d\d):(\d\d):(\d\d)(?:\.(\d+))?([+-]\d\d(?::?\d\d){0,2})?( BC)?"
)
_TIME = re.compile(r"(\d\d):(\d\d):(\d\d)(?:\.(\d+))?([+-]\d\d(?::?\d\d){0,2})?")
_INTERVAL = re.compile(r"([+-]?\d+) (year|mon|day)s?")
_CLOCK = re.compile(r"([+-]?)(\d+):(\d\d):(\d\d)(?:\.(\d+))?")


class Type(NamedTuple):
    """A type, as the catalog describes it."""

    oid: int
    name: str
    kind: str
    """``b`` base, ``e`` enum, ``d`` domain, ``c`` composite, ``r`` range, ``m`` multirange."""
    base: int
    """The type that a domain is made of, else 0."""
    base_modifier: int
    element: int
    """The type of the elements of an array, else 0."""
    is_array: bool
    labels: tuple[str, ...] = ()
    """The values of an enum, in order."""


class Mapped(NamedTuple):
    """How values of a type are published: a schema, and a function that converts their text."""

    schema: Schema
    convert: Convert | None
    """From text to a value for JSON; None if the text is the value."""
    unavailable: object = UNAVAILABLE
    """What stands for a value that was not sent."""


_STRING = Mapped({"type": "string"}, None)
_BYTES_UNAVAILABLE = UNAVAILABLE.encode()


def _named(kind: str, name: str, version: int = 1, **more: object) -> dict[str, object]:
    return {"type": kind, "name": name, "version": version, **more}


def mapped(
    oid: int, modifier: int, find: Callable[[int], Type], decimals: Decimals, depth: int = 0
) -> Mapped:
    """Return how values of a type are published; ``find`` looks up a type in the catalog."""
    found = find(oid)
    if found.kind == "d" and depth < 20:
        inner = found.base_modifier if modifier == -1 else modifier
        return mapped(found.base, inner, find, decimals, depth + 1)
    if found.is_array and find(found.element).name != "box":
        # The elements of an array of boxes are separated by semicolons; Debezium does not support
        # such arrays.
        return _array(mapped(found.element, modifier, find, decimals, depth + 1))
    if found.kind == "b":
        if (plain := _PLAIN.get(found.name)) is not None:
            return plain
        if (modified := _MODIFIED.get(found.name)) is not None:
            return modified(modifier, decimals)
    if found.kind == "e":
        parameters = {"allowed": ",".join(found.labels)}
        return Mapped(_named("string", "io.debezium.data.Enum", parameters=parameters), None)
    return _STRING


def _array(element: Mapped) -> Mapped:
    convert = element.convert

    def parse(text: str) -> object:
        return parse_array(text, convert)

    items = {"optional": True, **element.schema}
    return Mapped({"type": "array", "items": items}, parse, [element.unavailable])


_ARRAY_TOKEN = re.compile(r'\s*(?:([{},])|"((?:[^"\\]|\\.)*)"|([^{},"]+))', re.DOTALL)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)


def parse_array(text: str, convert: Convert | None) -> list[object]:
    """Return the elements of an array in PostgreSQL's text form; raises ValueError."""
    # Bounds that do not begin with 1 are written first: [0:1]={1,2}
    at = text.index("=") + 1 if text.startswith("[") else 0
    stack: list[list[object]] = []
    while at < len(text):
        token = _ARRAY_TOKEN.match(text, at)
        if token is None:
            break
        at = token.end()
        mark, quoted, plain = token.groups()
        if mark == "{":
            stack.append([])
        elif mark == "}":
            done = stack.pop()
            if not stack:
                return done
            stack[-1].append(done)
        elif quoted is not None:
            value = _ESCAPED.sub(r"\1", quoted)
            stack[-1].append(value if convert is None else convert(value))
        elif plain is not None:
            if plain == "NULL":
                stack[-1].append(None)
            else:
                value = _ESCAPED.sub(r"\1", plain)
                stack[-1].append(value if convert is None else convert(value))
    raise ValueError(f"an array has no end: {text:.100}")


def _float(text: str) -> object:
    value = float(text)
    if math.isfinite(value):
        return value
    # JSON has no NaN and infinities; Kafka Connect's JSON converter writes them as text.
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _bytea(text: str) -> bytes:
    return bytes.fromhex(text[2:])


def _money(decimals: Decimals) -> Convert:
    def convert(text: str) -> object:
        return _decimal(Decimal(_NOT_MONEY.sub("", text)), MONEY_SCALE, decimals)

    return convert


def _numeric(modifier: int, decimals: Decimals) -> Mapped:
    if decimals is Decimals.STRING:
        return _STRING
    if decimals is Decimals.DOUBLE:
        return Mapped({"type": "double"}, _float)
    if modifier < 4:
        fields = [
            {"type": "int32", "optional": False, "field": "scale"},
            {"type": "bytes", "optional": False, "field": "value"},
        ]
        schema = _named(
            "struct", "io.debezium.data.VariableScaleDecimal", fields=fields, doc=_VARIABLE
        )
        return Mapped(schema, _variable_scale, {"scale": 0, "value": _BYTES_UNAVAILABLE})
    precision, scale = (modifier - 4) >> 16 & 0xFFFF, ((modifier - 4 & 0x7FF) ^ 1024) - 1024
    parameters = {"scale": str(scale), "connect.decimal.precision": str(precision)}
    schema = _named("bytes", "org.apache.kafka.connect.data.Decimal", parameters=parameters)

    def convert(text: str) -> object:
        whole, _, fraction = text.partition(".")
        # PostgreSQL writes all digits of the scale, so this is the case of nearly every number.
        if len(fraction) == scale and fraction.isdigit():
            return _java_bytes(int(whole + fraction))
        return unscaled(_finite(text), scale)

    return Mapped(schema, convert, _BYTES_UNAVAILABLE)


def _variable_scale(text: str) -> object:
    number = _finite(text)
    exponent = number.as_tuple().exponent
    assert isinstance(exponent, int)
    return {"scale": -exponent, "value": unscaled(number, -exponent)}


def _finite(text: str) -> Decimal:
    try:
        number = Decimal(text)
    except InvalidOperation:
        raise ValueError(f"not a number: {text:.100}") from None
    if not number.is_finite():
        raise SourceRefused(
            f"a numeric column holds {text}, which exact numbers cannot express; add the connector "
            "with --decimals string or double"
        )
    return number


def unscaled(number: Decimal, scale: int) -> bytes:
    """Return a number times 10 to the power of ``scale``, in bytes as of Java's BigInteger."""
    sign, digits, exponent = number.as_tuple()
    assert isinstance(exponent, int)
    whole, power = int(Decimal((sign, digits, 0))), exponent + scale
    factor: int = 10 ** abs(power)
    return _java_bytes(whole * factor if power >= 0 else whole // factor)


def _java_bytes(whole: int) -> bytes:
    bits = whole.bit_length() if whole >= 0 else (whole + 1).bit_length()
    return whole.to_bytes(bits // 8 + 1, "big", signed=True)


def _decimal(number: Decimal, scale: int, decimals: Decimals) -> object:
    if decimals is Decimals.STRING:
        return str(number)
    return float(number) if decimals is Decimals.DOUBLE else unscaled(number, scale)


def _money_type(_modifier: int, decimals: Decimals) -> Mapped:
    if decimals is Decimals.STRING:
        return Mapped({"type": "string"}, _money(decimals))
    if decimals is Decimals.DOUBLE:
        return Mapped({"type": "double"}, _money(decimals))
    schema = _named(
        "bytes", "org.apache.kafka.connect.data.Decimal", parameters={"scale": str(MONEY_SCALE)}
    )
    return Mapped(schema, _money(decimals), _BYTES_UNAVAILABLE)


def _bits(modifier: int, _decimals: Decimals) -> Mapped:
    if modifier == 1:
        return Mapped({"type": "boolean"}, lambda text: text == "1")
    return _bit_string(modifier)


def _bit_string(modifier: int, _decimals: Decimals = Decimals.PRECISE) -> Mapped:
    # For a bit string without a length Debezium has the largest possible one.
    length = 2147483647 if modifier < 0 else modifier
    schema = _named("bytes", "io.debezium.data.Bits", parameters={"length": str(length)})

    def convert(text: str) -> object:
        return int(text or "0", 2).to_bytes(-(-len(text) // 8), "little")

    return Mapped(schema, convert, _BYTES_UNAVAILABLE)


def _date(text: str) -> object:
    if text.endswith("infinity"):
        return _MINUS_INFINITY_DAYS if text.startswith("-") else _INFINITY_DAYS
    plain, _, era = text.partition(" ")
    year, month, day = (int(part) for part in plain.split("-"))
    return _days(1 - year if era else year, month, day)


def _days(year: int, month: int, day: int) -> int:
    """Return the days since 1970-01-01, also of years that Python's date lacks."""
    shift = (year - 2000) // 400
    return date(year - 400 * shift, month, day).toordinal() - _EPOCH + shift * 146_097


def _micros(fraction: str | None) -> int:
    return int((fraction or "").ljust(6, "0")[:6])


def _offset_s(text: str | None) -> int:
    if not text:
        return 0
    parts = [int(part) for part in text[1:].split(":")]
    seconds = sum(part * unit for part, unit in zip(parts, (3600, 60, 1), strict=False))
    return -seconds if text[0] == "-" else seconds


def timestamp_us(text: str) -> int:
    """Return a timestamp's text as microseconds since 1970; raises ValueError."""
    if text.endswith("infinity"):
        return _MINUS_INFINITY_US if text.startswith("-") else _INFINITY_US
    try:
        since = datetime.fromisoformat(text[:_LONGEST_PLAIN]) - _EPOCH_TIME
    except (ValueError, TypeError):
        # It is before Christ, after the year 9999, or has a zone.
        return _rare_timestamp_us(text)
    if len(text) > _LONGEST_PLAIN:
        return _rare_timestamp_us(text)
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


def _rare_timestamp_us(text: str) -> int:
    """Return any timestamp's text but infinity as microseconds since 1970."""
    found = _TIMESTAMP.fullmatch(text)
    if found is None:
        raise ValueError(f"not a timestamp: {text:.100}")
    year, month, day, hour, minute, second, fraction, zone, era = found.groups()
    days = _days(1 - int(year) if era else int(year), int(month), int(day))
    seconds = days * 86_400 + int(hour) * 3600 + int(minute) * 60 + int(second) - _offset_s(zone)
    return seconds * 1_000_000 + _micros(fraction)


def _timestamp(modifier: int, _decimals: Decimals) -> Mapped:
    if 0 <= modifier <= 3:

        def milliseconds(text: str) -> object:
            value = timestamp_us(text)
            return value if text.endswith("infinity") else value // 1000

        return Mapped(_named("int64", "io.debezium.time.Timestamp"), milliseconds)
    return Mapped(_named("int64", "io.debezium.time.MicroTimestamp"), timestamp_us)


def _zoned_timestamp(modifier: int, _decimals: Decimals) -> Mapped:
    # As many digits as the type has: none is written without the point.
    cut = 0 if not 0 <= modifier < 6 else 6 - modifier if modifier else 7

    def convert(text: str) -> object:
        if text.endswith("infinity"):
            return text
        if text.endswith("+00") and text[10] == " ":
            # Sessions are in UTC, so this is the case of nearly every time.
            day, _, fraction = text[:-3].replace(" ", "T").partition(".")
            whole = f"{day}.{fraction:0<6}Z"
            return f"{whole[: -1 - cut]}Z" if cut else whole
        whole = _iso_timestamp(timestamp_us(text))
        return f"{whole[: -1 - cut]}Z" if cut else whole

    return Mapped(_named("string", "io.debezium.time.ZonedTimestamp"), convert)


def _iso_timestamp(value: int) -> str:
    try:
        moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=value)
    except OverflowError:
        return _far_timestamp(value)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ").rjust(27, "0")


def _far_timestamp(value_us: int) -> str:
    """Return a timestamp in ISO 8601, of a year that Python's datetime does not have."""
    cycle_us = 146_097 * 86_400 * 1_000_000
    cycles = value_us // cycle_us
    moment = datetime(1970, 1, 1) + timedelta(microseconds=value_us - cycles * cycle_us)
    year = moment.year + 400 * cycles
    sign = "+" if year > 9999 else "-" if year < 0 else ""
    return f"{sign}{abs(year):04}{moment.strftime('-%m-%dT%H:%M:%S.%fZ')}"


def _time_us(text: str) -> int:
    found = _TIME.fullmatch(text)
    if found is None:
        raise ValueError(f"not a time: {text:.100}")
    hour, minute, second, fraction, _ = found.groups()
    return (int(hour) * 3600 + int(minute) * 60 + int(second)) * 1_000_000 + _micros(fraction)


def _time(modifier: int, _decimals: Decimals) -> Mapped:
    if 0 <= modifier <= 3:
        schema = _named("int32", "io.debezium.time.Time")
        return Mapped(schema, lambda text: _time_us(text) // 1000)
    return Mapped(_named("int64", "io.debezium.time.MicroTime"), _time_us)


def _zoned_time(text: str) -> object:
    found = _TIME.fullmatch(text)
    if found is None:
        raise ValueError(f"not a time: {text:.100}")
    value = (_time_us(text) - _offset_s(found[5]) * 1_000_000) % 86_400_000_000
    seconds, micros = divmod(value, 1_000_000)
    clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return f"{clock}.{micros:06}".rstrip("0").rstrip(".") + "Z" if micros else f"{clock}Z"


def _interval(text: str) -> object:
    """Return an interval in microseconds; a month counts 365.25/12 days, as in Debezium."""
    years = months = days = 0
    for amount, unit in _INTERVAL.findall(text):
        if unit == "year":
            years = int(amount)
        elif unit == "mon":
            months = int(amount)
        else:
            days = int(amount)
    micros = 0
    if (clock := _CLOCK.search(text)) is not None:
        sign, hours, minutes, seconds, fraction = clock.groups()
        micros = (int(hours) * 3600 + int(minutes) * 60 + int(seconds)) * 1_000_000
        micros += _micros(fraction)
        micros = -micros if sign == "-" else micros
    whole_days = (years * 12 + months) * _DAYS_PER_MONTH + days
    return int(whole_days * 86_400 * 1_000_000) + micros


def _point(text: str) -> object:
    x, y = (float(part) for part in text.strip("()").split(","))
    return {"x": x, "y": y, "wkb": _POINT.pack(1, 1, x, y), "srid": None}


_POINT_FIELDS = [
    {"type": "double", "optional": False, "field": "x"},
    {"type": "double", "optional": False, "field": "y"},
    {"type": "bytes", "optional": True, "field": "wkb"},
    {"type": "int32", "optional": True, "field": "srid"},
]

_PLAIN: dict[str, Mapped] = {
    "bool": Mapped({"type": "boolean"}, lambda text: text == "t"),
    "int2": Mapped({"type": "int16"}, int),
    "int4": Mapped({"type": "int32"}, int),
    "int8": Mapped({"type": "int64"}, int),
    "oid": Mapped({"type": "int64"}, int),
    "float4": Mapped({"type": "float"}, _float),
    "float8": Mapped({"type": "double"}, _float),
    "bytea": Mapped({"type": "bytes"}, _bytea, _BYTES_UNAVAILABLE),
    "json": Mapped(_named("string", "io.debezium.data.Json"), None),
    "jsonb": Mapped(_named("string", "io.debezium.data.Json"), None),
    "xml": Mapped(_named("string", "io.debezium.data.Xml"), None),
    "tsvector": Mapped(_named("string", "io.debezium.data.Tsvector"), None),
    "uuid": Mapped(_named("string", "io.debezium.data.Uuid"), None),
    "ltree": Mapped(_named("string", "io.debezium.data.Ltree"), None),
    "hstore": Mapped(
        _named("string", "io.debezium.data.Json"),
        lambda text: msgspec.json.encode(parse_hstore(text)).decode(),
    ),
    "date": Mapped(_named("int32", "io.debezium.time.Date"), _date),
    "timetz": Mapped(_named("string", "io.debezium.time.ZonedTime"), _zoned_time),
    "interval": Mapped(_named("int64", "io.debezium.time.MicroDuration"), _interval),
    "point": Mapped(
        _named("struct", "io.debezium.data.geometry.Point", fields=_POINT_FIELDS, doc=_POINT_DOC),
        _point,
    ),
}
_MODIFIED: dict[str, Callable[[int, Decimals], Mapped]] = {
    "numeric": _numeric,
    "money": _money_type,
    "bit": _bits,
    "varbit": _bit_string,
    "time": _time,
    "timestamp": _timestamp,
    "timestamptz": _zoned_timestamp,
}
