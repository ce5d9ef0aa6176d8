"""Converts rows to events for a topic; checks the rows' columns and types."""

import zlib
from collections.abc import Iterable, Iterator

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructType,
    TimestampType,
)

from mainstem.core.errors import InvalidSetting
from mainstem.core.event import Headers
from mainstem.remote.transactions import Outgoing

_TYPES: dict[str, tuple[type[DataType], ...]] = {
    "key": (BinaryType, StringType),
    "value": (BinaryType, StringType),
    "headers": (ArrayType,),
    "topic": (StringType,),
    "partition": (IntegerType, LongType),
    "timestamp": (TimestampType,),
}


def check_columns(schema: StructType, topic: str | None) -> None:
    """Raise InvalidSetting if rows with these columns cannot be written to a topic."""
    for field in schema.fields:
        types = _TYPES.get(field.name)
        if types is None:
            raise InvalidSetting(
                f"a topic has no column {field.name!r}; there are {', '.join(_TYPES)}: put the "
                "rest into value, as with to_json(struct(...))"
            )
        if not isinstance(field.dataType, types) or not _is_headers(field.name, field.dataType):
            wanted = " or ".join(each.typeName() for each in types)
            if field.name == "headers":
                wanted = "array<struct<key: string, value: binary>>"
            found = field.dataType.simpleString()
            raise InvalidSetting(f"column {field.name!r} must be {wanted}, not {found}: cast it")
    names = schema.fieldNames()
    if "value" not in names:
        raise InvalidSetting("there is no column value, and an event needs one")
    if topic is None and "topic" not in names:
        raise InvalidSetting("no topic: set option topic, save('orders'), or a column topic")


def _is_headers(name: str, found: DataType) -> bool:
    if name != "headers":
        return True
    assert isinstance(found, ArrayType)
    element = found.elementType
    return (
        isinstance(element, StructType)
        and element.fieldNames() == ["key", "value"]
        and isinstance(element.fields[0].dataType, StringType)
        and isinstance(element.fields[1].dataType, BinaryType)
    )


def events(batches: Iterable[pa.RecordBatch], topic: str | None) -> Iterator[Outgoing]:
    """Yield rows as events; a row's own topic column takes precedence over ``topic``."""
    for batch in batches:
        count = batch.num_rows
        topics = _column(batch, "topic", count)
        if topic is None and None in topics:
            raise InvalidSetting("a row has no topic, and none is given for all; set option topic")
        yield from map(
            Outgoing._make,
            zip(
                [each or topic for each in topics],
                _column(batch, "value", count, pa.binary()),
                _column(batch, "key", count, pa.binary()),
                [_headers(each) for each in _column(batch, "headers", count)],
                _column(batch, "partition", count),
                _milliseconds(batch, count),
                strict=True,
            ),
        )


def _column(batch: pa.RecordBatch, name: str, count: int, form: pa.DataType = None) -> list[object]:
    if name not in batch.schema.names:
        return [None] * count
    column = batch.column(name)
    found: list[object] = (column if form is None else column.cast(form)).to_pylist()
    return found


def _milliseconds(batch: pa.RecordBatch, count: int) -> list[object]:
    if "timestamp" not in batch.schema.names:
        return [None] * count
    stamps = batch.column("timestamp").cast(pa.timestamp("us", tz="UTC")).cast(pa.int64())
    found: list[object] = pc.divide(stamps, 1000).to_pylist()
    return found


def _headers(found: object) -> Headers:
    if not isinstance(found, list):
        return ()
    return tuple((each["key"], each["value"]) for each in found)


class Digest:
    """A row count, and a checksum of the rows that does not depend on their order."""

    def __init__(self) -> None:
        self.rows = 0
        self.number = 0

    def over(self, written: Iterable[Outgoing]) -> Iterator[Outgoing]:
        """Yield the events unchanged, and add each of them to the row count and the digest."""
        for event in written:
            self.rows += 1
            head = zlib.crc32(f"{event.topic}\0{event.partition}\0{event.headers}".encode())
            body = zlib.crc32(event.value or b"", zlib.crc32(event.key or b"", head))
            self.number = (self.number + body) & 0xFFFF_FFFF_FFFF
            yield event
