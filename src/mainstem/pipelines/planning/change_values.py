"""Converts change events in Debezium's envelope to JSON text with the columns of ``p.changes``.

How this works: Debezium writes a timestamp as a number of units since 1970, a date as days since
1970, and a decimal as base64 of its unscaled digits. The column types of the pipeline's schema say
how to read a value; the unit of timestamps is ``epoch``. If an event carries its own schema
(``schemas.enable``), the units and scales found there take precedence. The result is text that
``json_values.py`` reads with its usual checks, so a value that does not fit its column makes the
event bad.
"""

import binascii
import re
from base64 import b64decode
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import msgspec
from pyspark.sql import types as t
from pyspark.sql.types import DataType, StructField, StructType

from mainstem.pipelines.definitions.table import Decimals, Epoch

UNAVAILABLE = "__debezium_unavailable_value"
"""Stands for a value that the database did not log, because the change left it as it was."""
OPERATIONS = {
    "c": "insert",
    "r": "read",
    "u": "update",
    "d": "delete",
    "t": "truncate",
}
_BINARY_UNAVAILABLE = "X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ=="
_MICROS: dict[str, int] = {"seconds": 1_000_000, "milliseconds": 1_000, "microseconds": 1}
_SEMANTIC_UNITS: dict[str, Epoch] = {
    "io.debezium.time.Timestamp": "milliseconds",
    "org.apache.kafka.connect.data.Timestamp": "milliseconds",
    "io.debezium.time.MicroTimestamp": "microseconds",
}
_NANOS = "io.debezium.time.NanoTimestamp"
_DECIMAL = "org.apache.kafka.connect.data.Decimal"
_BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)
_FILE_NUMBER = re.compile(r"(\d+)$")
_SEQUENCE = re.compile(r'\["(\d+)", ?"\d+"\]')
"""Debezium's ``source.sequence``: the end of the last commit before the change, and its LSN."""

Document = Mapping[str, object]


# Decimals, so that a number keeps the digits that it was written with.
_decode = msgspec.json.Decoder(dict[str, object], float_hook=Decimal).decode
_encode = msgspec.json.Encoder(decimal_format="number").encode


class _Unreadable(Exception):
    """Raised if a value cannot be read as its column's type; the message says why."""


def change_columns(row: StructType) -> StructType:
    """Return the columns of ``p.changes`` for a database table with the columns ``row``."""
    return StructType(
        [
            StructField("op", t.StringType(), nullable=False),
            StructField("before", row),
            StructField("after", row),
            StructField("committed_at", t.TimestampType()),
            StructField("position", t.StringType(), nullable=False),
            StructField("transaction", t.StringType()),
            StructField("unavailable", t.ArrayType(t.StringType())),
        ]
    )


class ChangeReader:
    """Reads change events; Spark's workers get a pickled copy."""

    def __init__(self, row: StructType, epoch: Epoch, decimals: Decimals) -> None:
        self._row, self._epoch, self._decimals = row, epoch, decimals

    def read(self, value: bytes | None, offset: int) -> tuple[str | None, str | None]:
        """Return a change event as JSON text, or None and the reason why the event is bad."""
        try:
            found = _change(bytes(value or b""), offset, self._row, self._epoch, self._decimals)
        except _Unreadable as error:
            return None, str(error)
        return _encode(found).decode(), None


def _change(
    value: bytes, offset: int, row: StructType, epoch: Epoch, decimals: Decimals
) -> dict[str, object]:
    try:
        document = _decode(value)
    except (ValueError, RecursionError) as error:
        raise _Unreadable(f"not a change event: {error}") from None
    schema = document.get("schema")
    if "payload" in document:
        payload = document["payload"]
        if not isinstance(payload, dict):
            raise _Unreadable("not a change event: its payload is no object")
        document = payload
    op = OPERATIONS.get(str(document.get("op")))
    if op is None or "after" not in document:
        raise _Unreadable("not a change event in Debezium's envelope: no op, before and after")
    origin = document.get("source")
    origin = origin if isinstance(origin, dict) else {}
    unavailable: list[str] = []
    rows = {}
    for side in ("before", "after"):
        reading = _RowReader(row, epoch, decimals, _field_schemas(schema, side))
        rows[side] = reading.row(document.get(side), unavailable if side == "after" else [])
    transaction = document.get("transaction")
    return {
        "op": op,
        **rows,
        "committed_at": _commit_time(origin, document),
        "position": position_of(origin, offset, op),
        "transaction": str(transaction["id"])
        if isinstance(transaction, dict) and "id" in transaction
        else None,
        "unavailable": unavailable or None,
    }


def position_of(origin: Document, offset: int, op: str) -> str:
    """Return text that sorts in the order of a table's changes.

    It is the position in the database's log, so a change that is sent twice has the same position
    twice; without a log position, it is the offset in the topic. A connector that has lost changes
    reads all rows again, and the database's positions may begin anew; so its events then have a
    higher epoch, which is put before the position, and the first of them is a truncate.
    """
    epoch = origin.get("epoch")
    prefix = f"e{epoch:015}:" if isinstance(epoch, int) else ""
    if op == "truncate" and origin.get("snapshot") == "true":
        return prefix
    return prefix + _position_in_log(origin, offset, is_read=op == "read")


def _position_in_log(origin: Document, offset: int, *, is_read: bool) -> str:
    lsn, file, position = origin.get("lsn"), origin.get("file"), origin.get("pos")
    if isinstance(lsn, int):
        # Changes of concurrent transactions interleave in the log, but are sent in the order of the
        # commits.
        found = _SEQUENCE.fullmatch(str(origin.get("sequence")))
        last_commit = int(found[1]) if found else lsn
        # A row that a snapshot read is older than the changes after the same commit.
        return f"{last_commit:020}:{0 if is_read else lsn:020}"
    if isinstance(file, str) and isinstance(position, int):
        found = _FILE_NUMBER.search(file)
        row = origin.get("row")
        row = row if isinstance(row, int) else 0
        return f"{int(found[1]) if found else 0:012}:{position:020}:{row:010}"
    # The number of a change in SQLite, by our own connector.
    number = origin.get("seq")
    return f"{number if isinstance(number, int) else offset:020}"


def _commit_time(origin: Document, document: Document) -> str | None:
    for name, micros in (("ts_us", 1), ("ts_ms", 1_000)):
        for place in (origin, document):
            if isinstance(found := place.get(name), int):
                return _moment(found * micros)
    return None


def _field_schemas(schema: object, side: str) -> dict[str, Document]:
    """Return the schemas of a row's fields by name; empty if the event carries none.

    ``side`` is ``before`` or ``after``.
    """
    for each in _fields(schema):
        if each.get("field") == side:
            return {str(field.get("field")): field for field in _fields(each)}
    return {}


def _fields(schema: object) -> list[Document]:
    fields = schema.get("fields") if isinstance(schema, dict) else None
    return [each for each in fields if isinstance(each, dict)] if isinstance(fields, list) else []


class _RowReader:
    """Reads ``before`` or ``after`` of a change into values for JSON."""

    def __init__(
        self,
        columns: StructType,
        epoch: Epoch,
        decimals: Decimals,
        schemas: Mapping[str, Document],
    ) -> None:
        self._columns, self._schemas = columns, schemas
        self._epoch, self._decimals = epoch, decimals

    def row(self, given: object, unavailable: list[str]) -> dict[str, object] | None:
        """Return a row as values for JSON; None if ``given`` is null.

        Appends to ``unavailable`` the names of the columns whose values the database did not log.
        """
        if given is None:
            return None
        if not isinstance(given, dict):
            raise _Unreadable("not a change event: before or after is no object")
        found: dict[str, object] = {}
        for each in self._columns:
            value = given.get(each.name)
            if _is_unavailable(value):
                unavailable.append(each.name)
                value = None
            found[each.name] = self._value(value, each.dataType, each.name)
        return found

    def _value(self, value: object, kind: DataType, name: str) -> object:
        if value is None:
            return None
        match kind:
            case t.TimestampType() | t.TimestampNTZType():
                return self._time(value, name, zone=isinstance(kind, t.TimestampType))
            case t.DateType():
                return _date(value, name)
            case t.DecimalType():
                return self._decimal(value, kind, name)
            case t.ArrayType() if isinstance(value, list):
                return [self._value(each, kind.elementType, name) for each in value]
        return value

    def _time(self, value: object, name: str, *, zone: bool) -> object:
        if not isinstance(value, int) or isinstance(value, bool):
            return value
        semantic = str(self._schemas.get(name, {}).get("name"))
        unit = _SEMANTIC_UNITS.get(semantic, self._epoch)
        micros = value // 1_000 if semantic == _NANOS else value * _MICROS[unit]
        moment = _moment(micros)
        if moment is None:
            raise _Unreadable(f"{name}: {value} is not in the years 1 to 9999")
        return moment if zone else moment.removesuffix("Z")

    def _decimal(self, value: object, kind: t.DecimalType, name: str) -> object:
        schema = self._schemas.get(name, {})
        scale = kind.scale
        if isinstance(value, dict):
            # A column without a scale of its own (VariableScaleDecimal).
            given = value.get("scale")
            value = value.get("value")
            scale = given if isinstance(given, int) else scale
        elif self._schemas and schema.get("name") != _DECIMAL:
            return value
        elif isinstance(parameters := schema.get("parameters"), dict):
            scale = int(str(parameters.get("scale", scale)))
        elif self._decimals != "precise":
            return value
        if not isinstance(value, str):
            return value
        try:
            digits = int.from_bytes(b64decode(value, validate=True), "big", signed=True)
        except (binascii.Error, ValueError):
            raise _Unreadable(
                f"{name}: {value:.50} is not base64 of a decimal; if Debezium runs with "
                "decimal.handling.mode=string, say p.changes(..., decimals='string')"
            ) from None
        return format(Decimal(digits).scaleb(-scale), "f")


def _is_unavailable(value: object) -> bool:
    if isinstance(value, list):
        return len(value) == 1 and _is_unavailable(value[0])
    return value in (UNAVAILABLE, _BINARY_UNAVAILABLE)


def _moment(micros: int) -> str | None:
    try:
        found = _BEGINNING + timedelta(microseconds=micros)
    except OverflowError:
        return None
    return found.replace(tzinfo=None).isoformat() + "Z"


def _date(value: object, name: str) -> object:
    if not isinstance(value, int) or isinstance(value, bool):
        return value
    try:
        return (date(1970, 1, 1) + timedelta(days=value)).isoformat()
    except OverflowError:
        raise _Unreadable(f"{name}: day {value} is not in the years 1 to 9999") from None
