"""Counts the bad and late events of each batch, and writes the bad ones to the dead-letter topic.

How this works: Spark reports with each batch how many events were bad and the earliest event time
of the good ones (``planning/planner.py``). If some were bad, or if that time is not after the
watermark, the audit reads the batch once more, from the same offsets: it counts the late events,
and writes the bad ones to the dead-letter topic. Other batches are not read again. Batches that a
crash left uncounted are found in Spark's checkpoint, which has the offsets and the watermark of
each batch.

An event is late if its time is not after the watermark that its batch began with: Spark may drop
rows of such events. An aggregation still counts one whose window is open, so "late" means that the
result may depend on how events were divided into batches, not that something was lost.
"""

import json
from datetime import UTC, datetime
from pathlib import Path

import msgspec
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own custom

from mainstem.pipelines.bad_events.dead_letter_writer import DeadLetterWriter
from mainstem.pipelines.definitions.table import INFER, Source, Table
from mainstem.pipelines.planning.decoding import (
    BAD,
    DROPPED,
    EVENT,
    decoded,
    decoded_once,
    failed_expectation,
    with_skipped,
)
from mainstem.pipelines.planning.planner import observation
from mainstem.pipelines.spark.progress import Batch, Offsets, has_ended, topic_offsets
from mainstem.pipelines.spark.retry import with_retries
from mainstem.pipelines.state.table_state import StateDirectory, TableStatus


class BatchCounts(msgspec.Struct, frozen=True):
    """Numbers of bad and late events of a batch, and of those left out by ``on_fail="drop"``."""

    bad: int = 0
    late: int = 0
    left_out: int = 0
    expectations: dict[str, int] = {}


class Audit:
    """Counts the bad and late events in the batches of one table."""

    def __init__(
        self,
        spark: SparkSession,
        table: Table,
        address: str,
        mark: str,
        dead_topic: str,
        state_dir: StateDirectory,
    ) -> None:
        self._spark, self._address = spark, address
        self._table = table
        self._dead_letters = DeadLetterWriter(address, dead_topic, table.name, f"{mark}.dead")
        self._state_dir = state_dir

    def with_batch(self, status: TableStatus, batch: Batch) -> TableStatus:
        """Return ``status`` with the counts of ``batch`` added; writes its dead letters first."""
        found = BatchCounts()
        if any(self._needs_audit(batch, number) for number in range(len(self._table.sources))):
            found = self._count(batch.starts, batch.ends, batch.watermark_ms)
        return msgspec.structs.replace(
            status,
            batch=batch.number,
            events=status.events + batch.events,
            rows_per_second=batch.rows_per_second,
            watermark=_time(batch.watermark_ms),
            state_rows=batch.state_rows,
            state_bytes=batch.state_bytes,
            **_added(status, found),
            dropped_rows=status.dropped_rows + batch.dropped_rows,
            audited=batch.number,
            offsets=status.offsets | batch.ends,
            ended=status.ended or batch.ended,
        )

    def with_missed_batches(self, status: TableStatus) -> TableStatus:
        """Return ``status`` with the counts of finished batches that a crash left uncounted."""
        offsets, commits = (
            self._state_dir.checkpoint / "offsets",
            self._state_dir.checkpoint / "commits",
        )
        if not commits.is_dir():
            return status
        status = msgspec.structs.replace(status, ended=_last_batch_has_end(offsets))
        done = [int(file.name) for file in commits.iterdir() if file.name.isdigit()]
        for number in range(status.audited + 1, max(done, default=-1) + 1):
            before, entry = offsets / str(number - 1), offsets / str(number)
            if not entry.exists():
                continue
            starts = batch_entry(before.read_text())[1] if before.exists() else {}
            watermark_ms, ends = batch_entry(entry.read_text())
            found = self._count(starts, ends, watermark_ms)
            read = sum(
                offset - starts.get(topic, {}).get(partition, 0)
                for topic, places in ends.items()
                for partition, offset in places.items()
            )
            status = msgspec.structs.replace(
                status,
                batch=number,
                events=status.events + read,
                **_added(status, found),
                audited=number,
                offsets=status.offsets | ends,
            )
        return status

    def _needs_audit(self, batch: Batch, number: int) -> bool:
        seen = batch.sources.get(observation(number))
        if seen is None:
            return False
        late = seen.earliest_ms is not None and seen.earliest_ms <= batch.watermark_ms
        return seen.bad > 0 or late

    def _count(self, starts: Offsets, ends: Offsets, watermark_ms: int) -> BatchCounts:
        # Safe to repeat: dead letters are written once, in a transaction with their offsets.
        return with_retries(lambda: self._read_again(starts, ends, watermark_ms))

    def _read_again(self, starts: Offsets, ends: Offsets, watermark_ms: int) -> BatchCounts:
        bad = late = left_out = 0
        failed: dict[str, int] = {}
        for source in self._table.sources:
            if source.name not in ends:
                continue
            rows = decoded_once(
                decoded(self._events(source, starts, ends), self._with_schema(source))
            )
            rows = with_skipped(rows, self._state_dir.skipped_events().get(source.name, {}))
            if source.expectations:
                found = self._failed(rows, source)
                failed |= {each.name: found[each.name] for each in source.expectations}
                left_out += sum(
                    found[each.name] for each in source.expectations if each.on_fail == "drop"
                )
            if self._table.bad == "dead":
                wrong = rows.where(f"{BAD} is not null").where(~F.col(BAD).startswith(DROPPED))
                wrong = wrong.select(f"{EVENT}.*", BAD)
                bad += self._dead_letters.write(wrong, source.name, ends[source.name])
            if source.watermark and watermark_ms:
                at = F.unix_millis(F.col(f"`{source.watermark[0]}`"))
                late += rows.where(f"{BAD} is null").where(at <= watermark_ms).count()
        return BatchCounts(bad, late, left_out, failed)

    def _failed(self, rows: DataFrame, source: Source) -> dict[str, int]:
        """Return for each expectation of ``source``, by name, how many events did not meet it."""
        reasons = rows.where(f"{BAD} is not null").groupBy(BAD).count().collect()
        counts = {row[BAD]: row["count"] for row in reasons}
        return {each.name: counts.get(failed_expectation(each), 0) for each in source.expectations}

    def _events(self, source: Source, starts: Offsets, ends: Offsets) -> DataFrame:
        name = source.name
        options = {"address": self._address, "subscribe": name}
        if name in starts:
            options["startingOffsets"] = json.dumps({name: starts[name]})
        options["endingOffsets"] = json.dumps({name: ends[name]})
        return self._spark.read.format("mainstem").options(**options).load()

    def _with_schema(self, source: Source) -> Source:
        if source.schema != INFER:
            return source
        return msgspec.structs.replace(source, schema=self._state_dir.schemas()[source.name])


def _added(status: TableStatus, found: BatchCounts) -> dict[str, object]:
    """Return the values that the counters of ``status`` have after a batch, by field name."""
    names = status.expectations | found.expectations
    return {
        "bad": status.bad + found.bad,
        "late": status.late + found.late,
        "left_out": status.left_out + found.left_out,
        "expectations": {
            name: status.expectations.get(name, 0) + found.expectations.get(name, 0)
            for name in names
        },
    }


def batch_entry(text: str) -> tuple[int, Offsets]:
    """Return a batch's watermark in ms and its end offsets; ``text`` is its checkpoint file."""
    _, metadata, *sources = text.splitlines()
    offsets: Offsets = {}
    for line in sources:
        if line.startswith("{"):
            offsets |= topic_offsets(line)
    return json.loads(metadata)["batchWatermarkMs"], offsets


def _last_batch_has_end(offsets: Path) -> bool:
    """Return whether the last planned batch includes the end of input (``--complete``)."""
    newest = max((int(file.name) for file in offsets.iterdir() if file.name.isdigit()), default=-1)
    if newest < 0:
        return False
    lines = (offsets / str(newest)).read_text().splitlines()[2:]
    return any(line.startswith("{") and has_ended(line) for line in lines)


def _time(milliseconds: int) -> str | None:
    if not milliseconds:
        return None
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="milliseconds")
