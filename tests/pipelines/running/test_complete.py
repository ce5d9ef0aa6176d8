"""``--complete`` that was interrupted, or failed in one table, can be finished."""

import threading
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent

import pytest
from pyspark.sql import SparkSession
from tests.in_process_server import serving
from tests.pipelines.sample_events import bounded, ignore

import mainstem
from mainstem import pipelines as p
from mainstem.pipelines.errors import PipelineFailed, RunRefused
from mainstem.pipelines.planning.planner import Bounds
from mainstem.pipelines.running.pipeline_run import run
from mainstem.pipelines.running.table_run import Report, Request

SHOP = """
    from pathlib import Path
    from pyspark.sql import functions as F
    from mainstem import pipelines as p

    BROKEN = str(Path("broken").resolve())

    @F.udf("string")
    def checked(name):
        if Path(BROKEN).exists():
            raise ValueError("broken for now")
        return name

    @p.table(source="orders", schema="id string, at timestamp", sink=p.delta("all"))
    def everything(orders):
        return orders

    @p.table(source="orders", schema="id string", bad="stop", sink=p.sqlite("base.db", "fragile"))
    def fragile(orders):
        return orders.select(checked("id").alias("id"))

    @p.table(source=p.events("everything", watermark=("at", "1 minute")),
             sink=p.sqlite("base.db", "below"))
    def below(everything):
        return everything.select("id")
"""


@pytest.fixture
def address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.chdir(tmp_path)
    with serving(None) as at:
        publish(at, "a", "b")
        yield at


def publish(address: str, *names: str) -> None:
    with mainstem.connect(address) as stem:
        stem.topics.create("orders", partitions=1, exist_ok=True)
        values = [f'{{"id": "{name}", "at": "2026-11-15T08:00:00Z"}}' for name in names]
        stem.publish_many("orders", [mainstem.Event(each.encode()) for each in values])


def shop() -> p.Pipeline:
    Path("shop.py").write_text(dedent(SHOP))
    return p.load(Path("shop.py"))


def ids(pipeline: p.Pipeline, number: int) -> list[str]:
    rows = pipeline.tables[number].sink.read()
    return sorted(row["id"] for row in rows.to_pylist()) if rows is not None else []


def test_a_run_that_completed_one_table_is_finished_by_the_next(
    spark: SparkSession, address: str
) -> None:
    pipeline = shop()
    Path("broken").touch()
    with pytest.raises(PipelineFailed, match="fragile"):
        bounded(spark, pipeline, address, complete=True)
    Path("broken").unlink()
    told: list[str] = []
    request = Request(address, Path("state"), complete=True)

    found = run(spark, pipeline, request, ignore, threading.Event(), told.append)

    assert "table everything is complete; skipped" in told
    assert {name: each.state for name, each in found.items()} == dict.fromkeys(
        ("everything", "fragile", "below"), "complete"
    )
    assert [ids(pipeline, number) for number in range(3)] == [["a", "b"]] * 3
    with pytest.raises(RunRefused, match="declared complete"):
        bounded(spark, pipeline, address, complete=True)


def test_a_table_below_an_interrupted_one_does_not_take_it_for_complete(
    spark: SparkSession, address: str
) -> None:
    pipeline = shop()
    stop = threading.Event()
    request = Request(address, Path("state"), bounds=Bounds(max_rows=1), complete=True)

    def stop_after_first_batch(report: Report) -> None:
        stop.set()

    found = run(spark, pipeline, request, stop_after_first_batch, stop)
    assert (found["below"].state, found["below"].ended) == ("stopped", False)

    bounded(spark, pipeline, address, complete=True)

    assert [ids(pipeline, number) for number in range(3)] == [["a", "b"]] * 3
