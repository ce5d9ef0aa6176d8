"""Measures how many events per second queries read, beside DuckDB on Parquet of the same events.

How this works: the events are published to a server in a process of its own, and written to a
Parquet file with the same columns: offset, partition, timestamp, key, and the JSON value as text.
Each query runs on both in turns, with two threads of DuckDB; ours also fetches the events over TCP
and decodes them. What ours does once for a query is not in these figures: it starts a process, and
looks at a sample of the topic.
"""

import json
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import duckdb
import pyarrow.parquet as pq
from bench.http.aim import AIM, Ratio, summary, verdict
from bench.kafka.page import table
from bench.kafka.systems import COMMAND, PATIENCE_S

import mainstem
from mainstem.cli.benchmarks.report import machine
from mainstem.remote.cluster import Cluster
from mainstem.sql import events
from mainstem.sql.evaluation import Limits
from mainstem.sql.query import Query
from mainstem.sql.worker_messages import Span

TOPIC, PARTITIONS = "orders", 4
EVENTS = 500_000
COLUMNS = events.schema(frozenset({events.KEY, events.VALUE}))
EXTRACTED = "json_extract_string(_value, '$.user')", "json_extract(_value, '$.amount')::double"
_WHY = (
    "mainstem sql fetches whole record batches from the server over TCP, checks and decodes them, "
    "and passes them to another process. The fewer fields a query needs, the faster is "
    "Parquet: each of its columns can be read alone, and statistics answer some queries."
)
QUERIES = {
    "count": ("select count(*) from orders",) * 2,
    "longest value": ("select max(length(_value)) from orders",) * 2,
    "a filter on the key": ("select count(*) from orders where _key = 'u7'",) * 2,
    "two fields, grouped": (
        "select user, sum(amount) from orders group by user",
        f"select {EXTRACTED[0]}, sum({EXTRACTED[1]}) from orders group by 1",
    ),
    "all columns of few rows": (
        "select _key, _value, _offset from orders where amount > 99.99",
        f"select _key, _value, _offset from orders where {EXTRACTED[1]} > 99.99",
    ),
}
"""What is asked: of a topic, and of its events in Parquet."""


@contextmanager
def served() -> Iterator[str]:
    """Serve an empty directory; gives the address for Kafka clients."""
    with tempfile.TemporaryDirectory() as directory:
        command = [str(COMMAND), "serve", f"{directory}/data", "--log-format", "json"]
        process = subprocess.Popen(
            [*command, "--kafka", "127.0.0.1:0", "--admin", "off", "--http", "off"],
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            assert process.stderr is not None
            yield next(
                said["kafka"] for line in process.stderr if "kafka" in (said := json.loads(line))
            )
        finally:
            process.kill()
            process.communicate(timeout=PATIENCE_S)


def fill(address: str, count: int) -> None:
    """Publish so many orders."""
    random = Random(5)
    with mainstem.connect(address) as stem:
        stem.topics.create(TOPIC, partitions=PARTITIONS)
        orders = (
            mainstem.Event(
                json.dumps(
                    {
                        "id": number,
                        "user": f"u{random.randrange(1000)}",
                        "amount": random.randrange(10_000) / 100,
                        "items": ["book", "pen"],
                        "note": "x" * 60,
                    }
                ).encode(),
                key=f"u{random.randrange(1000)}".encode(),
            )
            for number in range(count)
        )
        stem.publish_many(TOPIC, orders)


def to_parquet(cluster: Cluster, spans: list[Span], file: Path) -> None:
    """Write the events to a file."""
    columns = COLUMNS.remove(COLUMNS.get_field_index("_headers"))
    with pq.ParquetWriter(file, columns) as out:
        for batch in events.read(cluster, TOPIC, spans, columns):
            out.write_batch(batch)


def measure(rounds: int, count: int) -> dict[str, tuple[list[float], list[float]]]:
    """Return the seconds of each query in each round, of ours and of the peer."""
    found: dict[str, tuple[list[float], list[float]]] = {}
    with served() as address, tempfile.TemporaryDirectory() as directory:
        fill(address, count)
        cluster = Cluster(address, timeout_s=PATIENCE_S, settings={})
        file = Path(directory, "orders.parquet")
        for name, (ours, theirs) in QUERIES.items():
            with Query(cluster, ours, limits=Limits()) as query, duckdb.connect() as peer:
                snapshot = query.snapshot()
                if not file.exists():
                    to_parquet(cluster, list(snapshot.topics[TOPIC].spans), file)
                peer.execute("SET threads = 2")
                peer.execute(f"CREATE VIEW {TOPIC} AS FROM '{file}'")

                runs: tuple[Callable[[], object], Callable[[], object]] = (
                    lambda: list(query.run(snapshot).batches),  # noqa: B023
                    lambda: peer.sql(theirs).to_arrow_table(),  # noqa: B023
                )
                # In the first round ours looks at a sample, and all caches are cold.
                rows = [[timed(run) for run in runs] for _ in range(rounds + 1)][1:]
                found[name] = [one for one, _ in rows], [other for _, other in rows]
                medians = (f"{statistics.median(each):.3f} s" for each in found[name])
                print(f"{name}: {', '.join(medians)}", flush=True)
    return found


def timed(run: Callable[[], object]) -> float:
    """Return how many seconds a call takes."""
    began = time.perf_counter()
    run()
    return time.perf_counter() - began


def page(found: dict[str, tuple[list[float], list[float]]], count: int) -> str:
    """Return the page of docs/benchmarks."""
    rows, medians = [], []
    for name, (ours, theirs) in found.items():
        ratios = [other / one for one, other in zip(ours, theirs, strict=True)]
        medians.append(Ratio(name, statistics.median(ratios), _WHY))
        rows.append(
            [
                name,
                f"{count / statistics.median(ours):,.0f}",
                f"{count / statistics.median(theirs):,.0f}",
                f"{statistics.median(ratios):.2f}",
                f"{min(ratios):.2f} to {max(ratios):.2f}",
                verdict(statistics.median(ratios)),
            ]
        )
    head = [
        "query",
        "mainstem sql, events/s",
        "DuckDB on Parquet, events/s",
        "ratio",
        "range",
        f"aim: {AIM}",
    ]
    rounds = len(next(iter(found.values()))[0])
    return f"""# SQL over a topic beside DuckDB on Parquet

    python -m bench.http --only sql --rounds {rounds}

writes this page. Machine: {machine()}, shared with other work.
{count:,} events of about 130 bytes of JSON in {PARTITIONS} partitions, {rounds} rounds in turns;
each figure is the median of the rounds, and the ratio is the median of the rounds' ratios.

{table(head, rows)}

{summary(medians)}

DuckDB reads the same events from one Parquet file, with the JSON values as text. Both evaluate the
query with two threads of DuckDB. The figures do not include the second that `mainstem sql` takes to
start its process and to read a sample of the topic.

If you often query the same topic, let a [pipeline](../guides/pipelines.md) keep its events in Delta
or Parquet, and query that table instead.
"""


def full(rounds: int) -> str:
    """Measure so many rounds; return the page."""
    return page(measure(rounds, EVENTS), EVENTS)


def quick() -> str:
    """Measure a fifth of it twice; return the page."""
    return page(measure(2, EVENTS // 5), EVENTS // 5)
