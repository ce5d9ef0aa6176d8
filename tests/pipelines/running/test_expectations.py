"""Events that do not fulfil an expectation: dead letters, left out, or the end of the table."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.pipelines.running.written import column_of_first, written_pipeline
from tests.pipelines.sample_events import bounded

import mainstem
from mainstem import pipelines as p
from mainstem.pipelines.errors import InvalidDefinition, PipelineFailed
from mainstem.pipelines.planning.offline import OfflinePlanner

SHOP = """
    from mainstem import pipelines as p

    @p.table(source="orders", schema="id string, amount int", sink=p.sqlite("base.db", "orders"))
    @p.expect("amount >= 0", on_fail="dead")
    @p.expect("id != 'test'", on_fail="drop", name="no tests")
    def orders(rows):
        return rows
"""
Publish = Callable[..., None]


@pytest.fixture
def publish(address: str) -> Publish:
    def send(*orders: tuple[str, int | None]) -> None:
        with mainstem.connect(address) as stem:
            stem.topics.create("orders", partitions=1, exist_ok=True)
            stem.publish_many("orders", [{"id": name, "amount": count} for name, count in orders])

    return send


def shop(text: str = SHOP) -> p.Pipeline:
    return written_pipeline(text)


def ids(pipeline: p.Pipeline) -> list[Any]:
    return sorted(column_of_first(pipeline, "id"))


def reasons(address: str) -> list[bytes | None]:
    with mainstem.connect(address) as stem:
        found = list(stem.subscribe("shop.dead", follow=False))
    return [dict(each.headers)["mainstem-reason"] for each in found]


def test_events_are_buried_or_left_out_and_counted_by_expectation(
    spark: SparkSession, address: str, publish: Publish
) -> None:
    pipeline = shop()
    publish(("a", 1), ("b", -1), ("test", 1), ("c", None), ("d", 0))

    first = bounded(spark, pipeline, address)["orders"]
    publish(("test", -5), ("e", 7))
    second = bounded(spark, pipeline, address)["orders"]

    assert ids(pipeline) == ["a", "d", "e"]
    assert first.expectations == {"amount >= 0": 2, "no tests": 1}
    assert (second.bad, second.left_out, second.events) == (3, 1, 7)
    assert second.expectations == {"amount >= 0": 3, "no tests": 1}
    assert reasons(address) == [b"expectation failed: amount >= 0"] * 3


def test_an_expectation_may_stop_the_table_and_says_at_which_event(
    spark: SparkSession, address: str, publish: Publish
) -> None:
    pipeline = shop(SHOP.replace('on_fail="dead"', 'on_fail="stop"'))
    publish(("a", 1), ("test", 3), ("b", -1))

    told = r"stopped: expectation failed: amount >= 0 \(topic orders, partition 0, offset 2\)"
    with pytest.raises(PipelineFailed, match=told):
        bounded(spark, pipeline, address)

    assert ids(pipeline) == []


def test_a_table_can_be_tried_with_events_that_are_left_out(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    pipeline = shop()
    table, planner = pipeline.tables[0], OfflinePlanner(spark, pipeline)

    rows = planner.batch(table, {"orders": [{"id": "a", "amount": 1}, {"id": "test", "amount": 1}]})

    assert rows == [{"id": "a", "amount": 1}]
    with pytest.raises(PipelineFailed, match="expectation failed: amount >= 0"):
        planner.batch(table, {"orders": [{"id": "a", "amount": -1}]})


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (('on_fail="dead"', 'on_fail="log"'), "on_fail='log' is unknown"),
        (('"no tests"', '"amount >= 0"'), "two expectations of one name"),
        (("sink=", "bad='stop', sink="), "say on_fail='stop' or 'drop'"),
        (('"amount >= 0"', '" "'), "needs a condition"),
        (('source="orders", schema="id string, amount int"', "source=['a', 'b']"), "has 2 sources"),
    ],
)
def test_wrong_expectations_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: tuple[str, str], told: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert change[0] in SHOP
    with pytest.raises(InvalidDefinition, match=told):
        shop(SHOP.replace(*change))
