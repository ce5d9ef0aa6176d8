"""Counts what a batch could not use: bad events, kept as dead letters, and late ones.

How this works: Spark reports with each batch how many events were bad and the earliest event time
of the good ones (``planning/planner.py``). Only if some were bad, or if that time is not after the
watermark, the batch is read once more, from the same offsets: late events are counted, bad ones
are written to the dead letters. Batches that a crash left uncounted are found in the checkpoint,
which has the offsets and the watermark of each batch.

An event is late if its time is not after the watermark that its batch began with; that is where
Spark begins to drop. An aggregation may still use it, if its window is open: so "late" says that
the result may depend on how events were cut into batches, not that something was lost.
"""

import json
from datetime import UTC, datetime
from pathlib import Path

import msgspec
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own custom

from mainstem.pipelines.bad_events.dead_letters import Burial
from mainstem.pipelines.definitions.table import INFER, Source, Table
from mainstem.pipelines.planning.decoding import BAD, EVENT, decoded, decoded_once, with_skipped
from mainstem.pipelines.planning.planner import observation
from mainstem.pipelines.spark.progress import Batch, Offsets, has_ended, topic_offsets
from mainstem.pipelines.spark.retry import patiently
from mainstem.pipelines.state.table_state import Place, Standing


class Found(msgspec.Struct, frozen=True):
    """What was wrong with the events of a batch."""

    bad: int = 0
    late: int = 0


class Audit:
    """Looks again at the batches of one table that need it."""

    def __init__(
        self,
        spark: SparkSession,
        table: Table,
        address: str,
        mark: str,
        dead_topic: str,
        place: Place,
    ) -> None:
        self._spark = spark
        self._table = table
        self._address = address
        self._burial = Burial(address, dead_topic, table.name, f"{mark}.dead")
        self._place = place

    def counted(self, standing: Standing, batch: Batch) -> Standing:
        """Return the standing with a batch added; its bad events are buried by then."""
        found = Found()
        if any(self._suspicious(batch, number) for number in range(len(self._table.sources))):
            found = self._looked_at(batch.starts, batch.ends, batch.watermark_ms)
        return msgspec.structs.replace(
            standing,
            batch=batch.number,
            events=standing.events + batch.events,
            rows_per_second=batch.rows_per_second,
            watermark=_time(batch.watermark_ms),
            state_rows=batch.state_rows,
            state_bytes=batch.state_bytes,
            bad=standing.bad + found.bad,
            late=standing.late + found.late,
            dropped_rows=standing.dropped_rows + batch.dropped_rows,
            audited=batch.number,
            offsets=standing.offsets | batch.ends,
            ended=standing.ended or batch.ended,
        )

    def recovered(self, standing: Standing) -> Standing:
        """Return the standing with those batches added that a crash left uncounted."""
        offsets, commits = self._place.checkpoint / "offsets", self._place.checkpoint / "commits"
        if not commits.is_dir():
            return standing
        standing = msgspec.structs.replace(standing, ended=_has_ended(offsets))
        done = [int(file.name) for file in commits.iterdir() if file.name.isdigit()]
        for number in range(standing.audited + 1, max(done, default=-1) + 1):
            before, entry = offsets / str(number - 1), offsets / str(number)
            if not entry.exists():
                continue
            starts = batch_entry(before.read_text())[1] if before.exists() else {}
            watermark_ms, ends = batch_entry(entry.read_text())
            found = self._looked_at(starts, ends, watermark_ms)
            read = sum(
                offset - starts.get(topic, {}).get(partition, 0)
                for topic, places in ends.items()
                for partition, offset in places.items()
            )
            standing = msgspec.structs.replace(
                standing,
                batch=number,
                events=standing.events + read,
                bad=standing.bad + found.bad,
                late=standing.late + found.late,
                audited=number,
                offsets=standing.offsets | ends,
            )
        return standing

    def _suspicious(self, batch: Batch, number: int) -> bool:
        seen = batch.seen.get(observation(number))
        if seen is None:
            return False
        late = seen.earliest_ms is not None and seen.earliest_ms <= batch.watermark_ms
        return seen.bad > 0 or late

    def _looked_at(self, starts: Offsets, ends: Offsets, watermark_ms: int) -> Found:
        # Whatever was buried before it failed is known to be buried.
        return patiently(lambda: self._look(starts, ends, watermark_ms))

    def _look(self, starts: Offsets, ends: Offsets, watermark_ms: int) -> Found:
        bad = late = 0
        for source in self._table.sources:
            if source.name not in ends:
                continue
            rows = decoded_once(decoded(self._events(source, starts, ends), self._known(source)))
            rows = with_skipped(rows, self._place.skips().get(source.name, {}))
            if self._table.bad == "dead":
                wrong = rows.where(f"{BAD} is not null").select(f"{EVENT}.*", BAD)
                bad += self._burial.bury(wrong, source.name, ends[source.name])
            if source.watermark and watermark_ms:
                at = F.unix_millis(F.col(f"`{source.watermark[0]}`"))
                late += rows.where(f"{BAD} is null").where(at <= watermark_ms).count()
        return Found(bad, late)

    def _events(self, source: Source, starts: Offsets, ends: Offsets) -> DataFrame:
        name = source.name
        options = {"address": self._address, "subscribe": name}
        if name in starts:
            options["startingOffsets"] = json.dumps({name: starts[name]})
        options["endingOffsets"] = json.dumps({name: ends[name]})
        return self._spark.read.format("mainstem").options(**options).load()

    def _known(self, source: Source) -> Source:
        if source.schema != INFER:
            return source
        return msgspec.structs.replace(source, schema=self._place.schemas()[source.name])


def batch_entry(text: str) -> tuple[int, Offsets]:
    """Return the watermark and the offsets that Spark wrote down for a batch."""
    _, metadata, *sources = text.splitlines()
    offsets: Offsets = {}
    for line in sources:
        if line.startswith("{"):
            offsets |= topic_offsets(line)
    return json.loads(metadata)["batchWatermarkMs"], offsets


def _has_ended(offsets: Path) -> bool:
    """Tell whether the last batch that was planned had the end of the input."""
    newest = max((int(file.name) for file in offsets.iterdir() if file.name.isdigit()), default=-1)
    if newest < 0:
        return False
    lines = (offsets / str(newest)).read_text().splitlines()[2:]
    return any(line.startswith("{") and has_ended(line) for line in lines)


def _time(milliseconds: int) -> str | None:
    if not milliseconds:
        return None
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="milliseconds")
