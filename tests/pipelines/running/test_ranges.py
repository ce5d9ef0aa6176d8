"""One-off ranges: into copies of their own, never mixed with another range."""

import threading
from pathlib import Path
from textwrap import dedent

import pytest
from pyspark.sql import SparkSession
from tests.pipelines.sample_events import ignore

import mainstem
from mainstem import pipelines as p
from mainstem.pipelines.errors import RunRefused
from mainstem.pipelines.planning.planner import Bounds
from mainstem.pipelines.running.pipeline_run import run
from mainstem.pipelines.running.replay import swap
from mainstem.pipelines.running.table_run import Request
from mainstem.pipelines.state.one_off_range import CopyRange, claim_range, range_of
from mainstem.pipelines.state.table_state import StateDirectory, TableStatus

SHOP = """
    from mainstem import pipelines as p

    orders = p.sql("select id from orders", source="orders", schema="id string",
                   sink=p.sqlite("base.db", "orders"))
"""
EIGHT_MS, HOUR_MS = 1_794_729_600_000, 3_600_000
NINE_MS, TEN_MS = EIGHT_MS + HOUR_MS, EIGHT_MS + 2 * HOUR_MS


def times(begin_ms: int, end_ms: int) -> Bounds:
    return Bounds({"startingTimestamp": str(begin_ms)}, {"endingTimestamp": str(end_ms)})


def one_off(spark: SparkSession, address: str, bounds: Bounds, into: str) -> list[str]:
    pipeline = p.load(Path("shop.py"))
    request = Request(address, Path("state"), "batch", bounds, into=into)
    run(spark, pipeline, request, ignore, threading.Event())
    rows = pipeline.tables[0].sink.beside(into).read()
    assert rows is not None
    return sorted(row["id"] for row in rows.to_pylist())


@pytest.mark.peers
def test_only_the_range_is_read_and_only_its_copy_written(
    spark: SparkSession, address: str
) -> None:
    Path("shop.py").write_text(dedent(SHOP))
    with mainstem.connect(address) as stem:
        stem.topics.create("orders", partitions=2)
        for partition in (0, 1):
            stem.publish_many(
                "orders",
                [
                    mainstem.Event(f'{{"id": "{partition}-{n}"}}'.encode(), timestamp_ms=at_ms)
                    for n, at_ms in enumerate((EIGHT_MS, NINE_MS, TEN_MS - 1, TEN_MS))
                ],
                partition=partition,
            )

    by_time = one_off(spark, address, times(NINE_MS, TEN_MS), "hour")
    offsets = Bounds(
        {"startingOffsets": '{"orders": {"0": 3}}'}, {"endingOffsets": '{"orders": {"1": 1}}'}
    )
    by_offset = one_off(spark, address, offsets, "few")

    assert by_time == ["0-1", "0-2", "1-1", "1-2"]
    assert by_offset == ["0-3", "1-0"]
    (table,) = p.load(Path("shop.py")).tables
    assert table.sink.read() is None
    assert not Path("state/shop").exists()
    with pytest.raises(RunRefused, match="begun from 2026-11-15T09:00"):
        one_off(spark, address, times(TEN_MS, TEN_MS + HOUR_MS), "hour")
    with pytest.raises(RunRefused, match="hold only what was published from 2026-11-15T09:00"):
        swap(p.load(Path("shop.py")), "hour", Path("state"))


def test_a_range_that_was_interrupted_is_gone_on_with(tmp_path: Path) -> None:
    wanted = CopyRange({"startingTimestamp": "1"}, {"endingTimestamp": "2"})
    claim_range(tmp_path, wanted)
    StateDirectory(tmp_path / "orders").save_status(TableStatus("stopped"))

    claim_range(tmp_path, wanted)

    assert range_of(tmp_path) == wanted


def test_a_replay_becomes_no_range_and_a_range_no_replay(tmp_path: Path) -> None:
    wanted = CopyRange({"startingTimestamp": "1"}, {})
    replay, ranged = tmp_path / "replay", tmp_path / "ranged"
    StateDirectory(replay / "orders").save_status(TableStatus("stopped"))
    ranged.mkdir()
    claim_range(ranged, wanted)

    with pytest.raises(RunRefused, match="is a replay from the first event"):
        claim_range(replay, wanted)
    with pytest.raises(RunRefused, match="choose another name"):
        claim_range(ranged, CopyRange({}, {}))
    claim_range(replay, CopyRange({}, {"endingTimestamp": "2"}))

    assert range_of(replay) is None
