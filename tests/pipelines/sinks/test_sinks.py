"""Every sink commits a batch with its mark, so that a repeated batch changes nothing."""

import json
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import psycopg
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

from mainstem import pipelines as p
from mainstem.pipelines.errors import InvalidDefinition, PipelineFailed
from mainstem.pipelines.planning.table_source import _rows as file_rows
from mainstem.pipelines.sinks import parquet as parquet_sink
from mainstem.pipelines.sinks.port import Mark, Sink
from mainstem.pipelines.sinks.search import search_index
from mainstem.pipelines.state.table_state import StateDirectory, TableStatus

COLUMNS = (
    "id string, amount decimal(12,2), cents bigint, at timestamp, "
    "place struct<city: string, zip: int>"
)
Make = Callable[..., Sink]


KEYED = ("delta", "sqlite", "postgres", "search", "redis")


@pytest.fixture(params=["delta", "parquet", "sqlite", "postgres"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Make:
    match request.param:
        case "delta":
            return lambda **how: p.delta(str(tmp_path / "table"), **how)
        case "parquet":
            return lambda **how: p.parquet(str(tmp_path / "table"), **how)
        case "sqlite":
            return lambda **how: p.sqlite(str(tmp_path / "base.db"), "table", **how)
        case "search":
            return lambda **how: p.search(str(tmp_path / "index"), **how)
        case "redis":
            url = request.getfixturevalue("cache")
            return lambda **how: p.redis(url, tmp_path.name, **how)
    address = request.getfixturevalue("database")
    with psycopg.connect(address) as base:
        base.execute("DROP SCHEMA public CASCADE")
        base.execute("CREATE SCHEMA public")
    return lambda **how: p.postgres(address, "table", **how)


def rows_of(spark: SparkSession, *rows: tuple[str, str]) -> DataFrame:
    values = ", ".join(
        f"('{name}', cast({amount} as decimal(12,2)), bigint({amount} * 100), "
        f"timestamp'2026-11-15 08:00:00', named_struct('city', 'Ulm', 'zip', 89073))"
        for name, amount in rows
    )
    if not rows:
        return spark.createDataFrame([], COLUMNS)
    return spark.sql(f"select * from values {values} as t(id, amount, cents, at, place)")


def kept(sink: Sink) -> list[tuple[str, Decimal]]:
    table = sink.read()
    assert table is not None
    return sorted((row["id"], Decimal(row["amount"])) for row in table.to_pylist())


def test_a_batch_is_written_once_however_often_it_comes(spark: SparkSession, make: Make) -> None:
    sink = make()
    sink.check(rows_of(spark).schema)
    first, second = rows_of(spark, ("a", "1.10"), ("b", "2")), rows_of(spark, ("a", "3"))

    sink.write(first, Mark("shop.orders.1", 0))
    sink.write(first, Mark("shop.orders.1", 0))
    sink.write(second, Mark("shop.orders.1", 1))
    sink.write(second, Mark("shop.orders.1", 1))
    sink.write(rows_of(spark), Mark("shop.orders.1", 2))

    assert kept(sink) == [("a", Decimal("1.10")), ("a", Decimal(3)), ("b", Decimal(2))]


def test_another_checkpoint_begins_its_batches_anew(spark: SparkSession, make: Make) -> None:
    sink = make()
    sink.check(rows_of(spark).schema)

    sink.write(rows_of(spark, ("a", "1")), Mark("shop.orders.1", 0))
    sink.write(rows_of(spark, ("b", "1")), Mark("shop.orders.2", 0))

    assert kept(sink) == [("a", Decimal(1)), ("b", Decimal(1))]


def test_other_columns_than_before_are_refused_before_any_batch(
    spark: SparkSession, make: Make
) -> None:
    sink = make()
    sink.check(rows_of(spark).schema)

    with pytest.raises(InvalidDefinition, match="replay into a new"):
        sink.check(rows_of(spark).withColumnRenamed("amount", "sum").schema)


def test_a_copy_is_put_in_the_place_of_the_table(spark: SparkSession, make: Make) -> None:
    sink = make()
    copy = sink.beside("fixed")
    for each, name in ((sink, "old"), (copy, "new")):
        each.check(rows_of(spark).schema)
        each.write(rows_of(spark, (name, "1")), Mark(f"shop.orders.{name}", 0))

    sink.swap("fixed")
    sink.swap("fixed")

    assert kept(sink) == [("new", Decimal(1))]
    assert copy.read() is None


@pytest.mark.parametrize("make", KEYED, indirect=True)
def test_rows_replace_those_with_the_same_key(spark: SparkSession, make: Make) -> None:
    sink = make(key=("id", "place"))
    sink.check(rows_of(spark).schema)

    sink.write(rows_of(spark, ("a", "1"), ("b", "2")), Mark("shop.orders.1", 0))
    sink.write(rows_of(spark, ("b", "1"), ("c", "3")), Mark("shop.orders.1", 1))

    assert kept(sink) == [("a", Decimal(1)), ("b", Decimal(1)), ("c", Decimal(3))]


@pytest.mark.parametrize("make", ["delta", "sqlite", "postgres"], indirect=True)
def test_the_latest_row_of_a_key_wins_in_whatever_batch_it_comes(
    spark: SparkSession, make: Make
) -> None:
    sink = make(key="id", latest=("at", "cents"))
    sink.check(rows_of(spark).schema)

    sink.write(rows_of(spark, ("a", "2"), ("a", "3"), ("b", "5")), Mark("shop.orders.1", 0))
    sink.write(rows_of(spark, ("a", "1"), ("b", "12")), Mark("shop.orders.1", 1))

    assert kept(sink) == [("a", Decimal(3)), ("b", Decimal(12))]


@pytest.mark.parametrize("make", KEYED, indirect=True)
def test_marked_rows_are_deleted_and_a_repeated_batch_changes_nothing(
    spark: SparkSession, make: Make
) -> None:
    sink, mark = make(key="id"), Mark("shop.orders.1", 1)
    sink.check(rows_of(spark).schema)
    rows = rows_of(spark, ("a", "3"), ("b", "4"), ("never", "5"))
    changes = rows.selectExpr("*", "id != 'a' as __deleted")

    sink.write(rows_of(spark, ("a", "1"), ("b", "2"), ("c", "2")), Mark(mark.pipeline, 0))
    assert sink.write(changes, mark)
    assert not sink.write(changes, mark)
    assert not sink.write(rows_of(spark, ("b", "9")), mark)

    assert kept(sink) == [("a", Decimal(3)), ("c", Decimal(2))]


@pytest.mark.parametrize("guarded", [True, False])
@pytest.mark.parametrize("make", KEYED, indirect=True)
def test_it_is_the_mark_that_keeps_a_late_batch_from_undoing_a_newer_one(
    spark: SparkSession, make: Make, guarded: bool
) -> None:
    sink, mark = make(key="id"), Mark("shop.orders.1", 1)
    sink.check(rows_of(spark).schema)
    first = rows_of(spark, ("a", "1"), ("b", "2"))

    sink.write(first, Mark(mark.pipeline, 0))
    sink.write(rows_of(spark, ("a", "3")), mark)
    # A driver that was taken for dead writes its batch; without the guard its mark is unknown.
    sink.write(first, Mark(mark.pipeline if guarded else "unknown", 0))

    assert kept(sink) == [("a", Decimal(3 if guarded else 1)), ("b", Decimal(2))]


@pytest.mark.parametrize("make", ["search", "redis"], indirect=True)
def test_a_copy_of_an_index_or_cache_is_put_in_its_place(spark: SparkSession, make: Make) -> None:
    sink = make(key="id")
    copy = sink.beside("fixed")
    for each, name in ((sink, "old"), (copy, "new")):
        each.check(rows_of(spark).schema)
        each.write(rows_of(spark, (name, "1")), Mark(f"shop.orders.{name}", 0))
    with pytest.raises(InvalidDefinition, match="replay into a new"):
        sink.check(rows_of(spark).withColumnRenamed("amount", "sum").schema)

    sink.swap("fixed")
    sink.swap("fixed")

    assert kept(sink) == [("new", Decimal(1))]
    assert copy.read() is None
    assert not sink.write(rows_of(spark), Mark("shop.orders.new", 0))


def test_an_older_row_replaces_no_newer_or_deleted_one_in_redis(
    spark: SparkSession, cache: str
) -> None:
    sink = p.redis(cache, "latest", key="id", latest="version")
    versions = spark.createDataFrame(
        [("a", "2", False), ("b", "5", True), ("c", "1", False)],
        "id string, version string, __deleted boolean",
    )
    sink.check(versions.drop("__deleted").schema)
    sink.write(versions, Mark("x", 0))

    older = spark.createDataFrame([("a", "1"), ("b", "4"), ("c", "3")], "id string, version string")
    sink.write(older, Mark("x", 1))

    table = sink.read()
    assert table is not None
    assert [row["version"] for row in table.to_pylist()] == ["2", "3"]


def test_what_an_index_holds_can_be_searched(spark: SparkSession, tmp_path: Path) -> None:
    sink = p.search(str(tmp_path / "index"), key="id", text=("title", "body"))
    rows = spark.createDataFrame(
        [(1, "The log", "one log underneath"), (2, "Queues", "events one by one"), (3, None, "")],
        "id int, title string, body string",
    )
    sink.check(rows.schema)
    sink.write(rows, Mark("x", 0))

    found = search_index(tmp_path / "index", "underneath", 10)
    StateDirectory(tmp_path / "state/shop/articles").save_status(
        TableStatus("stopped", sink=sink.place)
    )
    asked = ("index", "search", "shop.articles", "events", "--state", str(tmp_path / "state"))
    answer = subprocess.run(
        [sys.executable, "-m", "mainstem", *asked], capture_output=True, text=True, check=True
    )

    assert [each.row["id"] for each in found] == [1]
    assert json.loads(answer.stdout)["title"] == "Queues"
    assert [each.row["id"] for each in search_index(tmp_path / "index", "title:queues", 9)] == [2]
    with pytest.raises(InvalidDefinition, match="columns that can be searched: title, body"):
        search_index(tmp_path / "index", "nothing:here", 10)
    with pytest.raises(InvalidDefinition, match="is no search index"):
        search_index(tmp_path, "log", 10)


@pytest.mark.parametrize("make", ["delta"], indirect=True)
def test_rows_without_a_key_or_with_one_key_twice_are_told(spark: SparkSession, make: Make) -> None:
    sink = make(key="id")
    sink.check(rows_of(spark).schema)

    with pytest.raises(PipelineFailed, match="1 rows of one batch share their key"):
        sink.write(rows_of(spark, ("a", "1"), ("a", "2")), Mark("shop.orders.1", 0))
    with pytest.raises(PipelineFailed, match="no value in the key column 'id'"):
        sink.write(
            rows_of(spark, ("a", "1")).selectExpr("cast(null as string) id", "amount"),
            Mark("shop.orders.1", 0),
        )
    with pytest.raises(InvalidDefinition, match="is kept as text"):
        p.sqlite("base.db", "table", key="id", latest="amount").check(rows_of(spark).schema)
    with pytest.raises(InvalidDefinition, match="needs a column 'nr'"):
        make(key="nr").check(rows_of(spark).schema)


def test_files_without_a_manifest_are_not_read_and_are_replaced(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = p.parquet(str(tmp_path / "table"))
    sink.check(rows_of(spark).schema)

    with monkeypatch.context() as patch:
        patch.setattr(parquet_sink, "_commit", _crash)
        with pytest.raises(KeyboardInterrupt):
            sink.write(rows_of(spark, ("a", "1")), Mark("shop.orders.1", 0))
    assert kept(sink) == []
    assert list((tmp_path / "table").glob("*.parquet"))

    sink.write(rows_of(spark, ("a", "1")), Mark("shop.orders.1", 0))
    assert kept(sink) == [("a", Decimal(1))]


def test_parquet_files_have_timestamps_in_microseconds_and_older_files_stay_readable(
    spark: SparkSession, tmp_path: Path
) -> None:
    sink = p.parquet(str(tmp_path / "table"))
    rows = spark.sql("select timestamp'2300-01-01 00:00:00.123456' at")
    sink.check(rows.schema)
    before = spark.conf.get("spark.sql.parquet.outputTimestampType") or ""
    spark.conf.set("spark.sql.parquet.outputTimestampType", "INT96")
    try:
        sink.write(rows, Mark("shop.orders.1", 0))
    finally:
        spark.conf.set("spark.sql.parquet.outputTimestampType", before)

    sink.write(rows, Mark("shop.orders.1", 1))

    old, new = sorted((tmp_path / "table").glob("*.parquet"))
    assert pq.ParquetFile(old).schema.column(0).physical_type == "INT96"
    column = pq.ParquetFile(new).schema.column(0)
    assert (column.physical_type, str(column.logical_type)) == (
        "INT64",
        "Timestamp(isAdjustedToUTC=true, timeUnit=microseconds, is_from_converted_type=false, "
        "force_set_converted_type=false)",
    )
    at = datetime(2300, 1, 1, 0, 0, 0, 123456, tzinfo=UTC)
    table = sink.read()
    assert table is not None
    assert table.to_pylist() == [{"at": at}, {"at": at}]
    columns = pq.read_schema(tmp_path / "table" / "_manifest" / "schema")
    for file in (old, new):
        assert [each.to_pylist() for each in file_rows(str(file), columns)] == [[{"at": at}]]


def _crash(*_: object) -> None:
    raise KeyboardInterrupt
