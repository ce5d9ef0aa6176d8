"""JSON values become what their columns say, exactly, or the event is bad: nothing is changed."""

from datetime import UTC, date, datetime
from decimal import Decimal

import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own custom

from mainstem import pipelines as p
from mainstem.pipelines.definitions.table import Source
from mainstem.pipelines.format.schema import COLUMNS
from mainstem.pipelines.planning.decoding import decoded, decoded_once, good_rows
from mainstem.pipelines.planning.schemas import json_columns

AT = datetime(2026, 11, 15, 8, tzinfo=UTC)
BAD = "bad"
SCHEMA = (
    "tiny tinyint, whole int, big bigint, f float, d double, flag boolean, text string, "
    "amount decimal(5,2), exact decimal(38,0), cents decimal(38,2), at timestamp, day date, "
    "raw binary, tags array<decimal(3,1)>, place struct<lat: decimal(5,2), seen: timestamp>, "
    "steps array<struct<at: timestamp, n: tinyint>>, prices map<string, decimal(5,2)>"
)
CASES: list[tuple[str, str, object]] = [
    ("tiny", "127", 127),
    ("tiny", "200", BAD),
    ("whole", "-2147483648", -2147483648),
    ("whole", "3000000000", BAD),
    ("whole", "3e9", BAD),
    ("whole", "1.5", BAD),
    ("whole", "1.0", BAD),
    ("whole", '"12"', BAD),
    ("big", "9223372036854775807", 2**63 - 1),
    ("big", "9223372036854775808", BAD),
    ("f", "1e39", BAD),
    ("f", "0.5", 0.5),
    ("d", "0.1", 0.1),
    ("d", "12", 12.0),
    ("d", "1e999", BAD),
    ("d", '"1.5"', BAD),
    ("d", "NaN", BAD),
    ("d", '"NaN"', BAD),
    ("flag", "true", True),
    ("flag", '"true"', BAD),
    ("flag", "1", BAD),
    ("text", "12", "12"),
    ("text", '""', ""),
    ("text", '{"a": [1]}', '{"a":[1]}'),
    ("amount", "1.23", Decimal("1.23")),
    ("amount", "1.230", Decimal("1.23")),
    ("amount", '"1.23"', Decimal("1.23")),
    ("amount", "1e2", Decimal(100)),
    ("amount", "-999.99", Decimal("-999.99")),
    ("amount", "1.239", BAD),
    ("amount", '"1.239"', BAD),
    ("amount", "1.5e-3", BAD),
    ("amount", "999.999", BAD),
    ("amount", "1000", BAD),
    ("amount", '"much"', BAD),
    ("exact", "12345678901234567890123456789012345678", Decimal("1234567890123456789012345678901234"
                                                                "5678")),
    ("exact", "1.5", BAD),
    ("exact", "1e40", BAD),
    ("cents", "1.23", Decimal("1.23")),
    ("cents", '"1.23"', Decimal("1.23")),
    ("cents", "12345678901234567890123456789.12", Decimal("12345678901234567890123456789.12")),
    ("cents", "1.239", BAD),
    ("cents", "true", BAD),
    ("at", '"2026-11-15T08:00:00Z"', AT),
    ("at", '"2026-11-15 08:00"', AT),
    ("at", '"2026-11-15T09:00:00+01:00"', AT),
    ("at", '"2026-11-15"', AT.replace(hour=0)),
    ("at", "1794729600", AT),
    ("at", "0", datetime(1970, 1, 1, tzinfo=UTC)),
    ("at", "1794729600000", BAD),
    ("at", "1794729600000000", BAD),
    ("at", "1794729600000000000", BAD),
    ("at", "1794729600.5", BAD),
    ("at", "2026", BAD),
    ("at", '"08:00"', BAD),
    ("at", '"T08:00:00"', BAD),
    ("at", '"15.11.2026"', BAD),
    ("at", '"2026-02-30"', BAD),
    ("at", '"12026-11-15"', BAD),
    ("at", '""', BAD),
    ("at", "true", BAD),
    ("day", '"2026-11-15"', date(2026, 11, 15)),
    ("day", '"2026-11-15T00:00:00Z"', date(2026, 11, 15)),
    ("day", '"2026-11-15T23:00:00Z"', BAD),
    ("day", '"2026-11-15Txyz"', BAD),
    ("day", '"20261115"', BAD),
    ("day", '"2026-11"', BAD),
    ("day", "17634", BAD),
    ("raw", '"YWI="', bytearray(b"ab")),
    ("raw", '"abc!"', BAD),
    ("tags", "[1.5, null]", [Decimal("1.5"), None]),
    ("tags", "[1.5, 1.55]", BAD),
    ("tags", "[]", []),
    ("tags", "1.5", BAD),
    ("place", '{"lat": 1.25}', Row(lat=Decimal("1.25"), seen=None)),
    ("place", "{}", Row(lat=None, seen=None)),
    ("place", '{"lat": 1.239}', BAD),
    ("place", '{"seen": 1794729600000}', BAD),
    ("steps", '[{"at": 1794729600, "n": 1}, null]', [Row(at=AT, n=1), None]),
    ("steps", '[{"at": 1794729600000}]', BAD),
    ("steps", '[{"n": 200}]', BAD),
    ("prices", '{"a": 1.5}', {"a": Decimal("1.50")}),
    ("prices", '{"a": 1.555}', BAD),
]  # fmt: skip


def events(spark: SparkSession, values: list[str]) -> DataFrame:
    rows = [
        (b"k", value.encode(), "orders", 0, offset, AT, 0, None)
        for offset, value in enumerate(values)
    ]
    return spark.createDataFrame(rows, COLUMNS).coalesce(1)


def read(spark: SparkSession, source: Source, *values: str) -> list[Row]:
    return decoded(events(spark, list(values)), source).orderBy("__event.offset").collect()


def plain(value: object) -> object:
    """Give times, which Spark gives in the place's own time, in UTC."""
    if isinstance(value, datetime):
        return value.astimezone(UTC)
    if isinstance(value, Row):
        return Row(**{name: plain(each) for name, each in value.asDict().items()})
    return [plain(each) for each in value] if isinstance(value, list) else value


def test_a_value_is_read_as_it_is_or_its_event_is_bad(spark: SparkSession) -> None:
    values = [f'{{"{column}": {text}}}' for column, text, _ in CASES]

    found = read(spark, p.events("orders", schema=SCHEMA), *values)

    wrong = [
        (column, text, expected, got)
        for row, (column, text, expected) in zip(found, CASES, strict=True)
        if (got := BAD if row["__bad"] is not None else plain(row[column])) != expected
    ]
    assert wrong == []


def test_what_is_bad_about_a_value_is_told_with_its_column(spark: SparkSession) -> None:
    source = p.events("orders", schema=SCHEMA)

    found = read(
        spark,
        source,
        '{"amount": 1.239}',
        '{"at": 1794729600000}',
        '{"place": {"lat": 1.239}}',
        '{"tags": [1.55]}',
        '{"d": 1e999}',
        '{"tiny": 200}',
    )

    assert [row["__bad"] for row in found] == [
        "amount: 1.239 is not exactly a decimal(5,2)",
        "at: 1794729600000 is not a timestamp (numbers count seconds since 1970; for others say "
        "epoch='milliseconds')",
        "place.lat: 1.239 is not exactly a decimal(5,2)",
        "tags[]: not exactly a decimal(3,1)",
        "d: too large for a double",
        "tiny: 200 is too large for a tinyint",
    ]


@pytest.mark.parametrize(
    ("epoch", "number", "other"),
    [
        ("seconds", 1794729600, 1794729600000),
        ("milliseconds", 1794729600000, 1794729600000000),
        ("microseconds", 1794729600000000, 1794729600000000000),
    ],
)
def test_numbers_in_timestamps_count_what_the_source_says(
    spark: SparkSession, epoch: str, number: int, other: int
) -> None:
    source = p.events("orders", schema="at timestamp", epoch=epoch)  # type: ignore[arg-type]

    first, second, text = read(
        spark, source, f'{{"at": {number}}}', f'{{"at": {other}}}', '{"at": "2026-11-15T08:00:00Z"}'
    )

    assert (first["__bad"], plain(first["at"])) == (None, AT)
    assert "is not a timestamp" in second["__bad"]
    assert plain(text["at"]) == AT


def test_an_event_is_one_json_object_and_nothing_more(spark: SparkSession) -> None:
    texts = {
        '{"id": 1}': None,
        ' {"id": 1}\n': None,
        '{"id": 1}{"id": 2}': "more than one JSON value",
        '{"id": 1}\n{"id": 2}': "more than one JSON value",
        '{"id": 1},{"id": 2}': "more than one JSON value",
        '{"id": 1} xyz': "more than one JSON value",
        '{"id": 1}}': "more than one JSON value",
        '{"id": 1}]} x': "more than one JSON value",
        '{"id": NaN}': "not JSON",
        '{"other": NaN}': "not JSON",
        '{"id": 1': "not JSON",
        "": "not JSON",
        "null": "does not fit the schema id:int",
        '[{"id": 1}]': "does not fit the schema id:int",
        "1": "does not fit the schema id:int",
    }

    found = read(spark, p.events("orders", schema="id int"), *texts)

    assert dict(zip(texts, (row["__bad"] for row in found), strict=True)) == texts


def test_of_a_key_that_is_there_twice_the_last_counts(spark: SparkSession) -> None:
    (row,) = read(spark, p.events("orders", schema="id int"), '{"id": 1, "id": 2}')

    assert (row["__bad"], row["id"]) == (None, 2)


def test_columns_have_the_types_of_the_schema(spark: SparkSession) -> None:
    rows = decoded(events(spark, ["{}"]), p.events("orders", schema=SCHEMA))

    found = rows.drop("__bad", "__event").schema

    assert found == json_columns(p.events("orders"), SCHEMA)


@pytest.mark.parametrize("schema", ["id int, name string, score double", "price decimal(12,2)"])
def test_json_is_parsed_once_in_a_run_and_in_an_audit(spark: SparkSession, schema: str) -> None:
    rows = decoded(events(spark, ["{}"]), p.events("orders", schema=schema))
    run = good_rows(rows.observe("seen", F.count("__bad").alias("bad")))
    audit = decoded_once(rows).where("__bad is not null").select("__event.*", "__bad")

    for each in (run, audit):
        plan: str = each._jdf.queryExecution().executedPlan().toString()
        assert plan.count("from_json(") == 1


def test_a_value_is_converted_once(spark: SparkSession) -> None:
    rows = decoded(events(spark, ["{}"]), p.events("orders", schema="day date, ok boolean"))

    plan: str = rows._jdf.queryExecution().executedPlan().toString()

    assert plan.count(" as date)") == 1
