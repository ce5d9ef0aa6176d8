"""Schemas of topics, from DDL, a JSON Schema, an Avro schema, or inferred from a sample."""

import json
import re
from collections.abc import Mapping
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own custom
from pyspark.sql import types as t
from pyspark.sql.types import DataType, StructField, StructType

from mainstem.pipelines.definitions.table import Schema, Source
from mainstem.pipelines.errors import InvalidDefinition

Document = Mapping[str, object]
SAMPLE_EVENTS = 1000


def document_of(schema: Schema) -> Document | None:
    """Return an Avro or JSON schema, given as document or path, as a dict; None if it is DDL."""
    if not isinstance(schema, str):
        return schema
    text = schema.strip()
    if not text.startswith("{") and text.endswith((".json", ".avsc")):
        try:
            text = Path(text).read_text()
        except OSError as error:
            raise InvalidDefinition(f"schema file {text}: {error.strerror}") from None
    if not text.startswith("{"):
        return None
    try:
        document = json.loads(text)
    except ValueError as error:
        raise InvalidDefinition(f"the schema is not JSON: {error}") from None
    assert isinstance(document, dict)
    return document


def json_columns(source: Source, schema: Schema) -> StructType:
    """Return the Spark columns for a source's JSON values."""
    document = document_of(schema)
    if document is None:
        assert isinstance(schema, str)
        return ddl_columns(schema, f"source {source.name!r}")
    return _object(document, f"JSON Schema of {source.name!r}")


def ddl_columns(text: str, where: str) -> StructType:
    """Return the Spark columns that DDL describes."""
    try:
        columns = StructType.fromDDL(text)
    except PySparkException as error:
        reason = str(error).strip().splitlines()
        raise InvalidDefinition(
            f"{where}: the schema {text!r:.200} is not DDL such as 'id string, at timestamp': "
            f"{reason[0] if reason else error}"
        ) from None
    assert isinstance(columns, StructType)
    return columns


def inferred(values: DataFrame, where: str) -> str:
    """Return DDL for the columns found in a sample of JSON texts (in one column, ``value``)."""
    found = values.select(
        F.schema_of_variant_agg(F.try_parse_json("value")).alias("schema")
    ).collect()[0]["schema"]
    # A decimal just large enough for the sample may be too small for the next number.
    text = re.sub(r"DECIMAL\(\d+,\d+\)", "DOUBLE", found or "VOID").replace("OBJECT<", "STRUCT<")
    if not text.startswith("STRUCT<") or "VARIANT" in text:
        raise InvalidDefinition(
            f"{where}: no schema can be inferred from its first {SAMPLE_EVENTS} events (they give "
            f"{text}); write it down"
        )
    return re.sub(r"\bVOID\b", "STRING", text[len("STRUCT<") : -1])


def _object(document: Document, where: str) -> StructType:
    properties = document.get("properties")
    if document.get("type") != "object" or not isinstance(properties, Mapping) or not properties:
        raise InvalidDefinition(f'{where}: needs "type": "object" and "properties"')
    required = document.get("required", [])
    assert isinstance(required, list)
    return StructType(
        [
            StructField(name, *_typed(each, f"{where}.{name}", required=name in required))
            for name, each in properties.items()
        ]
    )


def _typed(document: Document, where: str, *, required: bool) -> tuple[DataType, bool]:
    kind = document.get("type")
    kinds = [kind] if isinstance(kind, str) else list(kind) if isinstance(kind, list) else []
    plain = [each for each in kinds if each != "null"]
    if len(plain) != 1:
        raise InvalidDefinition(
            f"{where}: a column must have one type, or one and null, not {kind!r}; $ref, anyOf and "
            "the like are not supported"
        )
    return _kind(plain[0], document, where), not required or "null" in kinds


def _kind(name: object, document: Document, where: str) -> DataType:
    match name:
        case "object":
            return _object(document, where)
        case "array":
            items = document.get("items")
            if not isinstance(items, Mapping):
                raise InvalidDefinition(f"{where}: an array needs items")
            return t.ArrayType(*_typed(items, f"{where}[]", required=False))
        case "string":
            dates = {"date-time": t.TimestampType(), "date": t.DateType()}
            return dates.get(str(document.get("format")), t.StringType())
        case "number":
            return _number(str(document.get("multipleOf", "")))
    simple = {"integer": t.LongType(), "boolean": t.BooleanType()}
    if name not in simple:
        raise InvalidDefinition(f"{where}: type {name!r} is not supported")
    return simple[name]


def _number(step: str) -> DataType:
    # multipleOf 0.01 declares an exact number with two decimals.
    exact = re.fullmatch(r"0\.0*1", step)
    return t.DecimalType(38, len(step) - 2) if exact else t.DoubleType()
