"""A pipeline file is checked and tried without a server; a changed definition is told."""

import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from textwrap import dedent

import pytest
from pyspark.sql import SparkSession
from tests.in_process_server import serving
from tests.pipelines.sample_events import bounded, ignore

import mainstem
from mainstem import pipelines as p
from mainstem.pipelines.errors import InvalidDefinition, PipelineFailed
from mainstem.pipelines.planning.check import TableCheck, check_table
from mainstem.pipelines.planning.offline import EventValue, OfflinePlanner
from mainstem.pipelines.running.pipeline_run import run
from mainstem.pipelines.running.table_run import Request
from mainstem.pipelines.state.table_state import StateDirectory

SHOP = """
    from pyspark.sql import functions as F
    from mainstem import pipelines as p

    ORDERS = "id string not null, user string, amount decimal(12,2), at timestamp"

    @p.table(source="orders", schema=ORDERS, sink=p.parquet("tables/large"))
    def large(orders):
        return orders.where("amount > 10")

    @p.table(source="orders", schema=ORDERS, watermark=("at", "1 minute"),
             sink=p.sqlite("base.db", "minutes"))
    def minutes(orders):
        return orders.groupBy(F.window("at", "1 minute").alias("minute")).count()

    users = p.sql("select user, count(*) as orders from large group by user", source="large",
                  output="update", sink=p.sqlite("base.db", "users", key="user"))
"""


@pytest.fixture(autouse=True)
def own_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def address() -> Iterator[str]:
    with serving(None) as at:
        yield at


def shop(text: str = SHOP) -> p.Pipeline:
    Path("shop.py").write_text(dedent(text))
    return p.load(Path("shop.py"))


def looked_at(spark: SparkSession, pipeline: p.Pipeline) -> dict[str, TableCheck]:
    return {
        each.name: check_table(
            spark, pipeline, each, StateDirectory(Path("state/shop") / each.name)
        )
        for each in pipeline.tables
    }


def test_a_file_is_checked_with_its_plans_and_without_a_server(spark: SparkSession) -> None:
    found = looked_at(spark, shop())

    assert [each.error for each in found.values()] == [None, None, None]
    assert found["large"].columns == "id:string,user:string,amount:decimal(12,2),at:timestamp"
    assert [bool(each.stateful) for each in found.values()] == [False, True, True]
    assert not Path("tables").exists()
    assert not Path("state").exists()


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ('window("at"', 'window("when"', "when"),
        ("amount > 10", "amonut > 10", "amonut"),
        ('watermark=("at", "1 minute"),', "", "watermark"),
    ],
)
def test_what_spark_would_refuse_is_told(
    spark: SparkSession, old: str, new: str, told: str
) -> None:
    assert old in SHOP

    errors = [each.error for each in looked_at(spark, shop(SHOP.replace(old, new))).values()]

    assert any(error and told in error for error in errors), errors


def test_a_changed_definition_is_told_if_its_checkpoint_needs_a_replay(
    spark: SparkSession, address: str
) -> None:
    with mainstem.connect(address) as stem:
        stem.topics.create("orders", partitions=1)
        stem.publish("orders", {"id": "1", "at": "2026-11-15T08:00:00Z"})
    text = SHOP[: SHOP.index("    users =")]
    bounded(spark, shop(text), address)
    harmless = text.replace("amount > 10", "amount > 20").replace('"1 minute"),', '"2 days"),')
    quiet = [each.warning for each in looked_at(spark, shop(harmless)).values()]

    other = shop(text.replace('window("at", "1 minute")', 'window("at", "1 hour")'))
    warnings = {name: each.warning for name, each in looked_at(spark, other).items()}
    notes: list[str] = []
    request = Request(address, Path("state"))
    run(spark, other, request, ignore, threading.Event(), notes.append)

    assert quiet == [None, None]
    assert warnings["large"] is None
    assert "the definition has changed since its checkpoint was made" in str(warnings["minutes"])
    assert any("table 'minutes': the definition has changed" in each for each in notes)
    for file in Path("state").glob("shop/*/definition.json"):
        file.unlink()
    assert [each.warning for each in looked_at(spark, other).values()] == [None, None]


def test_a_table_is_tried_with_a_few_events(spark: SparkSession) -> None:
    pipeline = shop()
    large, minutes, users = pipeline.tables
    at = datetime(2026, 11, 15, 8, tzinfo=UTC)
    events: list[EventValue] = [
        {"id": "a", "amount": Decimal("12.50"), "at": at},
        '{"id": "b", "amount": 1}',
    ]

    kept = OfflinePlanner(spark, pipeline).batch(large, {"orders": events})
    counted = OfflinePlanner(spark, pipeline).batch(minutes, {"orders": events[:1]})
    summed = OfflinePlanner(spark, pipeline).batch(users, {"large": [{"id": "a", "user": "ann"}]})

    assert kept == [{"id": "a", "user": None, "amount": Decimal("12.50"), "at": at}]
    assert [(row["minute"]["start"], row["count"]) for row in counted] == [(at, 1)]  # type: ignore[index]
    assert summed == [{"user": "ann", "orders": 1}]
    with pytest.raises(PipelineFailed, match="no value for id"):
        OfflinePlanner(spark, pipeline).batch(large, {"orders": ["{}"]})
    with pytest.raises(InvalidDefinition, match="has no source 'order'; it has orders"):
        OfflinePlanner(spark, pipeline).batch(large, {"order": []})
