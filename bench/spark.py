"""Measures format("mainstem") beside Spark's own Kafka connector and files, in one run.

    python -m bench.spark            ten minutes, 1 GB of disk; writes docs/benchmarks/spark.md

How this works: the same rows (1 million of 128 bytes by default) are in a topic of one partition,
in one of two, and in Parquet and JSON files. Every source reads all of them into Spark's sink that
keeps nothing, after a hash over key, value and offset; the sources take turns, round by round, and
the first two, in which the JVM warms up, are not counted. A ratio is the median over the rounds,
each against its neighbour. Of a stream the first batch is not counted, neither its time nor its
processor time: it has the start of the query in it. The connector is measured if its jars are in
.cache/spark-kafka, where .ci/run puts them.
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
from bench.kafka.systems import Mainstem
from bench.spark_page import (
    BATCHES,
    EVERY_S,
    JSON,
    OURS,
    PARQUET,
    THEIRS,
    VALUE_BYTES,
    Delay,
    Figure,
    chart,
    page,
)
from confluent_kafka import Producer
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it
from pyspark.sql.streaming.listener import StreamingQueryProgress
from pyspark.sql.streaming.query import StreamingQuery

from mainstem.pipelines.session import spark_session

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "benchmarks" / "spark.md"
JARS = sorted((ROOT / ".cache" / "spark-kafka").glob("*.jar"))
LOOK_S = 0.05
DELAY_ROUNDS = 3
WARM_UP = 2
"""Rounds in which the JVM compiles what it runs, for every source."""

Read = Callable[[], DataFrame]


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
            for number in range(-WARM_UP, rounds):
                for figure, (_, _, read) in zip(found, cases, strict=True):
                    seconds, taken_s = self._stream(read()) if stream else _batch(read())
                    if number >= 0:
                        figure.seconds.append(seconds)
                        figure.cpu_s.append(taken_s)
                    words = f"{kind} {figure.source} {figure.partitions}"
                    say(f"{words}: {seconds:.2f} s, {taken_s:.2f} s of processors")
            figures += found
        return figures

    def _stream(self, frame: DataFrame) -> tuple[float, float]:
        """Return the seconds of all batches but the first, for as many rows as all have."""
        with self._checkpoint() as checkpoint:
            writer = hashed(frame).writeStream.format("noop").trigger(availableNow=True)
            query = writer.option("checkpointLocation", checkpoint).start()
            while query.isActive and not _batches(query):
                time.sleep(LOOK_S)
            first, before_s = len(_batches(query)), cpu_s()
            query.awaitTermination()
            taken_s = cpu_s() - before_s
            batches = _batches(query)
        if first == len(batches):
            raise SystemExit("the stream was over before anybody saw it begin: give more --rows")
        seconds = sum(each.durationMs["triggerExecution"] for each in batches[1:]) / 1000
        return (
            seconds * self.rows / sum(each.numInputRows for each in batches[1:]),
            taken_s * self.rows / sum(each.numInputRows for each in batches[first:]),
        )

    @contextmanager
    def _checkpoint(self) -> Iterator[str]:
        path = tempfile.mkdtemp(dir=self.scratch)
        yield path
        shutil.rmtree(path)

    def delays(self, rounds: int, seconds: float) -> list[Delay]:
        """Let the sources take turns with events that come one by one."""
        found = [Delay(each, [], [], {}) for each in ((OURS, THEIRS) if JARS else (OURS,))]
        for number in range(rounds):
            for each in found:
                self._delay(each, f"delay-{each.source.partition(' ')[0]}-{number}", seconds)
                say(f"latency {each.source}: {statistics.median(each.milliseconds):.0f} ms")
        return found

    def _delay(self, measured: Delay, topic: str, seconds: float) -> None:
        """Publish an event every now and then and see when it arrives."""
        fill(self.address, topic, 1, 1)
        found: list[float] = []
        with self._checkpoint() as checkpoint:
            query = follow(self.spark, measured.source, self.address, topic, checkpoint, found)
            publish(self.address, topic, seconds)
            query.processAllAvailable()
            batches = _batches(query)
            query.stop()
        # Those before the query was under way waited for it.
        measured.milliseconds += found[len(found) // 3 :]
        for each in batches[len(batches) // 3 :]:
            measured.batch_ms.append(float(each.batchDuration))
            for name, taken in each.durationMs.items():
                measured.parts_ms.setdefault(name, []).append(float(taken))


def follow(
    spark: SparkSession, source: str, address: str, topic: str, checkpoint: str, found: list[float]
) -> StreamingQuery:
    """Stream a topic from its end on; add to ``found`` how old events are, in milliseconds."""
    ours = source == OURS
    options = {"subscribe": topic, "startingOffsets": "latest"}
    options["address" if ours else "kafka.bootstrap.servers"] = address
    frame = spark.readStream.format("mainstem" if ours else "kafka").options(**options)

    def take(rows: DataFrame, _: int) -> None:
        sent = [float(row.value) for row in rows.selectExpr("cast(value as string)").collect()]
        now = time.time()
        found.extend((now - each) * 1000 for each in sent)

    writer = frame.load().writeStream.foreachBatch(take)
    return writer.option("checkpointLocation", checkpoint).start()


def hashed(frame: DataFrame) -> DataFrame:
    """Touch every row, and keep nothing."""
    return frame.select(F.xxhash64("key", "value", "offset").alias("hash"), "timestamp")


def _batch(frame: DataFrame) -> tuple[float, float]:
    began, before_s = time.perf_counter(), cpu_s()
    hashed(frame).write.format("noop").mode("overwrite").save()
    return time.perf_counter() - began, cpu_s() - before_s


def _batches(query: StreamingQuery) -> list[StreamingQueryProgress]:
    return [each for each in query.recentProgress if each.numInputRows]


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


def say(words: str) -> None:
    """Tell what was just measured."""
    print(words, flush=True)


def main() -> None:
    """Measure, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--delay-seconds", type=float, default=20)
    given = parser.parse_args()
    scratch = Path(tempfile.mkdtemp(prefix="mainstem-bench-"))
    system = Mainstem(scratch / "served", "disk")
    system.start()
    conf = {"spark.jars": ",".join(map(str, JARS))} if JARS else {}
    spark = spark_session("local[2]", **conf)
    try:
        bench = Bench(spark, system.server.address, scratch, given.rows)
        bench.fill()
        figures = bench.compare(given.rounds)
        delays = bench.delays(DELAY_ROUNDS, given.delay_seconds)
    finally:
        spark.stop()
        system.stop()
        shutil.rmtree(scratch, ignore_errors=True)
    kept = msgspec.to_builtins({"figures": figures, "delays": delays})
    PAGE.with_suffix(".json").write_text(json.dumps(kept, indent=1) + "\n")
    PAGE.write_text(page(figures, delays, given.rounds, DELAY_ROUNDS))
    if JARS:
        PAGE.with_suffix(".svg").write_text(chart(figures))
    say(PAGE.read_text())


if __name__ == "__main__":
    main()
