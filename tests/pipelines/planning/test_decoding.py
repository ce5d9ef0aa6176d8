"""Events become rows, or are bad with a reason."""

import io
import json
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from decimal import Decimal
from http.server import BaseHTTPRequestHandler, HTTPServer

import fastavro
import pytest
from pyspark.sql import DataFrame, Row, SparkSession

from mainstem import pipelines as p
from mainstem.pipelines.definitions.table import Source
from mainstem.pipelines.errors import InvalidDefinition
from mainstem.pipelines.format.schema import COLUMNS
from mainstem.pipelines.planning.decoding import decoded
from mainstem.pipelines.planning.schemas import ddl_columns, inferred, json_columns

AT = datetime(2026, 11, 15, 8, tzinfo=UTC)
FIELDS: list[dict[str, object]] = [
    {"name": "id", "type": "string"},
    {"name": "amount", "type": {"type": "bytes", "logicalType": "decimal", "precision": 12,
                                "scale": 2}},
    {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    {"name": "note", "type": ["null", "string"], "default": None},
    {"name": "tags", "type": {"type": "array", "items": "string"}},
]  # fmt: skip
ORDER: dict[str, object] = {"type": "record", "name": "Order", "fields": FIELDS}


def events(spark: SparkSession, *values: bytes | None) -> DataFrame:
    rows = [(b"k", value, "orders", 0, offset, AT, 0, None) for offset, value in enumerate(values)]
    return spark.createDataFrame(rows, COLUMNS)


def reasons(spark: SparkSession, source: Source, *values: bytes | None) -> list[str | None]:
    found = decoded(events(spark, *values), source).orderBy("__event.offset").collect()
    return [row["__bad"] for row in found]


def only(spark: SparkSession, source: Source, value: bytes) -> Row:
    (row,) = decoded(events(spark, value), source).collect()
    assert row["__bad"] is None
    return row


def test_json_that_does_not_fit_is_told_apart_from_what_is_no_json(spark: SparkSession) -> None:
    source = p.events("orders", schema="id string not null, amount decimal(12,2), at timestamp",
                      watermark=("at", "1 minute"))  # fmt: skip

    found = reasons(
        spark,
        source,
        b'{"id": "a", "amount": 1.25, "at": "2026-11-15T08:00:00Z"}',
        b'{"id": "a", "amount": 1.25, "at": "2026-11-15T08:00:00Z", "more": 1}',
        None,
        b"nonsense",
        b"\xff\xfe",
        b'{"id": "a", "amount": "much", "at": "2026-11-15T08:00:00Z"}',
        b'{"amount": 1, "at": "2026-11-15T08:00:00Z"}',
        b'{"id": "a"}',
        b'{"id": "a", "at": "9999-01-01T00:00:00Z"}',
    )

    assert found == [
        None,
        None,
        "no value",
        "not JSON",
        "not UTF-8",
        "does not fit the schema id:string,amount:decimal(12,2),at:timestamp",
        "no value for id",
        "no time in at",
        "at is after 9000",
    ]


def test_text_is_a_column_and_bytes_that_are_none_are_bad(spark: SparkSession) -> None:
    assert reasons(spark, p.events("logs", format="text"), b"hello", b"\xff", None) == [
        None,
        "not UTF-8",
        "no value",
    ]


def test_the_event_and_its_time_come_along_if_asked_for(spark: SparkSession) -> None:
    source = p.events("logs", format="text", with_event=True, watermark=("_timestamp", "1 minute"))

    row = only(spark, source, b"hello")

    assert row["value"] == "hello"
    assert (row["_event"]["topic"], row["_event"]["offset"]) == ("orders", 0)
    assert row["_timestamp"] == row["_event"]["timestamp"]


@pytest.mark.parametrize("watermark", ["nowhere", "id"])
def test_a_watermark_needs_a_timestamp(spark: SparkSession, watermark: str) -> None:
    source = p.events("orders", schema="id string", watermark=(watermark, "1 minute"))

    with pytest.raises(InvalidDefinition, match="must be a timestamp"):
        decoded(events(spark), source)


def test_avro_is_read_with_and_without_the_prefix_of_registries(spark: SparkSession) -> None:
    source = p.events("orders", format="avro", schema=ORDER)
    order: dict[str, object] = {"id": "a", "amount": "1.25", "at": AT, "note": None, "tags": ["x"]}
    value = avro(ORDER, order)

    for each in (value, struct.pack(">bI", 0, 7) + value):
        row = only(spark, source, each)
        assert (row["id"], str(row["amount"]), row["tags"]) == ("a", "1.25", ["x"])
    found = reasons(spark, source, None, b"\x00\x00\x00\x00\x07", value + b"more")

    assert found[0] == "no value"
    assert all(reason and reason.startswith("not Avro of the schema") for reason in found[1:])


def test_a_registry_tells_how_avro_was_written(spark: SparkSession) -> None:
    older = {**ORDER, "fields": [each for each in FIELDS if each["name"] != "note"]}
    value = avro(older, {"id": "a", "amount": "1.25", "at": AT, "tags": []})

    with registry({"/subjects/orders-value/versions/latest": ORDER, "/schemas/ids/7": older}) as at:
        source = p.events("orders", format="avro", registry=at)
        row = only(spark, source, struct.pack(">bI", 0, 7) + value)

    assert (row["id"], row["note"]) == ("a", None)


def avro(schema: dict[str, object], record: dict[str, object]) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, schema, record | {"amount": Decimal(str(record["amount"]))})
    return out.getvalue()


@contextmanager
def registry(schemas: dict[str, dict[str, object]]) -> Iterator[str]:
    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps({"schema": json.dumps(schemas[self.path])}).encode())

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Answers) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_json_schema_gives_columns(spark: SparkSession) -> None:
    schema = {
        "type": "object",
        "required": ["id"],
        "properties": {
            "id": {"type": "string"},
            "count": {"type": ["integer", "null"]},
            "amount": {"type": "number", "multipleOf": 0.01},
            "at": {"type": "string", "format": "date-time"},
            "tags": {"type": "array", "items": {"type": "string"}},
            "place": {"type": "object", "properties": {"zip": {"type": "number"}}},
        },
    }

    columns = json_columns(p.events("orders"), schema)

    assert columns.simpleString() == (
        "struct<id:string,count:bigint,amount:decimal(38,2),at:timestamp,tags:array<string>,"
        "place:struct<zip:double>>"
    )
    assert [field.nullable for field in columns] == [False, True, True, True, True, True]
    assert json_columns(p.events("orders"), json.dumps(schema)) == columns
    with pytest.raises(InvalidDefinition, match=r"orders'\.x: a column must have one type"):
        json_columns(p.events("orders"), {"type": "object", "properties": {"x": {"$ref": "#"}}})


def test_a_schema_is_inferred_from_a_sample(spark: SparkSession) -> None:
    texts = ['{"id": "a", "n": 1}', '{"id": "b", "n": 2.5, "in": {"x": [true]}}', "nonsense"]
    sample = spark.createDataFrame([(each,) for each in texts], "value string")

    columns = ddl_columns(inferred(sample, "source 'orders'"), "")

    assert columns.simpleString() == "struct<id:string,in:struct<x:array<boolean>>,n:double>"
    with pytest.raises(InvalidDefinition, match="no schema can be inferred"):
        inferred(sample.where("value = 'nonsense'"), "source 'orders'")


def test_ddl_that_is_none_is_told(spark: SparkSession) -> None:
    with pytest.raises(InvalidDefinition, match="is not DDL"):
        ddl_columns("id strung", "source 'orders'")
