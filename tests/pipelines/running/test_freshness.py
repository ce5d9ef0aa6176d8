"""How long changes took from the database to a table's sink: measured, shown, and as metrics."""

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.in_process_server import serving
from tests.pipelines.sample_events import bounded

import mainstem
from mainstem import pipelines as p
from mainstem.pipelines.running.freshness import FreshnessMeter
from mainstem.pipelines.spark.progress import Batch, SourceCounts

SHOP = """
from mainstem import pipelines as p

CHANGES = p.changes("shop.orders", schema="id int")
rows = p.apply_changes(CHANGES, key="id", sink=p.sqlite("base.db", "orders"))
"""
NOW_MS = 1_794_729_600_000


def batch(*ages_ms: int, changes: int = 0) -> Batch:
    counts = SourceCounts(
        len(ages_ms),
        changes=changes or len(ages_ms),
        committed_ms=tuple(NOW_MS - each for each in ages_ms),
    )
    return Batch(
        number=1,
        sources={"source0": counts},
        starts={},
        ends={},
        watermark_ms=0,
        rows_per_second=0,
        duration_ms=0,
        stored_ms=NOW_MS,
        state_rows=0,
        state_bytes=0,
        dropped_rows=0,
    )


def test_percentiles_are_over_several_batches_and_weigh_their_changes() -> None:
    meter = FreshnessMeter()
    first = meter.add(batch(100, 200, 300))
    second = meter.add(batch(50, 90, 150, changes=300))

    assert first is not None
    assert (first.changes, first.p50_ms, first.p99_ms, first.last_ms) == (3, 200, 300, 300)
    assert second is not None
    assert (second.changes, second.p50_ms, second.p99_ms, second.last_ms) == (303, 90, 150, 150)


def test_only_the_last_100_batches_count_and_those_without_changes_do_not() -> None:
    meter = FreshnessMeter()
    meter.add(batch(9_000))
    for _ in range(100):
        assert meter.add(batch()) is None
        found = meter.add(batch(10))

    assert found is not None
    assert (found.changes, found.p99_ms) == (100, 10)


def test_a_clock_that_is_behind_gives_no_negative_time() -> None:
    found = FreshnessMeter().add(batch(-5_000))

    assert found is not None
    assert found.last_ms == 0


@pytest.fixture
def address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.chdir(tmp_path)
    Path("shop.py").write_text(SHOP)
    with serving(None) as at:
        yield at


def change(number: int, op: str, committed_ms: int) -> mainstem.Event:
    value = {"op": op, "before": None, "after": {"id": number}, "source": {"lsn": number}}
    value["source"]["ts_ms"] = committed_ms  # type: ignore[index]
    return mainstem.Event(json.dumps(value).encode(), str(number).encode())


def test_a_run_measures_from_the_commit_of_changes_but_not_of_snapshots(
    spark: SparkSession, address: str
) -> None:
    began_ms = time.time_ns() // 1_000_000
    events = [change(number, "c", began_ms - 60_000) for number in range(50)]
    events += [change(number, "u", began_ms - 3_600_000) for number in range(50, 55)]
    events += [change(number, "r", began_ms - 86_400_000) for number in range(100, 300)]
    with mainstem.connect(address) as stem:
        stem.topics.create("shop.orders", partitions=2)
        stem.publish_many("shop.orders", [*events, mainstem.Event(b"bad")])

    found = bounded(spark, p.load(Path("shop.py")), address)["rows"]

    took_ms = time.time_ns() // 1_000_000 - began_ms
    fresh = found.freshness
    assert fresh is not None
    assert (found.events, found.bad, fresh.changes) == (256, 1, 55)
    assert 60_000 <= fresh.p50_ms <= 60_000 + took_ms
    assert 3_600_000 <= fresh.p99_ms <= fresh.last_ms <= 3_600_000 + took_ms
    # A run without new changes knows nothing.
    assert bounded(spark, p.load(Path("shop.py")), address)["rows"].freshness is None
