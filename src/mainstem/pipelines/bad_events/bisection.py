"""Finds the events on which a batch failed: by running halves of its range, without writing.

How this works: the checkpoint says which offsets the failed batch was to read. The table's function
is run over these as a bounded read whose rows go nowhere. If that fails, too, halves of the range
are run until single events are left that fail alone. Where rows depend on other events (state,
several sources) an event that fails alone proves nothing, so only the range is named. Nor does an
error that does not come from the function: of the source, of a process that ended, of a full disk.

The events found are kept beside the checkpoint (``StateDirectory.skipped_events``). From then on
they are bad events like those that cannot be decoded: the batch is run again without them, and the
audit after it writes them to the dead letters, once.
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
from mainstem.pipelines.format.planning import Range
from mainstem.pipelines.planning.planner import Planner
from mainstem.pipelines.sinks.port import Sink
from mainstem.pipelines.sinks.topic import TopicSink
from mainstem.pipelines.spark.error_messages import CRASHED, cause_of
from mainstem.pipelines.spark.retry import is_transient, with_retries
from mainstem.pipelines.state.table_state import StateDirectory

MOST_EVENTS = 100
"""So many events of one batch may be left out; if more fail, the table stops."""
LONGEST_S = 600.0
_ALL = 10
"""If so many events fail and no event of the batch does not, the function is wrong, not they."""
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
"""Nodes of Spark's plans in which each row is made from one event."""
_NOT_AN_EVENT = (
    # Our source and our sinks of topics, as stack traces of Python name their files.
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
"""Failures that say so may concern any event, or none."""
_NODE = re.compile(r"^[\s:+|~-]*(\w+)")
_SPARKS = re.compile(r"^\[[A-Z_.]+\] | SQLSTATE: \w+$")


class FailingEvent(msgspec.Struct, frozen=True):
    """An event on which the table's function, or its sink, fails."""

    topic: str
    partition: int
    offset: int
    reason: str

    @property
    def event(self) -> str:
        """The event's place, for a person."""
        return f"topic {self.topic}, partition {self.partition}, offset {self.offset}"

    def __str__(self) -> str:
        return f"{self.reason} ({self.event})"


class EventsNotFound(MainstemError):
    """The events cannot be told, and why; ``first`` is one that fails, if any is known."""

    def __init__(self, why: str, first: FailingEvent | None = None) -> None:
        super().__init__(f"{why}, the first as {first}" if first else why)
        self.first = first


def may_be_caused_by_event(failure: str) -> bool:
    """Tell whether a function that fails on an event may be the cause of a failure."""
    text = failure.split("=== Streaming Query", maxsplit=1)[0]
    return not is_transient(text) and not any(each in text for each in _NOT_AN_EVENT)


def failed_range(planner: Planner, table: Table, state_dir: StateDirectory) -> list[Range]:
    """Return the offsets of topics that the unfinished batch was to read; none if there is none.

    Raises MainstemError if the server does not say where the first batch begins.
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
    """Name a range for a person."""
    return "; ".join(
        f"topic {each.topic}, partition {each.partition}, offsets {each.start} to {each.end - 1}"
        for each in ranges
    )


class FailingEventSearch:
    """Looks for the events of one failed batch."""

    def __init__(
        self,
        planner: Planner,
        table: Table,
        state_dir: StateDirectory,
        file: Path,
        stop: threading.Event,
    ) -> None:
        self._planner = planner
        self._table = table
        self._state_dir = state_dir
        self._file = file
        self._stop = stop
        self._until = time.monotonic() + LONGEST_S

    def find(self, frame: DataFrame, ranges: list[Range]) -> list[FailingEvent]:
        """Return the events that fail alone; raises EventsNotFound.

        With ``bad="stop"`` only the first.
        """
        if len(self._table.sources) > 1 or self._planner.reads_table(self._table):
            raise EventsNotFound("it reads several sources, or a table")
        if is_remote():
            raise EventsNotFound("over Spark Connect events are not searched for")
        if not _is_row_by_row(frame):
            raise EventsNotFound("its rows depend on several events")
        good = self._good(ranges)
        reason = self._fails(ranges)
        if reason is None:
            raise EventsNotFound("its rows can be made, so the sink fails")
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
        """Count the events of the batch that are left out already."""
        skips = self._state_dir.skipped_events()
        return sum(
            each.start <= int(offset) < each.end
            for each in ranges
            for offset in skips.get(each.topic, {}).get(str(each.partition), {})
        )

    def _found(self, ranges: list[Range], reason: str | None) -> Iterator[FailingEvent]:
        """Find events in a range that fails for a reason; None if that only follows from others."""
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
        """Return why rows of a range cannot be made; None if they can."""
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
            # Whatever else fails, in Spark or between it and Python, says nothing of events.
            raise EventsNotFound(f"the search failed: {cause_of(error, self._file)}") from error
        return None

    def _run(self, ranges: list[Range]) -> None:
        rows = self._planner.bounded(self._table, self._state_dir, ranges)
        _checked_keys(rows, self._table.sink).write.format("noop").mode("overwrite").save()

    def _good(self, ranges: list[Range]) -> int:
        """Count the events that the function is given; they can be read without it, then."""
        try:
            return with_retries(
                lambda: self._planner.decoded_range(self._table, self._state_dir, ranges).count()
            )
        except Exception as error:
            # As above.
            cause = cause_of(error, self._file)
            raise EventsNotFound(f"its events cannot be read: {cause}") from error


def save_skipped_events(
    state_dir: StateDirectory, found: list[FailingEvent], behind: dict[str, dict[str, int]]
) -> None:
    """Keep events to leave out; forget those ``behind``, which are buried by now."""
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
    """Return rows that cannot be read if a sink with a key would refuse them."""
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
