"""The same events give the same tables: by a stream, by batches in chunks, and by a replay."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql.streaming.datasource import ReadMaxRows
from tests.in_process_server import serving
from tests.long_runs import LONG, seeds
from tests.pipelines.sample_events import (
    BEGIN_MS,
    HOUR_MS,
    LATEST_S,
    PAID_WITHIN_S,
    TOPICS,
    Order,
    World,
    bounded,
    create_topics,
    publish,
    rows_of,
    some_world,
    streaming,
    world_of,
)

from mainstem import pipelines as p
from mainstem.pipelines.definitions.table import Pipeline
from mainstem.pipelines.format.options import source_options
from mainstem.pipelines.format.stream_reader import StreamReader
from mainstem.pipelines.state.table_state import TableStatus

DOZEN = Path(__file__).with_name("twelve_tables.py")
Statuses = dict[str, TableStatus]


@pytest.fixture
def one_task(spark: SparkSession) -> Iterator[SparkSession]:
    """A session whose shuffles have one task each: there is little to share out."""
    before = spark.conf.get("spark.sql.shuffle.partitions")
    spark.conf.set("spark.sql.shuffle.partitions", "1")
    yield spark
    spark.conf.set("spark.sql.shuffle.partitions", str(before))


def by_stream(spark: SparkSession, pipeline: Pipeline, address: str, world: World) -> Statuses:
    wanted = {"orders": len(world.orders), "payments": len(world.payments)}
    reading = [
        (table.name, source.name)
        for table in pipeline.tables
        for source in table.sources
        if wanted.get(source.name)
    ]

    def caught_up(known: Statuses) -> bool:
        return all(
            table in known and sum(known[table].offsets.get(topic, {}).values()) == wanted[topic]
            for table, topic in reading
        )

    with streaming(spark, pipeline, address, max_rows=30) as wait:
        wait(caught_up)
    return bounded(spark, pipeline, address, complete=True)


def by_hours(spark: SparkSession, pipeline: Pipeline, address: str, hours: int) -> Statuses:
    for hour in range(1, hours):
        bounded(spark, pipeline, address, to_ms=BEGIN_MS + hour * HOUR_MS)
    return bounded(spark, pipeline, address, complete=True)


def shown_equal(
    spark: SparkSession, directory: Path, patch: pytest.MonkeyPatch, world: World
) -> None:
    pipeline = p.load(DOZEN)
    # What a stream joins as a snapshot has to be there before; bounded runs see to that.
    users = Pipeline(pipeline.name, pipeline.file, pipeline.tables[:1])
    with serving(None) as address:
        create_topics(address)
        for topic in TOPICS:
            publish(address, topic, getattr(world, topic))

        for way in ("stream", "hours"):
            (directory / way).mkdir()
        patch.chdir(directory / "stream")
        bounded(spark, users, address)
        statuses = [by_stream(spark, pipeline, address, world)]
        streamed = rows_of(pipeline)
        patch.chdir(directory / "hours")
        statuses.append(by_hours(spark, pipeline, address, 2))
        hourly = rows_of(pipeline)
        statuses.append(bounded(spark, pipeline, address, into="again", complete=True, max_rows=40))
        replayed = rows_of(pipeline, "again")

    for found in statuses:
        assert {each.state for each in found.values()} == {"complete"}
        assert {name for name, each in found.items() if not each.exact} == set(), found
    for name, rows in streamed.items():
        assert hourly[name] == rows, name
        assert replayed[name] == rows, name


@pytest.mark.peers
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", seeds(1, 1, 10))
def test_a_dozen_definitions_give_the_same_tables_in_every_way(
    one_task: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    assert len(p.load(DOZEN).tables) == 12

    shown_equal(one_task, tmp_path, monkeypatch, some_world(seed))

    tables = rows_of(p.load(DOZEN))
    assert all(tables.values()), tables


def late_of_backlog(address: str, admit: str) -> int:
    """Return how many orders are late if the backlog is read in small batches."""
    options = {"address": address, "subscribe": "orders", "admit": admit}
    reader = StreamReader(source_options(options))
    reader.prepareForTriggerAvailableNow()
    start = reader.initialOffset()
    late, watermark = 0, datetime.min.replace(tzinfo=UTC)
    while (end := reader.latestOffset(start, ReadMaxRows(40))) != start:
        found = [
            datetime.fromisoformat(json.loads(value)["at"])
            for task in reader.partitions(start, end)
            for rows in reader.read(task)
            for value in rows["value"].to_pylist()
        ]
        late += sum(at <= watermark for at in found)
        watermark = max(watermark, max(found) - timedelta(minutes=10))
        start = end
    reader.stop()
    return late


@pytest.mark.parametrize("seed", seeds(1, 3, 50))
def test_orders_are_late_only_if_each_partition_is_read_at_its_own_speed(seed: int) -> None:
    with serving(None) as address:
        create_topics(address)
        publish(address, "orders", some_world(seed).orders)

        assert late_of_backlog(address, "timestamp") == 0
        assert late_of_backlog(address, "evenly") > 0


def times(most_s: int) -> st.SearchStrategy[int]:
    return st.integers(0, most_s - 1)


any_order = st.builds(
    Order,
    after=st.one_of(times(60), times(1800)),
    late=times(LATEST_S),
    user=st.integers(0, 3),
    cents=st.integers(1, 5000),
    again_after=st.none() | times(LATEST_S),
    paid_after=st.none() | times(PAID_WITHIN_S),
    payment_late=times(LATEST_S),
)


@pytest.mark.skipif(not LONG, reason="an example takes minutes: ./test --long")
@pytest.mark.timeout(7200)
@settings(
    max_examples=15,
    phases=[Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(orders=st.lists(any_order, min_size=1, max_size=60))
def test_any_orders_give_the_same_tables_in_every_way(
    one_task: SparkSession, monkeypatch: pytest.MonkeyPatch, orders: list[Order]
) -> None:
    with TemporaryDirectory() as directory:
        shown_equal(one_task, Path(directory), monkeypatch, world_of(orders))
        monkeypatch.undo()
