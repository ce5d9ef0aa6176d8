"""One session: both sources in turn, measured on both sides.

    python -m bench.spark_batch.measuring TURNS SECONDS FILE

writes what it measured to a file. It is a process of its own, so that its Python can be an earlier
version's.
"""

import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

import msgspec
from bench.kafka.systems import Mainstem
from bench.spark import JARS, fill, follow, publish
from bench.spark_batch import events, spans
from bench.spark_batch.source import TimedSource
from bench.spark_page import OURS, THEIRS
from pyspark.sql import SparkSession

from mainstem.pipelines.format.registration import register_source
from mainstem.pipelines.session import spark_session

WARM_UP_S = 8.0
SETTLING = 1 / 3
"""The part of a stream's batches in which it still gets under way."""


class Stream(msgspec.Struct):
    """What was measured of one source; in milliseconds, a list has one entry per event or batch."""

    source: str
    latency: list[float] = []
    batches: list[dict[str, float]] = []
    python: list[spans.Spans] = []


class Session(msgspec.Struct):
    """What was measured in one session."""

    load: float
    streams: list[Stream]


class _Query(msgspec.Struct):
    measured: Stream
    run_id: str
    batches: dict[int, dict[str, float]]
    began: float
    ended: float


class Bench:
    """A session, and where it keeps what it writes."""

    def __init__(self, spark: SparkSession, address: str, scratch: Path) -> None:
        self._spark, self._address, self._scratch = spark, address, scratch
        self._queries: list[_Query] = []

    def turn(self, measured: Stream, topic: str, seconds: float) -> None:
        """Publish events for some seconds, and see how they arrive."""
        fill(self._address, topic, 1, 1)
        found: list[float] = []
        checkpoint = str(self._scratch / topic)
        query = follow(self._spark, measured.source, self._address, topic, checkpoint, found)
        began = time.time()
        publish(self._address, topic, seconds)
        query.processAllAvailable()
        ended = time.time()
        batches = [each for each in query.recentProgress if each.numInputRows]
        query.stop()
        measured.latency += found[int(len(found) * SETTLING) :]
        parts = {
            each.batchId: {name: float(taken) for name, taken in each.durationMs.items()}
            for each in batches[int(len(batches) * SETTLING) :]
        }
        measured.batches += parts.values()
        began += (ended - began) * SETTLING
        self._queries.append(_Query(measured, str(query.runId), parts, began, ended))

    def add_jobs(self, jobs: list[events.Job]) -> None:
        """Add to each batch the parts of its job."""
        queries = {each.run_id: each for each in self._queries}
        for job in jobs:
            query = queries.get(job.run_id)
            if query is not None and job.batch in query.batches:
                query.batches[job.batch] |= job.parts()

    def add_spans(self, found: list[spans.Spans]) -> None:
        """Add what the Python processes measured meanwhile."""
        for each in self._queries:
            if each.measured.source == OURS:
                each.measured.python += [
                    one for one in found if each.began <= one.began <= each.ended
                ]


def main() -> None:
    """Measure, and write it down."""
    turns, seconds, file = int(sys.argv[1]), float(sys.argv[2]), Path(sys.argv[3])
    scratch = Path(tempfile.mkdtemp(prefix="mainstem-bench-"))
    logs, kept = scratch / "events", scratch / "spans"
    logs.mkdir()
    kept.mkdir()
    os.environ[spans.DIRECTORY] = str(kept)
    load = os.getloadavg()[0]
    system = Mainstem(scratch / "served", "disk")
    system.start()
    conf = {
        "spark.python.daemon.module": "bench.spark_batch.daemon",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": logs.as_uri(),
        "spark.eventLog.compress": "false",
        "spark.eventLog.rolling.enabled": "false",
        "spark.jars": ",".join(map(str, JARS)),
    }
    spark = spark_session("local[2]", **conf)
    streams = [Stream(each) for each in (OURS, THEIRS)]
    bench = Bench(spark, system.server.address, scratch)
    try:
        register_source(spark, TimedSource)
        for each in streams:
            bench.turn(Stream(each.source), f"warm-{each.source.partition(' ')[0]}", WARM_UP_S)
        for number in range(turns):
            for each in streams:
                bench.turn(each, f"{each.source.partition(' ')[0]}-{number}", seconds)
    finally:
        spark.stop()
        system.stop()
    bench.add_jobs(events.jobs(logs))
    bench.add_spans(spans.spans_of(kept))
    shutil.rmtree(scratch, ignore_errors=True)
    file.write_bytes(msgspec.json.encode(Session(max(load, os.getloadavg()[0]), streams)))


if __name__ == "__main__":
    main()
