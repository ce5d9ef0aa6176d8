"""The same events give the same tables: by a stream, by batches in chunks, and by a replay."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.long import LONG
from tests.pipelines.worlds import (
    BEGIN_MS,
    MINUTE_MS,
    World,
    bounded,
    create_topics,
    publish,
    rows_of,
    some_world,
    streaming,
)
from tests.serving import serving

from mainstem import pipelines as p
from mainstem.pipelines.definitions import Pipeline
from mainstem.pipelines.standing import Standing

DOZEN = Path(__file__).with_name("dozen.py")
FEW = ("minutes", "unpaid")


def some_tables(names: tuple[str, ...]) -> Pipeline:
    pipeline = p.load(DOZEN)
    chosen = tuple(each for each in pipeline.tables if each.name in names)
    return Pipeline(pipeline.name, pipeline.file, chosen)


def by_stream(
    spark: SparkSession, pipeline: Pipeline, address: str, world: World
) -> dict[str, Standing]:
    wanted = {"orders": len(world.orders), "payments": len(world.payments)}

    reading = [
        (table.name, source.name)
        for table in pipeline.tables
        for source in table.sources
        if source.name in wanted
    ]

    def caught_up(known: dict[str, Standing]) -> bool:
        return all(
            table in known and sum(known[table].offsets.get(topic, {}).values()) == wanted[topic]
            for table, topic in reading
        )

    with streaming(spark, pipeline, address, max_rows=25) as wait:
        wait(caught_up)
    return bounded(spark, pipeline, address, complete=True)


def by_chunks(spark: SparkSession, pipeline: Pipeline, address: str) -> dict[str, Standing]:
    bounded(spark, pipeline, address, to_ms=BEGIN_MS + 23 * MINUTE_MS)
    return bounded(spark, pipeline, address, complete=True)


def shown_equal(
    spark: SparkSession,
    tmp_path: Path,
    patch: pytest.MonkeyPatch,
    world: World,
    names: tuple[str, ...],
) -> None:
    with serving(None) as address:
        create_topics(address)
        publish(address, "users", world.users)
        pipeline = some_tables(names)
        for way in ("stream", "chunks"):
            (tmp_path / way).mkdir()
            patch.chdir(tmp_path / way)
            if "users" in names:
                bounded(spark, some_tables(("users",)), address)
        publish(address, "orders", world.orders)
        publish(address, "payments", world.payments)

        patch.chdir(tmp_path / "stream")
        standings = by_stream(spark, pipeline, address, world)
        streamed = rows_of(pipeline)
        patch.chdir(tmp_path / "chunks")
        standings |= by_chunks(spark, pipeline, address)
        chunked = rows_of(pipeline)
        standings |= bounded(spark, pipeline, address, into="again", complete=True, max_rows=40)
        replayed = rows_of(pipeline, "again")

    assert all(standing.exact for standing in standings.values()), standings
    assert all(streamed.values())
    assert chunked == streamed
    assert replayed == streamed


@pytest.mark.timeout(900)
def test_a_stream_chunks_and_a_replay_give_the_same_tables(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown_equal(spark, tmp_path, monkeypatch, some_world(1), FEW)


@pytest.mark.skipif(not LONG, reason="takes half an hour: ./test --long")
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", range(3))
def test_a_dozen_definitions_give_the_same_tables_in_every_way(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    names = tuple(each.name for each in p.load(DOZEN).tables)
    assert len(names) == 12
    shown_equal(spark, tmp_path, monkeypatch, some_world(seed + 10, count=150), names)
