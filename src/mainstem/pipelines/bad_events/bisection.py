"""Finds the events on which a table's query fails, by bisecting the range of the failed batch.

How this works: the checkpoint has the offsets of the failed batch. The search runs the query over
them as a bounded read into Spark's ``noop`` sink. If that fails too, it runs the query over each
half of the range, and so on, until it has the single events that fail alone. The search is given
up, and only the range reported, where rows depend on several events (state, joins), as an event
that fails alone proves nothing there, and if an error does not come from the query but from the
source, a dead worker or a full disk.

The events found are stored beside the checkpoint (``StateDirectory.skipped_events``). From then on
they count as bad events, like those that cannot be decoded: the batch is run again without them,
and the audit after it writes each of them to the dead-letter topic, once.
"""

import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, is_remote
from pyspark.sql import functions as F  # noqa: N812 - Spark's own custom

from mainstem.core.errors import MainstemError
from mainstem.pipelines.bad_events.audit import batch_entry
from mainstem.pipelines.definitions.table import Table
from mainstem.pipelines.planning.planner import Planner
from mainstem.pipelines.sinks.port import Sink
from mainstem.pipelines.sinks.topic import TopicSink
from mainstem.pipelines.spark.error_messages import CRASHED, cause_of
from mainstem.pipelines.spark.retry import is_transient, with_retries
from mainstem.pipelines.state.table_state import StateDirectory
from mainstem.remote.arrow.range import Range

MOST_EVENTS = 100
"""Maximum number of skipped events per batch; if more events fail, the table stops."""
LONGEST_S = 600.0
_ALL = 10
"""If all events of a batch fail, and they are at least this many, the query is at fault."""
_ROW_BY_ROW = frozenset(
    [
        "Project",
        "Filter",
        "SubqueryAlias",
        "CollectMetrics",
        "EventTimeWatermark",
        "View",
        "Generate",
        "MapInPandas",
        "MapInArrow",
        "PythonMapInArrow",
        "Repartition",
        "RepartitionByExpression",
        "StreamingRelationV2",
    ]
)
"""Operators of Spark's plans that make each row from a single event."""
_NOT_AN_EVENT = (
    # Our source and topic sink, as their files appear in Python stack traces.
    "mainstem/pipelines/format/",
    "DATA_SOURCE_",
    CRASHED,
    "MemoryError",
    "No space left on device",
    "Disk quota exceeded",
    "Too many open files",
    "ExecutorLostFailure",
    "SPARK_JOB_CANCELLED",
    "SparkContext was shut down",
)
"""Texts in error messages that show that no event caused the error."""
_NODE = re.compile(r"^[\s:+|~-]*(\w+)")
_SPARKS = re.compile(r"^\[[A-Z_.]+\] | SQLSTATE: \w+$")


class FailingEvent(msgspec.Struct, frozen=True):
    """An event for which the query fails, or whose row has no value in the sink's key."""

    topic: str
    partition: int
    offset: int
    reason: str

    @property
    def event(self) -> str:
        """Topic, partition and offset of the event, as text for a message."""
        return f"topic {self.topic}, partition {self.partition}, offset {self.offset}"

    def __str__(self) -> str:
        return f"{self.reason} ({self.event})"


class EventsNotFound(MainstemError):
    """Raised when the search fails; ``first`` is one failing event, None if none was found."""

    def __init__(self, why: str, first: FailingEvent | None = None) -> None:
        super().__init__(f"{why}, the first as {first}" if first else why)
        self.first = first


def may_be_caused_by_event(failure: str) -> bool:
    """Return whether the cause of an error may be an event, rather than source, sink or cluster."""
    text = failure.split("=== Streaming Query", maxsplit=1)[0]
    return not is_transient(text) and not any(each in text for each in _NOT_AN_EVENT)


def failed_range(planner: Planner, table: Table, state_dir: StateDirectory) -> list[Range]:
    """Return the offset ranges of the unfinished batch; empty if every batch is finished.

    Raises MainstemError if the broker does not say at which offsets the first batch begins.
    """
    offsets, commits = state_dir.checkpoint / "offsets", state_dir.checkpoint / "commits"
    numbers = [int(file.name) for file in offsets.glob("*") if file.name.isdigit()]
    newest = max(numbers, default=-1)
    if newest < 0 or (commits / str(newest)).exists():
        return []
    _, ends = batch_entry((offsets / str(newest)).read_text())
    before = offsets / str(newest - 1)
    starts = batch_entry(before.read_text())[1] if before.exists() else planner.starts(table)
    found = [
        Range(topic, int(number), starts.get(topic, {}).get(number, 0), end)
        for topic, places in ends.items()
        for number, end in places.items()
    ]
    return [each for each in found if each.end > each.start]


def describe_ranges(ranges: list[Range]) -> str:
    """Return offset ranges as text for a message."""
    return "; ".join(
        f"topic {each.topic}, partition {each.partition}, offsets {each.start} to {each.end - 1}"
        for each in ranges
    )


class FailingEventSearch:
    """Searches one failed batch for the events on which the query fails."""

    def __init__(
        self,
        planner: Planner,
        table: Table,
        state_dir: StateDirectory,
        file: Path,
        stop: threading.Event,
    ) -> None:
        self._planner, self._table = planner, table
        self._state_dir = state_dir
        self._file = file
        self._stop = stop
        self._until = time.monotonic() + LONGEST_S

    def find(self, frame: DataFrame, ranges: list[Range]) -> list[FailingEvent]:
        """Return the events of ``ranges`` that fail alone; raises EventsNotFound.

        With ``bad="stop"``, return only the first such event.
        """
        if len(self._table.sources) > 1 or self._planner.reads_table(self._table):
            raise EventsNotFound("it reads several sources, or a table")
        if is_remote():
            raise EventsNotFound("over Spark Connect failing events are not searched for")
        if not _is_row_by_row(frame):
            raise EventsNotFound("its rows depend on several events")
        good = self._good(ranges)
        reason = self._fails(ranges)
        if reason is None:
            raise EventsNotFound("the query succeeds, so the sink fails")
        most = MOST_EVENTS - self._skipped(ranges)
        found: list[FailingEvent] = []
        for each in self._found(ranges, reason):
            found.append(each)
            if self._table.bad == "stop":
                return found
            if len(found) > most:
                raise EventsNotFound(f"more than {MOST_EVENTS} events fail", found[0])
        if len(found) >= _ALL and len(found) == good:
            raise EventsNotFound(f"all {good} events fail", found[0])
        return found

    def _skipped(self, ranges: list[Range]) -> int:
        """Return how many events of ``ranges`` an earlier search has marked to be skipped."""
        skips = self._state_dir.skipped_events()
        return sum(
            each.start <= int(offset) < each.end
            for each in ranges
            for offset in skips.get(each.topic, {}).get(str(each.partition), {})
        )

    def _found(self, ranges: list[Range], reason: str | None) -> Iterator[FailingEvent]:
        """Yield the failing events of ``ranges``.

        ``reason`` is the error with which the query failed on them, None if it was not run on
        exactly these ranges.
        """
        if _size(ranges) == 1:
            reason = reason or self._fails(ranges)
            if reason is None:
                raise EventsNotFound("no event fails alone")
            yield FailingEvent(ranges[0].topic, ranges[0].partition, ranges[0].start, reason)
            return
        first, second = _halves(ranges)
        why = self._fails(first)
        if why is None:
            yield from self._found(second, None)
            return
        yield from self._found(first, why)
        why = self._fails(second)
        if why is not None:
            yield from self._found(second, why)

    def _fails(self, ranges: list[Range]) -> str | None:
        """Run the query on ``ranges``; return its error as text, None if it succeeds."""
        if self._stop.is_set():
            raise EventsNotFound("the run was stopped before the events were found")
        if time.monotonic() > self._until:
            raise EventsNotFound(f"the events were not found within {LONGEST_S:.0f} s")
        try:
            with_retries(lambda: self._run(ranges))
        except PySparkException as error:
            cause = cause_of(error, self._file)
            if not may_be_caused_by_event(str(error)):
                raise EventsNotFound(f"the search failed: {cause}") from error
            return _SPARKS.sub("", cause)
        except Exception as error:
            # Any other error, in Spark or in py4j, says nothing about the events.
            raise EventsNotFound(f"the search failed: {cause_of(error, self._file)}") from error
        return None

    def _run(self, ranges: list[Range]) -> None:
        rows = self._planner.bounded(self._table, self._state_dir, ranges)
        _checked_keys(rows, self._table.sink).write.format("noop").mode("overwrite").save()

    def _good(self, ranges: list[Range]) -> int:
        """Return how many events in ``ranges`` are not bad; raises EventsNotFound."""
        try:
            return with_retries(
                lambda: self._planner.decoded_range(self._table, self._state_dir, ranges).count()
            )
        except Exception as error:
            # As in ``_fails``: any error, of Spark or py4j.
            cause = cause_of(error, self._file)
            raise EventsNotFound(f"its events cannot be read: {cause}") from error


def save_skipped_events(
    state_dir: StateDirectory, found: list[FailingEvent], behind: dict[str, dict[str, int]]
) -> None:
    """Add ``found`` to the stored list of events to skip.

    Listed events before the offsets ``behind`` (topic → partition → offset) are removed from the
    list, as their batches are finished and their dead letters written.
    """
    skips: dict[str, dict[str, dict[str, str]]] = {}
    for topic, partitions in state_dir.skipped_events().items():
        for number, events in partitions.items():
            least = behind.get(topic, {}).get(number, 0)
            left = {offset: why for offset, why in events.items() if int(offset) >= least}
            if left:
                skips.setdefault(topic, {})[number] = left
    for each in found:
        partition = skips.setdefault(each.topic, {}).setdefault(str(each.partition), {})
        partition[str(each.offset)] = each.reason
    state_dir.save_skipped_events(skips)


def _is_row_by_row(frame: DataFrame) -> bool:
    plan: str = frame._jdf.queryExecution().analyzed().toString()
    nodes = [_NODE.match(line) for line in plan.splitlines() if line.strip()]
    return all(each is not None and each[1] in _ROW_BY_ROW for each in nodes)


def _checked_keys(rows: DataFrame, sink: Sink) -> DataFrame:
    """Return the rows, so that reading them fails if a key column is null, as the sink would."""
    if isinstance(sink, TopicSink):
        return rows
    for name in sink.key:
        missing = F.raise_error(f"no value in the key column {name!r}").cast("string")
        check = F.when(F.col(f"`{name}`").isNull(), missing)
        rows = rows.withColumn(f"__{name}", check)
    return rows


def _size(ranges: list[Range]) -> int:
    return sum(each.end - each.start for each in ranges)


def _halves(ranges: list[Range]) -> tuple[list[Range], list[Range]]:
    wanted = _size(ranges) // 2
    first: list[Range] = []
    second: list[Range] = []
    for each in ranges:
        middle = min(each.end, each.start + wanted)
        wanted -= middle - each.start
        if middle > each.start:
            first.append(msgspec.structs.replace(each, end=middle))
        if middle < each.end:
            second.append(msgspec.structs.replace(each, start=middle))
    return first, second
