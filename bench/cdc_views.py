"""Measures how long a row takes from its commit in PostgreSQL to each sink of a pipeline.

    python -m bench.cdc_views             ten minutes; writes docs/benchmarks/cdc-views.md
    python -m bench.cdc_views --commits 20 --sinks delta redis

How this works: a PostgreSQL, the connector in a server, and a pipeline with one table, which
mirrors one row. The row is updated again and again, at random distances; the clock stops when a
reader of the sink's own kind sees the new value. "memory" is a sink that only remembers the value.
Spark says what the parts of each batch took; the sink is a part of addBatch.
"""

import argparse
import os
import random
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import msgspec
import psycopg
from bench.kafka.page import table
from bench.kafka.systems import Mainstem
from bench.spark_page import quantile
from pyspark.sql import DataFrame, SparkSession

import mainstem
from mainstem import pipelines as p
from mainstem.cli.benchmarks.report import machine
from mainstem.cli.demo.companions import companion
from mainstem.pipelines.definitions.table import Pipeline
from mainstem.pipelines.running.pipeline_run import run
from mainstem.pipelines.running.table_run import Report, Request
from mainstem.pipelines.session import spark_session
from mainstem.pipelines.sinks import collecting
from mainstem.pipelines.sinks.port import Mark, Sink
from mainstem.pipelines.sinks.search import search_index

PAGE = Path(__file__).parents[1] / "docs" / "benchmarks" / "cdc-views.md"
PATIENCE_S = 120
WARM_UP = 10
JVM_WARM_UP = 40
"""Commits before the first sink, whose figures would be those of a cold JVM otherwise."""
PARTS = ("latestOffset", "getBatch", "queryPlanning", "walCommit", "addBatch", "commitOffsets")
AIM_MS = 500
"""The aim for the median from the commit to the sink."""
Read = Callable[[], int]
"""Returns the value that the sink has now; -1 if none."""


class MemorySink(msgspec.Struct, frozen=True):
    """Remembers the newest value."""

    seen: list[int]
    key: tuple[str, ...] = ()
    place: str = "memory"

    def check(self, columns: object) -> None:
        """Any columns are right."""

    def write(self, rows: DataFrame, mark: Mark) -> bool:
        """Keep the value."""
        del mark
        found = collecting.collected(rows, self.key).to_pylist()
        self.seen.extend(row["v"] for row in found)
        return True

    def read(self) -> None:
        """Return nothing."""

    def beside(self, name: str) -> Sink:
        """Return this sink."""
        del name
        return self

    def swap(self, name: str) -> None:
        """Do nothing."""


class Places:
    """Where sinks write, and how their readers read."""

    def __init__(self, directory: Path, postgres: str, redis: str) -> None:
        self._directory, self._postgres, self._redis = directory, postgres, redis

    def memory(self) -> tuple[Sink, Read]:
        """Write to a list in this process."""
        seen: list[int] = []
        return MemorySink(seen), lambda: seen[-1] if seen else -1

    def delta(self) -> tuple[Sink, Read]:
        """Write to a Delta table; each reading opens it anew."""
        from deltalake import DeltaTable  # noqa: PLC0415 - slow to load

        path = str(self._directory / "delta")

        def read() -> int:
            rows = DeltaTable(path).to_pyarrow_table(columns=["v"]).column("v").to_pylist()
            return int(rows[0]) if rows else -1

        return p.delta(path), read

    def search(self) -> tuple[Sink, Read]:
        """Write to a search index."""
        path = self._directory / "index"

        def read() -> int:
            found = search_index(path, "row", 1)
            return int(str(found[0].row["v"])) if found else -1

        return p.search(str(path), text="note"), read

    def sqlite(self) -> tuple[Sink, Read]:
        """Write to a table of SQLite."""
        path = self._directory / "base.db"

        def read() -> int:
            with closing(sqlite3.connect(path, timeout=30)) as base:
                return _first(base.execute("SELECT v FROM mirror").fetchone())

        return p.sqlite(str(path), "mirror"), read

    def postgres(self) -> tuple[Sink, Read]:
        """Write to another PostgreSQL."""
        base = psycopg.connect(self._postgres, autocommit=True)
        return p.postgres(self._postgres, "mirror"), lambda: _first(
            base.execute("SELECT v FROM mirror").fetchone()
        )

    def redis(self) -> tuple[Sink, Read]:
        """Write to Redis."""
        from redis import Redis  # noqa: PLC0415 - an extra

        base = Redis.from_url(self._redis, protocol=2)

        def read() -> int:
            found = base.get("mirror:1")
            return int(msgspec.json.decode(found)["v"]) if isinstance(found, bytes) else -1

        return p.redis(self._redis, "mirror"), read


def _first(row: tuple[int, ...] | None) -> int:
    return row[0] if row else -1


SINKS = ("memory", "delta", "search", "sqlite", "postgres", "redis")


class Figure(msgspec.Struct):
    """Milliseconds of each commit, and what the batches spent them on."""

    sink: str
    view_ms: list[float]
    parts_ms: dict[str, float]
    """Medians of Spark's parts of a batch."""


@contextmanager
def streaming(spark: SparkSession, pipeline: Pipeline, address: str, state: Path) -> Iterator[None]:
    """Run a pipeline as a stream in a thread."""
    stop = threading.Event()
    request = Request(address, state, "stream")

    def ignore(report: Report) -> None:
        del report

    thread = threading.Thread(target=run, args=(spark, pipeline, request, ignore, stop))
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def measure(
    spark: SparkSession, name: str, places: Places, base: "psycopg.Connection", address: str, n: int
) -> Figure:
    """Commit rows, and wait for each in the sink."""
    sink, read = getattr(places, name)()
    source = p.changes("shop.public.clock", schema="id int, v int, note string")
    made = p.apply_changes(source, key="id", sink=sink, name=name)
    state = Path(tempfile.mkdtemp(prefix="views-"))
    pipeline = Pipeline(f"views-{name}", state / "views.py", (made,))
    chance, took_ms = random.Random(1), []
    with streaming(spark, pipeline, address, state):
        for number in range(n + WARM_UP):
            # Spark is not to be met at the same point of its turn each time.
            time.sleep(chance.uniform(0.1, 0.6))
            began = time.perf_counter()
            (value,) = base.execute("UPDATE clock SET v = v + 1 RETURNING v").fetchone() or (0,)
            committed = time.perf_counter()
            while _value(read) < value:
                if time.perf_counter() - began > PATIENCE_S:
                    raise TimeoutError(f"{name} does not get the row")
                time.sleep(0.002)
            if number >= WARM_UP:
                took_ms.append((time.perf_counter() - committed) * 1000)
        (query,) = spark.streams.active
        progress = [each for each in query.recentProgress if "addBatch" in each.durationMs][-n:]
        parts = {
            part: statistics.median(each.durationMs.get(part, 0) for each in progress)
            for part in PARTS
        }
    return Figure(name, took_ms, parts)


def _value(read: Read) -> int:
    try:
        return read()
    except Exception:
        return -1


def page(figures: list[Figure], commits: int, command: str) -> str:
    """Return what docs/benchmarks/cdc-views.md says."""
    rows = [
        [
            each.sink,
            f"{statistics.median(each.view_ms):,.0f}",
            f"{quantile(each.view_ms, 0.99):,.0f}",
            *(f"{each.parts_ms[part]:,.0f}" for part in PARTS),
        ]
        for each in figures
    ]
    head = ["sink", "p50 ms", "p99 ms", *PARTS]
    return f"""# From a commit in PostgreSQL to the sinks of a pipeline

`{command}` writes this page.

The benchmark updates one row {commits} times for each sink, at random distances of 0.1 to 0.6 s,
and waits until a reader of the sink sees the new value, which passes from PostgreSQL through the
connector, the topic (fsync) and Spark to the sink. `memory` is a sink that only keeps the value
in memory. {JVM_WARM_UP} updates before the first sink, and {WARM_UP} before each, are not
counted, as the JVM compiles meanwhile. The columns after p99 are the times of the parts of a
batch, medians in ms, by Spark's own names; the sink is a part of `addBatch`.

{machine()}.

The aim is a p50 under {AIM_MS} ms for every sink:

{aims(figures)}

{table(head, rows)}

`addBatch` takes most of the time of a batch, even with a sink that does nothing: in it Spark
computes the newest change of each key, with its state, and passes the rows to Python.
"""


def aims(figures: list[Figure]) -> str:
    """Return for each sink whether the aim is met, and if not by how much and why."""
    lines = []
    for each in figures:
        value = statistics.median(each.view_ms)
        text = f"- {each.sink}: p50 {value:,.0f} ms"
        if value < AIM_MS:
            lines.append(f"{text} is met.")
            continue
        spark_ms = sum(each.parts_ms.values())
        lines.append(
            f"{text} **falls short by {value - AIM_MS:,.0f} ms**: Spark's batch takes "
            f"{spark_ms:,.0f} ms, and a row that is committed during a batch waits for the next."
        )
    return "\n".join(lines)


def main() -> None:
    """Measure, and write the page."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--commits", type=int, default=60)
    parser.add_argument("--sinks", nargs="+", choices=SINKS, default=SINKS)
    parser.add_argument("--page", type=Path, default=PAGE)
    given = parser.parse_args()
    command = " ".join(["python -m bench.cdc_views", *sys.argv[1:]])
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="views-")))
        source = stack.enter_context(companion("postgres"))
        copies = stack.enter_context(companion("postgres"))
        cache = stack.enter_context(companion("redis"))
        served = Mainstem(directory / "data", "fsync")
        served.start()
        stack.callback(served.stop)
        address = str(served.server.address)
        base = stack.enter_context(psycopg.connect(source.address, autocommit=True))
        base.execute("CREATE TABLE clock (id int PRIMARY KEY, v int NOT NULL, note text)")
        base.execute("INSERT INTO clock VALUES (1, 0, 'a row')")
        add = [sys.executable, "-m", "mainstem", "connector", "add", "shop", source.address]
        subprocess.run([*add, "--tables", "public.clock", "--at", address], check=True)
        with mainstem.connect(address) as stem, stem.subscribe("shop.public.clock") as events:
            assert events.poll(PATIENCE_S) is not None, "the connector publishes nothing"
        os.environ["PYTHONPATH"] = os.pathsep.join(sys.path)
        spark = spark_session("local[2]", **{"spark.sql.shuffle.partitions": "1"})
        stack.callback(spark.stop)
        places = Places(directory, copies.address, cache.address)
        print("warming up", flush=True)
        measure(spark, "memory", places, base, address, JVM_WARM_UP)
        figures = []
        for name in given.sinks:
            if name == "redis" and not cache.address:
                print(cache.reason)
                continue
            figures.append(measure(spark, name, places, base, address, given.commits))
            print(page(figures[-1:], given.commits, command), flush=True)
    given.page.write_text(page(figures, given.commits, command))


if __name__ == "__main__":
    main()
