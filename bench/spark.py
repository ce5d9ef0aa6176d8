"""Measures format("mainstem") beside Spark's own Kafka connector and files, in one run.

    python -m bench.spark            ten minutes, 1 GB of disk; writes docs/benchmarks/spark.md

How this works: the same rows (1 million of 128 bytes by default) are in a topic of one partition,
in one of two, and in Parquet and JSON files. Every source reads all of them into Spark's sink that
keeps nothing, after a hash over key, value and offset; the sources take turns, round by round, and
the first round, in which the JVM warms up, is not counted. A ratio is the median over the rounds,
each against its neighbour. The connector is measured if its jars are in .cache/spark-kafka, where
.ci/run puts them.
"""

import argparse
import json
import os
import shutil
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
from bench.chart import Bars, clusters
from bench.kafka.page import table
from bench.kafka.systems import Mainstem
from confluent_kafka import Producer
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from mainstem.cli.bench import machine
from mainstem.pipelines.session import spark_session

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "benchmarks" / "spark.md"
JARS = sorted((ROOT / ".cache" / "spark-kafka").glob("*.jar"))
VALUE_BYTES = 120
BATCHES = 4
EVERY_S = 0.05

OURS, THEIRS, PARQUET, JSON = "mainstem", "kafka connector", "Parquet files", "JSON files"
Read = Callable[[], DataFrame]


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
    """Milliseconds from publishing an event to foreachBatch having it, and those of a batch."""

    source: str
    milliseconds: list[float]
    batch_ms: list[float]


class Bench:
    """Topics and files with the same rows, and one Spark session."""

    def __init__(self, spark: SparkSession, address: str, scratch: Path, rows: int) -> None:
        self.spark, self.address, self.scratch, self.rows = spark, address, scratch, rows

    def fill(self) -> None:
        """Write the rows, into topics and from there into files."""
        for partitions in (1, 2):
            fill(self.address, f"rows-{partitions}", partitions, self.rows)
        table = self.ours(1)().drop("headers", "timestampType")
        text = table.withColumns({name: F.col(name).cast("string") for name in ("key", "value")})
        for partitions in (1, 2):
            table.repartition(BATCHES * partitions).write.parquet(self._files(PARQUET, partitions))
            text.repartition(BATCHES * partitions).write.json(self._files(JSON, partitions))

    def ours(self, partitions: int, *, stream: bool = False) -> Read:
        """Read a topic with our source."""
        reader = self.spark.readStream if stream else self.spark.read
        made = reader.format("mainstem").option("address", self.address)
        made = made.option("maxRowsPerTrigger", self.rows // BATCHES)
        return lambda: made.load(f"rows-{partitions}")

    def theirs(self, partitions: int, *, stream: bool = False) -> Read:
        """Read a topic with Spark's own."""
        reader = self.spark.readStream if stream else self.spark.read
        made = reader.format("kafka").option("kafka.bootstrap.servers", self.address)
        made = made.option("subscribe", f"rows-{partitions}").option("startingOffsets", "earliest")
        if stream:
            made = made.option("maxOffsetsPerTrigger", self.rows // BATCHES)
        return made.load

    def files(self, kind: str, partitions: int, *, stream: bool = False) -> Read:
        """Read files, a quarter of them in each batch of a stream."""
        form = "parquet" if kind == PARQUET else "json"
        where = self._files(kind, partitions)
        columns = "key string, value string, topic string, partition int, offset bigint, "
        columns += "timestamp timestamp"
        schema = self.spark.read.parquet(where).schema if kind == PARQUET else columns
        if stream:
            made = self.spark.readStream.schema(schema).option("maxFilesPerTrigger", partitions)
            return lambda: made.format(form).load(where)
        return lambda: self.spark.read.schema(schema).format(form).load(where)

    def _files(self, kind: str, partitions: int) -> str:
        return str(self.scratch / f"{kind.partition(' ')[0].lower()}-{partitions}")

    def cases(self, *, stream: bool) -> Iterator[tuple[str, int, Read]]:
        """Every source with one and two partitions."""
        for partitions in (1, 2):
            yield OURS, partitions, self.ours(partitions, stream=stream)
            if JARS:
                yield THEIRS, partitions, self.theirs(partitions, stream=stream)
            for kind in (PARQUET, JSON):
                yield kind, partitions, self.files(kind, partitions, stream=stream)

    def compare(self, rounds: int) -> list[Figure]:
        """Let the sources take turns."""
        figures = []
        for stream in (False, True):
            cases = list(self.cases(stream=stream))
            kind = "stream" if stream else "batch"
            found = [Figure(name, n, kind, self.rows, [], []) for name, n, _ in cases]
            for number in range(rounds + 1):
                for figure, (_, _, read) in zip(found, cases, strict=True):
                    before_s = cpu_s()
                    seconds = self._stream(read()) if stream else _batch(read())
                    taken_s = cpu_s() - before_s
                    if number:
                        figure.seconds.append(seconds)
                        figure.cpu_s.append(taken_s)
                    words = f"{kind} {figure.source} {figure.partitions}"
                    say(f"{words}: {seconds:.2f} s, {taken_s:.2f} s of processors")
            figures += found
        return figures

    def _stream(self, frame: DataFrame) -> float:
        """Return the seconds of all batches but the first, for as many rows as all have."""
        with self._checkpoint() as checkpoint:
            writer = hashed(frame).writeStream.format("noop").trigger(availableNow=True)
            query = writer.option("checkpointLocation", checkpoint).start()
            query.awaitTermination()
            batches = [each for each in query.recentProgress if each.numInputRows]
        taken = sum(each.durationMs["triggerExecution"] for each in batches[1:]) / 1000
        return taken * self.rows / sum(each.numInputRows for each in batches[1:])

    @contextmanager
    def _checkpoint(self) -> Iterator[str]:
        path = tempfile.mkdtemp(dir=self.scratch)
        yield path
        shutil.rmtree(path)

    def delay(self, source: str, seconds: float) -> Delay:
        """Publish an event every now and then and see when it arrives."""
        topic = f"delay-{source.partition(' ')[0]}"
        fill(self.address, topic, 1, 1)
        options = {"address": self.address, "subscribe": topic}
        if source == THEIRS:
            options["kafka.bootstrap.servers"] = options.pop("address")
        form = "mainstem" if source == OURS else "kafka"
        frame = self.spark.readStream.format(form).options(**options, startingOffsets="latest")
        found: list[float] = []

        def take(rows: DataFrame, _: int) -> None:
            sent = [float(row.value) for row in rows.selectExpr("cast(value as string)").collect()]
            now = time.time()
            found.extend((now - each) * 1000 for each in sent)

        with self._checkpoint() as checkpoint:
            writer = frame.load().writeStream.foreachBatch(take)
            query = writer.option("checkpointLocation", checkpoint).start()
            publish(self.address, topic, seconds)
            query.processAllAvailable()
            batches = [each for each in query.recentProgress if each.numInputRows]
            query.stop()
        # Those before the query was under way waited for it.
        warm = found[len(found) // 3 :]
        return Delay(source, warm, [float(each.batchDuration) for each in batches[3:]])


def hashed(frame: DataFrame) -> DataFrame:
    """Touch every row, and keep nothing."""
    return frame.select(F.xxhash64("key", "value", "offset").alias("hash"), "timestamp")


def _batch(frame: DataFrame) -> float:
    began = time.perf_counter()
    hashed(frame).write.format("noop").mode("overwrite").save()
    return time.perf_counter() - began


def cpu_s() -> float:
    """Return the processor seconds of this process and all that it started, ended ones too."""
    stats = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        stats[int(path.parent.name)] = (int(fields[1]), sum(map(int, fields[11:15])))
    ours = {os.getpid()}
    while more := {pid for pid, (parent, _) in stats.items() if parent in ours} - ours:
        ours |= more
    return sum(stats[pid][1] for pid in ours) / os.sysconf("SC_CLK_TCK")


def fill(address: str, topic: str, partitions: int, rows: int) -> None:
    """Make a topic of so many rows, in batches of the size that busy producers send."""
    from confluent_kafka.admin import AdminClient, NewTopic  # noqa: PLC0415

    admin = AdminClient({"bootstrap.servers": address})
    new = NewTopic(topic, partitions, 1, config={"mainstem.durability": "disk"})
    admin.create_topics([new])[topic].result(30)
    producer = Producer(
        {"bootstrap.servers": address, "linger.ms": 50, "queue.buffering.max.messages": 2_000_000}
    )
    for number in range(rows):
        value = f"{number:0{VALUE_BYTES}}"
        producer.produce(topic, value, f"{number % 1000:08}", number % partitions)
        if not number % 10_000:
            producer.poll(0)
    producer.flush(60)


def publish(address: str, topic: str, seconds: float) -> None:
    """Publish the time, again and again."""
    producer = Producer({"bootstrap.servers": address, "linger.ms": 0})
    stop = threading.Event()
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        producer.produce(topic, str(time.time()))
        producer.poll(0)
        stop.wait(EVERY_S)
    producer.flush(30)


def page(figures: list[Figure], delays: list[Delay], rounds: int) -> str:
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
        ]
        for each in delays
    ]
    return f"""# Benchmarks of Spark

    python -m bench.spark

writes this page. Machine: {machine()}.
{figures[0].rows:,} rows of {VALUE_BYTES + 8} bytes, read by `local[2]` into a sink that keeps
nothing, after a hash of every row; server and Spark on the same machine. Median of {rounds} rounds
in which the sources took turns, after one to warm up; streams in batches of
{figures[0].rows // BATCHES:,} rows, without the first. On a shared machine read ratios, not rates.
Processor time is that of the JVM and its Python; in a stream it includes the start of the query,
which for our source is the start of two Python processes, about 2 s.
Aims: as quick as the connector or quicker, 500,000 rows/s for each core, p50 under 300 ms.

![Rows per second as shares of the connector's](spark.svg)

{table(["", "partitions", "source", "rows/s", "of the connector", "rows/s of CPU"], rows)}

From publishing an event to `foreachBatch` having it, one event every {EVERY_S * 1000:.0f} ms, and \
how long such a small batch takes:

{table(["source", "events", "p50, ms", "p99, ms", "batch, ms"], latency)}
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
    bars = [
        Bars(
            (kind, f"{partitions} partition{'s' if partitions > 1 else ''}"),
            [
                share(each, figures)
                for name in (OURS, PARQUET, JSON)
                for each in figures
                if (each.source, each.kind, each.partitions) == (name, kind, partitions)
            ],
        )
        for kind in ("batch", "stream")
        for partitions in (1, 2)
    ]
    return clusters(
        "Rows per second as shares of those of Spark's Kafka connector",
        [(OURS, "#2b6cb0"), (PARQUET, "#2f855a"), (JSON, "#b7791f")],
        bars,
        band=(0.95, 1.05),
        note="grey band: as quick as the connector",
    )


def say(words: str) -> None:
    """Tell what was just measured."""
    print(words, flush=True)


def main() -> None:
    """Measure, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--delay-seconds", type=float, default=30)
    given = parser.parse_args()
    scratch = Path(tempfile.mkdtemp(prefix="mainstem-bench-"))
    server = Mainstem(scratch / "served", "disk")
    server.start()
    conf = {"spark.jars": ",".join(map(str, JARS))} if JARS else {}
    spark = spark_session("local[2]", **conf)
    try:
        bench = Bench(spark, server.address, scratch, given.rows)
        bench.fill()
        figures = bench.compare(given.rounds)
        sources = [OURS, THEIRS] if JARS else [OURS]
        delays = [bench.delay(each, given.delay_seconds) for each in sources]
    finally:
        spark.stop()
        server.stop()
        shutil.rmtree(scratch, ignore_errors=True)
    kept = msgspec.to_builtins({"figures": figures, "delays": delays})
    PAGE.with_suffix(".json").write_text(json.dumps(kept, indent=1) + "\n")
    PAGE.write_text(page(figures, delays, given.rounds))
    if JARS:
        PAGE.with_suffix(".svg").write_text(chart(figures))
    say(PAGE.read_text())


if __name__ == "__main__":
    main()
