"""Runs of a pipeline: refusals, counters, and continuing after earlier runs."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.pipelines.running.written import column_of_first, written_pipeline
from tests.pipelines.sample_events import bounded, forget_last_commit, ignore

import mainstem
from mainstem import pipelines as p
from mainstem.cli.commands.pipeline import _summary
from mainstem.pipelines.errors import InvalidDefinition, PipelineFailed, RunRefused
from mainstem.pipelines.running.lag import lag_of
from mainstem.pipelines.running.pipeline_run import run
from mainstem.pipelines.running.replay import compare, swap
from mainstem.pipelines.running.table_run import Request
from mainstem.pipelines.state.table_state import run_lock, table_statuses

SHOP = """
    from pyspark.sql import functions as F
    from mainstem import pipelines as p

    @p.table(source="orders", schema="id string not null, at timestamp",
             watermark=("at", "1 minute"), sink=p.sqlite("base.db", "minutes"))
    def minutes(orders):
        return orders.groupBy(F.window("at", "1 minute").alias("minute")).count()
"""
Publish = Callable[..., None]


@pytest.fixture
def publish(address: str) -> Publish:
    def send(*values: str) -> None:
        with mainstem.connect(address) as stem:
            stem.topics.create("orders", partitions=1, exist_ok=True)
            stem.publish_many("orders", [mainstem.Event(each.encode()) for each in values])

    return send


def order(name: str, minute: int) -> str:
    return f'{{"id": "{name}", "at": "2026-11-15T08:{minute:02}:00Z"}}'


def shop(text: str = SHOP) -> p.Pipeline:
    return written_pipeline(text)


def counts(pipeline: p.Pipeline) -> list[Any]:
    return sorted(column_of_first(pipeline, "count"))


def test_bad_events_are_buried_with_their_bytes_and_late_ones_counted(
    spark: SparkSession, address: str, publish: Publish, capsys: pytest.CaptureFixture[str]
) -> None:
    pipeline = shop()
    publish(order("a", 1), "nonsense", order("b", 30), '{"at": "2026-11-15T08:30:00Z"}')

    bounded(spark, pipeline, address)
    publish(order("late", 2), order("late", 3), order("c", 31))
    found = bounded(spark, pipeline, address)["minutes"]

    assert (found.events, found.bad, found.late, found.exact) == (7, 2, 2, False)
    _summary({"minutes": found})
    assert "2 events were later than the watermark" in (told := capsys.readouterr().err)
    assert "may give different tables" in told
    assert counts(pipeline) == [1]
    with mainstem.connect(address) as stem:
        dead = list(stem.subscribe("shop.dead", follow=False))
        assert [each.value for each in dead] == [b"nonsense", b'{"at": "2026-11-15T08:30:00Z"}']
        headers = dict(dead[0].headers)
        assert headers["mainstem-reason"] == b"not JSON"
        assert headers["mainstem-offset"] == b"1"
        assert stem.groups.show("shop.minutes").lag == 0
    assert lag_of(found) is not None
    assert [(name, table) for name, table, _ in table_statuses(Path("state"))] == [
        ("shop", "minutes")
    ]


def test_a_completed_input_closes_windows_and_is_not_read_on(
    spark: SparkSession, address: str, publish: Publish
) -> None:
    # A filter that the end of the input would not pass.
    pipeline = shop(SHOP.replace("orders.group", "orders.where('id <> \"x\"').group"))
    publish(order("a", 1), order("b", 1), order("c", 2))

    found = bounded(spark, pipeline, address, complete=True)["minutes"]

    assert (found.state, found.exact) == ("complete", True)
    assert counts(pipeline) == [1, 2]
    with pytest.raises(RunRefused, match="declared complete"):
        bounded(spark, pipeline, address)


def test_what_spark_keeps_between_batches_is_kept_though_the_sink_has_the_batch(
    spark: SparkSession, address: str, publish: Publish
) -> None:
    pipeline = shop(SHOP.replace('"minutes")', '"minutes", key="minute")'))
    publish(order("a", 1))
    bounded(spark, pipeline, address)
    forget_last_commit(Path("state/shop/minutes/checkpoint"))
    publish(order("b", 1))

    bounded(spark, pipeline, address)

    assert counts(pipeline) == [2]


def test_a_replay_is_compared_and_put_in_the_place_of_the_table(
    spark: SparkSession, address: str, publish: Publish
) -> None:
    publish(order("a", 1), order("b", 2), order("c", 20))
    bounded(spark, shop(), address)
    fixed = shop(SHOP.replace(".count()", ".agg((F.count('*') * 10).alias('count'))"))

    bounded(spark, fixed, address, into="fixed")
    (difference,) = compare(fixed, "fixed")
    swap(fixed, "fixed", Path("state"))
    publish(order("d", 40))
    bounded(spark, fixed, address)

    assert (difference.same, difference.only_here, difference.only_there) == (0, 2, 2)
    assert counts(fixed) == [10, 10, 10]
    assert Path("state/shop@before-fixed").is_dir()


def test_an_event_that_stops_the_table_is_named(
    spark: SparkSession, address: str, publish: Publish
) -> None:
    pipeline = shop(SHOP.replace("sink=", "bad='stop', sink="))
    publish(order("a", 1), "nonsense")

    with pytest.raises(PipelineFailed, match="not JSON"):
        bounded(spark, pipeline, address)

    ((_, _, status),) = table_statuses(Path("state"), "shop")
    assert status.state == "failed"
    assert status.failure is not None
    assert status.failure.event == "topic orders, partition 0, offset 1"


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (('window("at"', 'window("when"'), "when"),
        ((".count()", ""), "not a DataFrame"),
        (("return orders", "orders"), r"shop.py:5: table 'minutes': its function returns nothing"),
        (('"id string not null', '"id strung'), "is not DDL"),
        (('("at", "1 minute")', '("id", "1 minute")'), "must be a timestamp"),
        (('"minutes")', '"minutes", key="hour")'), "needs a column 'hour'"),
        (("return orders", "1 / 0; return orders"), "ZeroDivisionError"),
    ],
)
def test_a_definition_that_cannot_work_is_refused_before_any_batch(
    spark: SparkSession,
    address: str,
    publish: Publish,
    change: tuple[str, str],
    told: str,
) -> None:
    assert change[0] in SHOP
    publish(order("a", 1))

    with pytest.raises(InvalidDefinition, match=told):
        bounded(spark, shop(SHOP.replace(*change)), address)

    assert not Path("state/shop/minutes/checkpoint").exists()


def test_two_runs_of_one_pipeline_are_refused(spark: SparkSession, address: str) -> None:
    pipeline = shop()

    with run_lock(Path("state/shop")), pytest.raises(RunRefused, match="is being run by process"):
        run(spark, pipeline, Request(address, Path("state")), ignore, threading.Event())
