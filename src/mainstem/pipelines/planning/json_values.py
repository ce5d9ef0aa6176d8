"""Converts JSON values to columns without changing them: a value that does not fit is bad.

How this works: Spark's ``from_json`` silently changes some values: it rounds decimals, wraps 200 to
a tinyint of -56, turns 1e999 into infinity, and overflows on numbers in timestamps. So such columns
are first read as a wider type, the carrier, and converted from it. The conversion gives null where
a value would change, so a null column with a non-null carrier is a bad value. All of this is done
by Spark expressions, without Python for each row.

``from_json`` also ignores what follows the first value of a text. So the text is wrapped as
``{"v":[TEXT],"end":1}``: anything after the first value is a syntax error or a second element.
"""

from collections.abc import Iterator
from functools import reduce
from operator import or_
from typing import NamedTuple

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - Spark's own custom
from pyspark.sql import types as t
from pyspark.sql.types import DataType, StructField, StructType

from mainstem.pipelines.definitions.table import Epoch

_CORRUPT = "__corrupt"
_OPTIONS = {
    "mode": "PERMISSIVE",
    "columnNameOfCorruptRecord": _CORRUPT,
    "allowNonNumericNumbers": "false",
}
_WIDEST = 38
"""Number of digits of Spark's largest decimal."""
_SPARE_DIGITS = 10
"""Number of extra digits in the carrier, to detect values that would be rounded."""
_UNITS: dict[Epoch, int] = {"seconds": 1, "milliseconds": 1_000, "microseconds": 1_000_000}
_FIRST_S, _LAST_S = -62_135_596_800, 253_402_300_799
"""Start and end of the years 1 to 9999, which Python's datetime can hold, in s since 1970."""
_DATE = r"^\s*(?!0000)[0-9]{4}-"
"""Matches times with a date; Spark would take a time without one as today's."""
_NUMBER = r"^-?([0-9]{1,3}|[0-9]{7,18})$"
"""Matches numbers; not those of 4 to 6 digits, which could be a year."""
_DAY = r"^[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}([T ]00:00(:00(\.0+)?)?Z?)?$"


class Problem(NamedTuple):
    """A condition that makes an event bad, and the reason to report then."""

    condition: Column
    reason: Column


class ReadValue(NamedTuple):
    """A value as it was first read (the carrier), and as converted to its column's type."""

    carrier: Column
    result: Column

    def field(self, name: str) -> "ReadValue":
        """Return carrier and result of a field, if this value is a struct."""
        return ReadValue(self.carrier.getField(name), self.result.getField(name))


def parsed(text: Column, columns: StructType) -> Column:
    """Parse JSON text into a struct for ``value_of`` and ``parse_problem``."""
    kind = StructType(
        [
            StructField("v", t.ArrayType(_carrier(columns))),
            StructField("end", t.IntegerType()),
            StructField(_CORRUPT, t.StringType()),
        ]
    )
    return F.from_json(F.concat(F.lit('{"v":['), text, F.lit('],"end":1}')), kind, _OPTIONS)


def value_of(parsed_text: Column) -> Column:
    """Return all columns of an event as their carriers; null if the text is no JSON object."""
    return F.get(parsed_text.getField("v"), F.lit(0))


def parse_problem(parsed_text: Column, text: Column, columns: StructType) -> Problem:
    """Return the problem that the text is not one JSON object, or does not fit the columns."""
    condition = (
        value_of(parsed_text).isNull()
        | (F.size(parsed_text.getField("v")) > 1)
        | parsed_text.getField("end").isNull()
        | parsed_text.getField(_CORRUPT).isNotNull()
    )
    listed = F.json_array_length(F.concat(F.lit("["), text, F.lit("]")))
    several = listed.isNull() | (listed > 1) | parsed_text.getField("end").isNull()
    reason = (
        F.when(F.get_json_object(text, "$").isNull(), "not JSON")
        .when(several, "more than one JSON value")
        .otherwise(f"does not fit the schema {columns.simpleString()[7:-1]}")
    )
    return Problem(condition, reason)


def converted(carrier: Column, kind: DataType, epoch: Epoch) -> Column:
    """Return a carrier (a value that was read as a wider type), converted to its column's type.

    The result is null where converting would change the value.
    """
    if not _is_carried(kind):
        return carrier
    match kind:
        case t.StructType():
            fields = [
                converted(carrier.getField(each.name), each.dataType, epoch).alias(each.name)
                for each in kind
            ]
            return F.when(carrier.isNotNull(), F.struct(*fields))
        case t.ArrayType():
            element = kind.elementType
            return F.transform(carrier, lambda each: converted(each, element, epoch))
        case t.MapType():
            value = kind.valueType
            return F.transform_values(carrier, lambda _, each: converted(each, value, epoch))
    return _plain(carrier, kind, epoch)


def _plain(carrier: Column, kind: DataType, epoch: Epoch) -> Column:
    match kind:
        case t.DecimalType():
            return _decimal(carrier, kind)
        case t.TimestampType():
            return _timestamp(carrier, epoch)
        case t.DateType():
            return F.when(carrier.rlike(_DAY), carrier.try_cast("date"))
    assert isinstance(kind, t.ByteType)
    return F.when(carrier.between(-128, 127), carrier.cast("tinyint"))


def _decimal(carrier: Column, kind: t.DecimalType) -> Column:
    if _has_room(kind):
        narrow = carrier.try_cast(kind)
        return F.when(narrow == carrier, narrow)
    text = carrier.try_cast("string")
    fits = text.rlike(rf"^[-+]?[0-9]+(\.[0-9]{{0,{kind.scale}}}0*)?$")
    return F.when(fits, text.try_cast(kind))


def _timestamp(carrier: Column, epoch: Epoch) -> Column:
    number, unit = carrier.try_cast("bigint"), _UNITS[epoch]
    is_time = carrier.rlike(_NUMBER) & number.between(_FIRST_S * unit, _LAST_S * unit)
    moment = F.timestamp_micros(F.try_multiply(number, F.lit(1_000_000 // unit)))
    return F.when(carrier.rlike(_DATE), carrier.try_cast("timestamp")).when(is_time, moment)


def value_problems(pair: ReadValue, kind: DataType, epoch: Epoch, path: str) -> Iterator[Problem]:
    """Yield the problems that a value, or a value nested in it, can have.

    ``path`` names the value in the reasons.
    """
    carrier = pair.carrier
    match kind:
        case t.StructType():
            for each in kind:
                yield from value_problems(
                    pair.field(each.name), each.dataType, epoch, f"{path}.{each.name}"
                )
        case t.ArrayType():
            yield from _element_problems(carrier, kind.elementType, epoch, f"{path}[]")
        case t.MapType():
            yield from _element_problems(
                F.map_values(carrier), kind.valueType, epoch, f"{path}{{}}"
            )
        case t.DoubleType() | t.FloatType():
            # Infinity is not valid JSON, so the number was too large.
            is_infinite = F.abs(carrier) == F.lit(float("inf"))
            yield Problem(is_infinite, F.lit(f"{path}: {_complaint(kind)}"))
        case _ if _is_carried(kind):
            lost = ~is_absent(carrier, kind) & pair.result.isNull()
            text = carrier.try_cast("string")
            if isinstance(kind, t.DecimalType) and _has_room(kind):
                text = F.rtrim(F.rtrim(text, F.lit("0")), F.lit("."))
            yield Problem(
                lost, F.concat(F.lit(f"{path}: "), text, F.lit(f" is {_complaint(kind)}"))
            )


def _element_problems(
    carriers: Column, kind: DataType, epoch: Epoch, path: str
) -> Iterator[Problem]:
    def found(each: Column) -> list[Column]:
        pair = ReadValue(each, converted(each, kind, epoch))
        return [wrong.condition for wrong in value_problems(pair, kind, epoch, path)]

    # A condition needs an element to be built on, so build it on one that is not used, to see
    # whether there are any.
    if not found(F.lit(None)):
        return

    def is_wrong(each: Column) -> Column:
        return F.coalesce(reduce(or_, found(each)), F.lit(False))

    leaf = not isinstance(kind, (t.StructType, t.ArrayType, t.MapType))
    yield Problem(
        F.exists(carriers, is_wrong),
        F.lit(f"{path}: {_complaint(kind) if leaf else 'a value does not fit its type'}"),
    )


def _complaint(kind: DataType) -> str:
    match kind:
        case t.DecimalType():
            return f"not exactly a {kind.simpleString()}"
        case t.TimestampType():
            return (
                "not a timestamp (numbers count seconds since 1970; for others say "
                "epoch='milliseconds')"
            )
        case t.DateType():
            return "not a date"
    return f"too large for a {kind.simpleString()}"


def is_absent(carrier: Column, kind: DataType) -> Column:
    """Return the condition that a field is missing or null in the JSON."""
    if isinstance(_carrier(kind), t.VariantType):
        return carrier.try_cast("string").isNull()
    return carrier.isNull()


def _has_room(kind: t.DecimalType) -> bool:
    """Return whether Spark has a decimal type with enough more digits to detect rounding."""
    return kind.precision + _SPARE_DIGITS <= _WIDEST


def _is_carried(kind: DataType) -> bool:
    match kind:
        case t.StructType():
            return any(_is_carried(each.dataType) for each in kind)
        case t.ArrayType():
            return _is_carried(kind.elementType)
        case t.MapType():
            return _is_carried(kind.valueType)
    return isinstance(kind, (t.DecimalType, t.TimestampType, t.DateType, t.ByteType))


def _carrier(kind: DataType) -> DataType:
    """Return the type as which a column of type ``kind`` is first read from JSON."""
    match kind:
        case t.StructType():
            return StructType([StructField(each.name, _carrier(each.dataType)) for each in kind])
        case t.ArrayType():
            return t.ArrayType(_carrier(kind.elementType))
        case t.MapType():
            return t.MapType(kind.keyType, _carrier(kind.valueType))
    return _plain_carrier(kind)


def _plain_carrier(kind: DataType) -> DataType:
    match kind:
        case t.DecimalType() if _has_room(kind):
            return t.DecimalType(_WIDEST, _WIDEST - (kind.precision - kind.scale))
        case t.DecimalType():
            return t.VariantType()
        case t.TimestampType() | t.DateType():
            return t.StringType()
        case t.ByteType():
            return t.ShortType()
    return kind
