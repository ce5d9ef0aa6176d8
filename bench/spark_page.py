"""What was measured in Spark, as a page of the docs and its chart."""

import statistics
import sys

import msgspec
from bench.chart import Multiples, multiples
from bench.kafka.page import table

from mainstem.cli.benchmarks.report import machine

VALUE_BYTES = 120
BATCHES = 4
EVERY_S = 0.05

OURS, THEIRS, PARQUET, JSON = "mainstem", "kafka connector", "Parquet files", "JSON files"


class Figure(msgspec.Struct):
    """Seconds that each round took: of the clock, and of processors in Spark and its Python."""

    source: str
    partitions: int
    kind: str
    rows: int
    seconds: list[float]
    cpu_s: list[float]

    @property
    def rate(self) -> float:
        """Rows per second, in the median."""
        return self.rows / statistics.median(self.seconds)

    @property
    def cpu_rate(self) -> float:
        """Rows per second of processor time, in the median."""
        return self.rows / statistics.median(self.cpu_s)


class Delay(msgspec.Struct):
    """Milliseconds from publishing an event to foreachBatch having it, and those of batches."""

    source: str
    milliseconds: list[float]
    batch_ms: list[float]
    parts_ms: dict[str, list[float]]
    """Of a batch: what it does, by the names that Spark gives to that."""

    def part(self, *names: str) -> float:
        """Return what some parts of a batch take, in the median."""
        return sum(statistics.median(self.parts_ms[name]) for name in names)


def page(figures: list[Figure], delays: list[Delay], rounds: int, delay_rounds: int) -> str:
    """Return what docs/benchmarks/spark.md says."""
    rows = [
        [
            each.kind,
            str(each.partitions),
            each.source,
            f"{each.rate:,.0f}",
            _share(each, figures),
            f"{each.cpu_rate:,.0f}",
        ]
        for each in figures
    ]
    latency = [
        [
            each.source,
            str(len(each.milliseconds)),
            f"{statistics.median(each.milliseconds):,.0f}",
            f"{quantile(each.milliseconds, 0.99):,.0f}",
            f"{statistics.median(each.batch_ms):,.0f}",
            f"{each.part('latestOffset'):,.0f}",
            f"{each.part('queryPlanning', 'getBatch', 'addBatch'):,.0f}",
            f"{each.part('walCommit', 'commitOffsets'):,.0f}",
        ]
        for each in delays
    ]
    return f"""# Benchmarks of Spark

    {" ".join(["python -m bench.spark", *sys.argv[1:]])}

writes this page. Machine: {machine()}. {figures[0].rows:,} rows of {VALUE_BYTES + 8} bytes, read
by `local[2]` into a sink that discards them after computing a hash of every row; server and Spark
run on the same machine. Median of {rounds} rounds in which the sources took turns, after two
rounds to warm up; streams have batches of {figures[0].rows // BATCHES:,} rows, of which the first
is not counted. Other programs ran on the machine, so compare ratios, not rates. "rows/s of CPU"
is rows per second of processor time of the JVM and its Python processes, without the server's.
The aims: at least as fast as Spark's Kafka connector, 500,000 rows/s for each core, p50 under 300
ms.

![Rows per second as multiples of the connector's](spark.svg)

{table(["", "partitions", "source", "rows/s", "of the connector", "rows/s of CPU"], rows)}

One event is published every {EVERY_S * 1000:.0f} ms. The table has the time from publishing an
event to receiving it in `foreachBatch`, and how long such a small batch takes, in ms: as a whole
(batch), to find its end offsets (ask), to run it, and to write the checkpoint. An event waits for
the end of the previous batch, so p50 is about one and a half batches; {delay_rounds} rounds in
which the sources took turns. Where that time goes is [measured in detail](spark-batch.md).

{table(["source", "events", "p50", "p99", "batch", "ask", "run", "checkpoint"], latency)}
"""


def _share(figure: Figure, figures: list[Figure]) -> str:
    found = share(figure, figures)
    return f"{found:.2f}" if found else "-"


def share(figure: Figure, figures: list[Figure]) -> float:
    """Return a source's rate as a share of the connector's, in the median of the rounds."""
    for each in figures:
        if (each.source, each.kind, each.partitions) == (THEIRS, figure.kind, figure.partitions):
            pairs = zip(figure.seconds, each.seconds, strict=True)
            return statistics.median(theirs / own for own, theirs in pairs)
    return 0.0


def quantile(values: list[float], part: float) -> float:
    """Return the value below which that part of the values is."""
    return sorted(values)[min(len(values) - 1, int(len(values) * part))]


def chart(figures: list[Figure]) -> str:
    """Return bars of rates as shares of the connector's."""
    groups = [
        (
            kind,
            [Multiples(_partitions(at), _shares(kind, at, figures)) for at in (1, 2)],
        )
        for kind in ("batch", "stream")
    ]
    return multiples(
        "Rows per second: how many times those of Spark's Kafka connector",
        [(OURS, "#2b6cb0"), (PARQUET, "#2f855a"), (JSON, "#b7791f")],
        groups,
        note="to the right of 1 it is quicker; logarithmic",
    )


def _partitions(number: int) -> str:
    return f"{number} partition{'s' if number > 1 else ''}"


def _shares(kind: str, partitions: int, figures: list[Figure]) -> list[float]:
    found = {
        each.source: share(each, figures)
        for each in figures
        if (each.kind, each.partitions) == (kind, partitions)
    }
    return [found[name] for name in (OURS, PARQUET, JSON)]
