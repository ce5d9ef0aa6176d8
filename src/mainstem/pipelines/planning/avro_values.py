"""Decodes Avro values in Python, with or without a schema registry's id prefix."""

import io
import json
import struct
import urllib.request
from collections.abc import Callable, Mapping

from pyspark.sql import types as t
from pyspark.sql.types import DataType, StructField, StructType

from mainstem.pipelines.definitions.table import Source
from mainstem.pipelines.errors import InvalidDefinition
from mainstem.pipelines.planning.schemas import Document, document_of

MAGIC = 0
PREFIX = ">bI"
_TIMEOUT_S = 10

_SIMPLE = {
    "string": t.StringType(),
    "bytes": t.BinaryType(),
    "int": t.IntegerType(),
    "long": t.LongType(),
    "float": t.FloatType(),
    "double": t.DoubleType(),
    "boolean": t.BooleanType(),
}
_LOGICAL = {
    "timestamp-millis": t.TimestampType(),
    "timestamp-micros": t.TimestampType(),
    "local-timestamp-millis": t.TimestampNTZType(),
    "local-timestamp-micros": t.TimestampNTZType(),
    "date": t.DateType(),
}

Decoded = tuple[dict[str, object] | None, str | None]
"""The decoded value, or the reason why the event is bad."""


def avro_schema(source: Source) -> Document:
    """Return the Avro schema to read with: the source's, or the latest one in the registry."""
    if source.schema is not None:
        found = document_of(source.schema)
        if found is None:
            raise InvalidDefinition(
                f"source {source.name!r}: Avro needs an Avro schema (a dict, JSON, or an .avsc "
                "file), not DDL"
            )
        return found
    assert source.registry
    return _fetched(f"{source.registry.rstrip('/')}/subjects/{source.name}-value/versions/latest")


def decoder(schema: Document, registry: str | None) -> Callable[[bytes | None], Decoded]:
    """Return a function that decodes Avro bytes; Spark's workers get it by pickle."""
    writers: dict[int, str | list[object] | dict[str, object]] = {}

    def decode(value: bytes | None) -> Decoded:
        import fastavro  # noqa: PLC0415 - workers load it once

        if value is None:
            return None, "no value"
        reader = fastavro.parse_schema(dict(schema))
        try:
            number, body = _split(bytes(value))
            writer = reader
            if number is not None and registry:
                if number not in writers:
                    found = _fetched(f"{registry.rstrip('/')}/schemas/ids/{number}")
                    writers[number] = fastavro.parse_schema(dict(found))
                writer = writers[number]
            rest = io.BytesIO(body)
            record = fastavro.schemaless_reader(rest, writer, reader)
        except (
            fastavro.schema.SchemaParseException,
            fastavro.read.SchemaResolutionError,
            *(EOFError, ValueError, IndexError, KeyError, TypeError, OverflowError, StopIteration),
            *(AssertionError, struct.error, MemoryError),
        ) as error:
            return None, f"not Avro of the schema: {type(error).__name__} {error}".rstrip()
        if rest.read(1):
            return None, "not Avro of the schema: trailing bytes"
        assert isinstance(record, dict)
        return record, None

    return decode


def _split(value: bytes) -> tuple[int | None, bytes]:
    """Split a value into its schema's id in the registry (after a zero byte) and the Avro bytes."""
    size = struct.calcsize(PREFIX)
    if len(value) >= size and value[0] == MAGIC:
        return struct.unpack_from(PREFIX, value)[1], value[size:]
    return None, value


def _fetched(address: str) -> Document:
    if not address.startswith(("http://", "https://")):
        raise InvalidDefinition(f"{address} is not a schema registry address; use http://...")
    try:
        with urllib.request.urlopen(address, timeout=_TIMEOUT_S) as answer:
            document = json.loads(json.load(answer)["schema"])
    except (OSError, ValueError, KeyError) as error:
        raise InvalidDefinition(f"no schema from {address}: {error}") from None
    assert isinstance(document, dict)
    return document


def avro_columns(schema: Document, where: str) -> StructType:
    """Return the Spark columns for the records of an Avro schema."""
    fields = schema.get("fields")
    if schema.get("type") != "record" or not isinstance(fields, list):
        raise InvalidDefinition(f"{where}: the Avro schema must be a record")
    return StructType(
        [
            StructField(each["name"], *_typed(each["type"], f"{where}.{each['name']}"))
            for each in fields
        ]
    )


def _typed(kind: object, where: str) -> tuple[DataType, bool]:
    if isinstance(kind, list):
        plain = [each for each in kind if each != "null"]
        if len(plain) != 1:
            raise InvalidDefinition(
                f"{where}: only unions of null and one type are supported, not {kind!r}"
            )
        return _typed(plain[0], where)[0], "null" in kind
    return _kind(kind, where), False


def _kind(kind: object, where: str) -> DataType:
    if isinstance(kind, Mapping):
        found = _logical(kind) or _nested(kind, where)
        if found is not None:
            return found
        kind = kind.get("type")
    if not isinstance(kind, str) or kind not in _SIMPLE:
        raise InvalidDefinition(f"{where}: the Avro type {kind!r} is not supported")
    return _SIMPLE[kind]


def _logical(kind: Document) -> DataType | None:
    if kind.get("logicalType") == "decimal":
        return t.DecimalType(_whole(kind["precision"]), _whole(kind.get("scale", 0)))
    return _LOGICAL.get(str(kind.get("logicalType")))


def _nested(kind: Document, where: str) -> DataType | None:
    match kind.get("type"):
        case "record":
            return avro_columns(kind, where)
        case "array":
            return t.ArrayType(*_typed(kind["items"], f"{where}[]"))
        case "map":
            return t.MapType(t.StringType(), *_typed(kind["values"], f"{where}{{}}"))
        case "enum":
            return t.StringType()
        case "fixed":
            return t.BinaryType()
    return None


def _whole(value: object) -> int:
    assert isinstance(value, int)
    return value
