"""Parses Spark's progress report of a batch."""

import json
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import msgspec
from pyspark.sql.streaming.listener import StreamingQueryProgress

Json = dict[str, Any]
"""A JSON object."""
Offsets = dict[str, dict[str, int]]
"""The next event to read, by topic and partition."""


class SourceCounts(msgspec.Struct, frozen=True):
    """The counts of one source in a batch, which Spark observed."""

    events: int
    bad: int = 0
    earliest_ms: int | None = None
    changes: int = 0
    """Number of database changes, without rows of a snapshot."""
    committed_ms: tuple[int, ...] = ()
    """Commit times of these changes, each standing for an equal part of them."""


class Batch(msgspec.Struct, frozen=True):
    """A finished batch, from Spark's progress report."""

    number: int
    sources: dict[str, SourceCounts]
    """Counts by the name of the source's observation (``planner.observation``)."""
    starts: Offsets
    ends: Offsets
    watermark_ms: int
    """The watermark, in ms, that the batch used; 0 if there was none yet."""
    rows_per_second: float
    duration_ms: int
    stored_ms: int
    """When the sink had the batch; never too early."""
    state_rows: int
    state_bytes: int
    dropped_rows: int
    ended: bool = False
    """Whether at least one source reached the declared end of its input."""

    @property
    def events(self) -> int:
        """Number of events read from all sources."""
        return sum(each.events for each in self.sources.values())


def batch_of(progress: StreamingQueryProgress) -> Batch | None:
    """Return the batch that a progress report describes; None for a trigger without a batch."""
    report = json.loads(progress.json)
    if "addBatch" not in report["durationMs"]:
        return None
    starts: Offsets = {}
    ends: Offsets = {}
    for source in report["sources"]:
        starts |= topic_offsets(source.get("startOffset"))
        ends |= topic_offsets(source.get("endOffset"))
    states = report["stateOperators"]
    took = report["durationMs"]
    return Batch(
        number=report["batchId"],
        sources={
            name: SourceCounts(
                each["events"],
                each.get("bad", 0),
                each.get("earliest_ms"),
                each.get("changes", 0),
                tuple(each.get("committed_ms") or ()),
            )
            for name, each in _observed(report.get("observedMetrics", {}))
            if "events" in each
        },
        starts=starts,
        ends=ends,
        watermark_ms=_milliseconds(report.get("eventTime", {}).get("watermark")),
        rows_per_second=report.get("processedRowsPerSecond") or 0.0,
        duration_ms=took.get("triggerExecution", 0),
        # What follows is only the commit of the checkpoint.
        stored_ms=_milliseconds(report["timestamp"])
        + took.get("triggerExecution", 0)
        - took.get("commitOffsets", 0),
        state_rows=sum(each["numRowsTotal"] for each in states),
        state_bytes=sum(each["memoryUsedBytes"] for each in states),
        dropped_rows=sum(each["numRowsDroppedByWatermark"] for each in states),
        ended=any(has_ended(source.get("endOffset")) for source in report["sources"]),
    )


def has_ended(document: object) -> bool:
    """Return whether a source's offset says that the declared end of the input was read."""
    if isinstance(document, str):
        document = json.loads(document)
    return isinstance(document, dict) and bool(document.get("ended"))


def _observed(metrics: dict[str, Json]) -> Iterator[tuple[str, Json]]:
    """Yield observed metrics by name; Spark Connect reports names and values separately."""
    for name, each in metrics.items():
        if "schema" in each:
            names = [field["name"] for field in each["schema"]["fields"]]
            yield name, dict(zip(names, each["values"], strict=True))
        else:
            yield name, each


def topic_offsets(document: object) -> Offsets:
    """Return topic → partition → offset from a source's offset; empty if it is no topic's."""
    if isinstance(document, str):
        document = json.loads(document)
    if isinstance(document, dict) and isinstance(document.get("offsets"), dict):
        return {topic: dict(places) for topic, places in document["offsets"].items()}
    return {}


def _milliseconds(text: str | None) -> int:
    return round(datetime.fromisoformat(text).timestamp() * 1000) if text else 0
