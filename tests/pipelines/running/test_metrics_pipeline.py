"""The pipeline of the StatsD guide sums counters up, and says how much was lost."""

import re
from pathlib import Path

import msgspec
import pytest
from pyspark.sql import SparkSession
from tests.pipelines.sample_events import bounded

import mainstem
from mainstem import pipelines as p
from mainstem.heads.statsd.aggregates import OWN, Aggregate

GUIDE = Path(__file__).parents[3] / "docs/guides/statsd.md"
HOUR_MS = 3_600_000


def test_counters_are_summed_by_the_hour_with_the_share_that_was_lost(
    spark: SparkSession, address: str
) -> None:
    found = re.search(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    assert found is not None
    Path("metrics.py").write_text(found[1])
    pipeline = p.load(Path("metrics.py"))

    def publish(hour: int, **counts: float) -> None:
        names = {"packets": OWN + "packets", "dropped": OWN + "kernel_drops"}
        names["sent"] = "datadog.dogstatsd.client.packets_sent"
        end_ms = hour * HOUR_MS + 10_000
        sums = [
            Aggregate(names.get(name, name), "counter", end_ms - 10_000, end_ms, count=count)
            for name, count in counts.items()
        ]
        sums.append(Aggregate("heat", "gauge", end_ms - 10_000, end_ms, value=20.0))
        with mainstem.connect(address) as stem:
            stem.publish_many("statsd.aggregates", [msgspec.to_builtins(each) for each in sums])

    with mainstem.connect(address) as stem:
        stem.topics.create("statsd.aggregates", partitions=1)
    publish(0, orders=3, packets=90, dropped=10, sent=100)
    publish(0, orders=4, packets=100, sent=150)
    bounded(spark, pipeline, address)
    publish(0, orders=1)
    publish(1, orders=5, packets=0)
    bounded(spark, pipeline, address)

    counts, losses = (each.sink.read() for each in pipeline.tables)
    assert counts is not None
    assert losses is not None
    orders = {
        each["hour"].hour: each["count"] for each in counts.to_pylist() if each["name"] == "orders"
    }
    assert orders == {0: 8, 1: 5}
    rows = {
        each["hour"].hour: (
            each["packets"],
            each["lost_share"],
            each["sent"],
            each["lost_of_sent"],
        )
        for each in losses.to_pylist()
    }
    assert rows == {0: (190, 0.05, 250, pytest.approx(0.24)), 1: (0, 0, 0, None)}
