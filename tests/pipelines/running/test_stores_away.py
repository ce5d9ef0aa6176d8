"""A Redis and a PostgreSQL that are away for a while: tables wait for them, and lose nothing."""

import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from textwrap import dedent
from typing import NamedTuple

import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession
from tests.connectors.database import Database, database
from tests.pipelines.redis_server import RedisServer, killable_redis
from tests.pipelines.sample_events import bounded, ignore, streaming
from tests.processes import wait_until

import mainstem
from mainstem import pipelines as p
from mainstem.cli.commands.pipeline import show
from mainstem.cli.pipelines.pipeline_metrics import metrics_page
from mainstem.pipelines.errors import StoreUnavailable
from mainstem.pipelines.planning.planner import Bounds
from mainstem.pipelines.running.pipeline_run import run
from mainstem.pipelines.running.table_run import Request
from mainstem.pipelines.state.table_state import TableStatus, table_statuses

pytestmark = pytest.mark.timeout(600)

STATE = Path("state")
_FILE = """
    from mainstem import pipelines as p

    NUMBERS = p.events("numbers", schema="n bigint")

    @p.table(source=NUMBERS, sink=p.redis("{redis}", "numbers", key="n"))
    def cached(numbers):
        return numbers

    @p.table(source=NUMBERS, sink=p.postgres("{postgres}", "numbers"))
    def stored(numbers):
        return numbers

    @p.table(source=NUMBERS, sink=p.sqlite("base.db", "numbers"))
    def local(numbers):
        return numbers
"""


class Stores(NamedTuple):
    """The stores of a pipeline, and the topic that it reads."""

    redis: RedisServer
    postgres: Database
    address: str

    def stop(self) -> None:
        """Stop both stores in good order."""
        self.redis.stop()
        self.postgres.stop()

    def start(self) -> None:
        """Start both stores again."""
        self.redis.start()
        self.postgres.start()

    def publish(self, first: int, count: int) -> None:
        """Publish numbers."""
        with mainstem.connect(self.address) as stem:
            stem.topics.create("numbers", partitions=1, exist_ok=True)
            values = [json.dumps({"n": each}).encode() for each in range(first, first + count)]
            stem.publish_many("numbers", [mainstem.Event(each) for each in values])

    def pipeline(self) -> p.Pipeline:
        """Load the pipeline."""
        file = Path("stores.py")
        file.write_text(dedent(_FILE.format(redis=self.redis.url, postgres=self.postgres.url)))
        return p.load(file)


@pytest.fixture
def stores(address: str, tmp_path: Path) -> Iterator[Stores]:
    (tmp_path / "redis").mkdir()
    with killable_redis(tmp_path / "redis") as redis, database() as postgres:
        yield Stores(redis, postgres, address)


def statuses() -> dict[str, TableStatus]:
    return {table: status for _, table, status in table_statuses(STATE)}


def wait_for_waiting(*tables: str) -> None:
    wait_until(
        lambda: all(statuses()[each].waiting is not None for each in tables),
        lambda: str(statuses()),
    )


def numbers_in(pipeline: p.Pipeline) -> dict[str, list[int]]:
    found = {}
    for table in pipeline.tables:
        rows = table.sink.read()
        assert rows is not None
        found[table.name] = sorted(rows["n"].to_pylist())
    return found


def all_three(count: int) -> dict[str, list[int]]:
    return {each: list(range(count)) for each in ("cached", "stored", "local")}


def test_a_stream_waits_for_its_stores_tells_so_and_goes_on_by_itself(
    spark: SparkSession, stores: Stores
) -> None:
    stores.publish(0, 50)
    pipeline = stores.pipeline()
    told: list[str] = []

    with streaming(spark, pipeline, stores.address, 20, told.append) as wait:
        wait(lambda known: sum(each.events for each in known.values()) == 150)
        for first in (50, 100):
            stores.stop()
            stores.publish(first, 50)
            wait_for_waiting("cached", "stored")
            # The table whose sink is there goes on.
            wait(lambda known: known["local"].events == first + 50)  # noqa: B023
            metrics = metrics_page(table_statuses(STATE))
            shown = CliRunner().invoke(show, ["stores", "--state", str(STATE)]).output
            stores.start()
            wait(lambda known: sum(each.events for each in known.values()) == 3 * (first + 50))  # noqa: B023
        now = statuses()

    assert numbers_in(pipeline) == all_three(150)
    assert {each.waiting for each in now.values()} == {None}
    assert {name: each.state for name, each in now.items()} == dict.fromkeys(now, "running")
    assert now["local"].retries == 0
    assert min(now["cached"].retries, now["stored"].retries) >= 2
    for name, place in (("cached", "Redis keys numbers:*"), ("stored", "PostgreSQL table numbers")):
        begun = f"table '{name}' waits, and tries again: no answer from {place}: "
        assert len([each for each in told if each.startswith(begun)]) == 2
        assert told.count(f"table '{name}' continues") == 2
        assert f"no answer from {place}: " in shown
        assert f'mainstem_pipeline_table_waiting{{pipeline="stores",table="{name}"}} 1' in metrics
    assert 'mainstem_pipeline_table_waiting{pipeline="stores",table="local"} 0' in metrics


def test_a_stream_that_is_stopped_while_it_waits_is_continued_by_the_next_run(
    spark: SparkSession, stores: Stores
) -> None:
    stores.publish(0, 50)
    pipeline = stores.pipeline()
    with streaming(spark, pipeline, stores.address, 20) as wait:
        wait(lambda known: sum(each.events for each in known.values()) == 150)
        stores.stop()
        stores.publish(50, 50)
        wait_for_waiting("cached", "stored")
    assert {each.state for each in statuses().values()} == {"stopped"}

    with pytest.raises(StoreUnavailable, match="no answer from Redis keys"):
        bounded(spark, pipeline, stores.address, only="cached")
    stores.start()
    bounded(spark, pipeline, stores.address)

    assert numbers_in(pipeline) == all_three(100)


def test_a_bounded_run_waits_for_its_stores_too(spark: SparkSession, stores: Stores) -> None:
    stores.publish(0, 50)
    pipeline = stores.pipeline()
    bounded(spark, pipeline, stores.address)
    stores.publish(50, 2_000)
    request = Request(stores.address, STATE, "batch", Bounds(max_rows=100))
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(run, spark, pipeline, request, ignore, threading.Event())
        wait_until(lambda: statuses()["stored"].events > 50, lambda: str(statuses()))
        stores.stop()
        wait_for_waiting("cached", "stored")
        stores.start()
        running.result(300)

    assert numbers_in(pipeline) == all_three(2_050)
