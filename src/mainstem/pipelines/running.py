"""Runs of a pipeline: continuously, up to a point, over a range, or from the start into a copy.

How this works: every table is one streaming query with a checkpoint of its own. A continuous run
triggers again and again; a bounded one (``availableNow``, with an end for every partition) goes on
from the same checkpoint and ends when it is there, so that windows, joins and what was seen before
cross the border. A replay and a one-off range are bounded runs with a checkpoint and targets of
their own. Bounded runs do one table after another, in the order of the file, so that a table finds
complete what it reads from those above it.

A batch is written by the sink together with its mark. Stopping closes a gate: the batch that is
being written is finished, the next one is turned away before anything of it is written.
"""

import os
import re
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Literal

import msgspec
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from mainstem.core.errors import MainstemError
from mainstem.pipelines.auditing import Audit
from mainstem.pipelines.definitions import Pipeline, Table
from mainstem.pipelines.errors import InvalidDefinition, PipelineFailed, RunRefused
from mainstem.pipelines.plans import Bounds, Planning, group_of, short
from mainstem.pipelines.progress import Batch, batch_of
from mainstem.pipelines.sinks.port import Mark
from mainstem.pipelines.sinks.topic import TopicSink
from mainstem.pipelines.standing import Failure, Place, Standing, held, pipeline_directory
from mainstem.remote.administering import Administration
from mainstem.remote.cursors import Cursors
from mainstem.remote.link import Link

_LOOK_S = 0.1
_SETTLE_S = 5.0
_AT_ONCE = max(2, (os.cpu_count() or 2) // 2)
"""Tables of a bounded run side by side."""
_PASSING = ("Python worker failed to connect back", "no answer from ")
"""What may stop a query on a machine that is too busy, or while the server is started again."""
_MOST_ATTEMPTS = 6
_STOPPED = "mainstem: stopped before this batch"
_BAD_EVENT = re.compile(
    r"bad event: (?P<reason>.*?); (?P<event>topic \S+, partition \d+, offset \d+)"
)


class Request(msgspec.Struct, frozen=True):
    """How to run a pipeline."""

    address: str
    state: Path
    mode: Literal["stream", "batch"] = "batch"
    bounds: Bounds = Bounds()
    into: str | None = None
    """The name of the copies that are written instead of the tables."""
    complete: bool = False
    interval_ms: int = 0


class Report(msgspec.Struct, frozen=True):
    """What is told of a run after each batch."""

    table: str
    batch: Batch
    standing: Standing


Tell = Callable[[Report], None]


class Gate:
    """Lets batches through until it is closed."""

    def __init__(self) -> None:
        self.closed = threading.Event()


def run(
    spark: SparkSession, pipeline: Pipeline, request: Request, tell: Tell, stop: threading.Event
) -> dict[str, Standing]:
    """Run all tables of a pipeline as asked, until they are done or ``stop`` is set.

    Raises InvalidDefinition before any batch, and PipelineFailed if a table stops by an error.
    """
    directory = pipeline_directory(request.state, pipeline.name, request.into)
    with held(directory):
        if request.into and request.mode == "batch":
            _check_fresh(pipeline, request, directory)
        planning = Planning(spark, pipeline, request.address, request.into, request.bounds)
        runs = [
            TableRun(spark, pipeline, _targeted(table, request), request, planning, directory)
            for table in pipeline.tables
        ]
        for each in runs:
            each.prepare()
        if request.mode == "stream":
            _together(runs, tell, stop)
        else:
            for level in _levels(runs):
                _each_until_done(level, tell, stop)
        return {each.table.name: each.standing for each in runs}


def _targeted(table: Table, request: Request) -> Table:
    sink = table.sink.beside(request.into) if request.into else table.sink
    if isinstance(sink, TopicSink) and not sink.address:
        sink = msgspec.structs.replace(sink, address=request.address)
    return msgspec.structs.replace(table, sink=sink)


def _check_fresh(pipeline: Pipeline, request: Request, directory: Path) -> None:
    """Let an interrupted replay go on, but never write into what others made."""
    if any((directory / each.name / "standing.json").exists() for each in pipeline.tables):
        return
    for table in pipeline.tables:
        assert request.into
        target = table.sink.beside(request.into)
        if target.read() is not None:
            raise RunRefused(
                f"{target.place} is there already and was not made by such a run; choose another "
                "name for --into"
            )


def _levels(runs: Sequence["TableRun"]) -> list[list["TableRun"]]:
    """Sort tables into those that read only topics, those that read these, and so on."""
    depth: dict[str, int] = {}
    levels: list[list[TableRun]] = []
    for each in runs:
        above = [depth[source.name] for source in each.table.sources if source.name in depth]
        depth[each.table.name] = level = 1 + max(above, default=-1)
        if level == len(levels):
            levels.append([])
        levels[level].append(each)
    return levels


def _each_until_done(runs: Sequence["TableRun"], tell: Tell, stop: threading.Event) -> None:
    """Run tables that do not need one another to their ends, side by side."""
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        done = [pool.submit(each.until_done, tell, stop) for each in runs]
    for each in done:
        each.result()


def _together(runs: Iterable["TableRun"], tell: Tell, stop: threading.Event) -> None:
    """Run tables side by side until stopped; if one fails, stop the others."""
    started: list[TableRun] = []
    try:
        for each in runs:
            each.start()
            started.append(each)
            each.settle(tell)
        while not stop.is_set():
            for each in started:
                each.look(tell)
            if not all(each.active or each.start_again(stop) for each in started):
                break
            stop.wait(_LOOK_S)
    finally:
        for each in started:
            each.gate.closed.set()
        errors = [error for each in started if (error := each.finish(tell)) is not None]
    if errors:
        raise errors[0]


class TableRun:
    """The run of one table."""

    def __init__(
        self,
        spark: SparkSession,
        pipeline: Pipeline,
        table: Table,
        request: Request,
        planning: Planning,
        directory: Path,
    ) -> None:
        self.table = table
        self.gate = Gate()
        self._spark = spark
        self._pipeline = pipeline
        self._request = request
        self._planning = planning
        self._place = Place(directory / table.name)
        self._query: StreamingQuery | None = None
        self._error: BaseException | None = None
        self._told = -1
        self._attempts = 0
        self.standing = Standing("stopped")
        self._frame: DataFrame | None = None
        self._mark = ""
        self._audit: Audit | None = None

    def prepare(self) -> None:
        """Build the plan and look at what is there; all that can be refused is refused here."""
        before = self._place.standing()
        if self._place.completed and before is not None and before.state == "complete":
            raise RunRefused(
                f"the input of table {self.table.name!r} was declared complete, and its windows "
                "are closed; replay into a new target to read more"
            )
        self._place.prepare()
        self._mark = f"{self._pipeline.name}.{self.table.name}.{self._place.identity()}"
        self.standing = msgspec.structs.replace(
            before or Standing("stopped"),
            file=str(self._pipeline.file),
            address=self._request.address,
            sink=self.table.sink.place,
            failure=None,
        )
        self._frame = self._planning.frame(self.table, self._place)
        self._audit = Audit(
            self._spark,
            self.table,
            self._request.address,
            self._mark,
            self._pipeline.dead_topic(self._request.into),
            self._place,
        )
        self.standing = self._audit.recovered(self.standing)

    # One query

    def start(self, frame: DataFrame | None = None) -> None:
        """Start the query; what Spark does not support is told now, before any batch."""
        self._frame = frame = frame or self._frame
        assert frame is not None
        writing = frame.writeStream.outputMode(self.table.output).option(
            "checkpointLocation", str(self._place.checkpoint)
        )
        writing = writing.queryName(self._mark).foreachBatch(self._writer())
        if self._request.mode == "stream":
            writing = writing.trigger(processingTime=f"{self._request.interval_ms} milliseconds")
        else:
            writing = writing.trigger(availableNow=True)
        self._keep(state="running", pid=os.getpid())
        try:
            self._query = writing.start()
        except PySparkException as error:
            self._fail(short(error))
            raise InvalidDefinition(
                f"{self._pipeline.file.name}: table {self.table.name!r}: {short(error)}"
            ) from error

    def start_again(self, stop: threading.Event) -> bool:
        """Start the query anew if what stopped it may pass; tells whether it did.

        The batch that failed is run again, and its sink knows whether it was written.
        """
        assert self._query is not None
        failure = f"{self._query.exception()} {self._error}"
        passing = any(words in failure for words in _PASSING)
        if not passing or self._attempts >= _MOST_ATTEMPTS or stop.is_set():
            return False
        stop.wait(2.0**self._attempts)
        self._attempts += 1
        self._error = None
        self.start()
        return True

    def _writer(self) -> Callable[[DataFrame, int], None]:
        sink, mark, gate = self.table.sink, self._mark, self.gate

        def write(rows: DataFrame, number: int) -> None:
            if gate.closed.is_set():
                raise PipelineFailed(_STOPPED)
            try:
                sink.write(rows, Mark(mark, number))
            except BaseException as error:
                # Spark would tell it with two stack traces and a plan around it.
                self._error = error
                raise

        return write

    @property
    def active(self) -> bool:
        """Whether the query runs."""
        return self._query is not None and self._query.isActive

    def look(self, tell: Tell) -> None:
        """Count, keep and tell what was done since the last look."""
        assert self._query is not None
        assert self._audit is not None
        newest = self._query.lastProgress
        if newest is None or newest.batchId < self._told:
            return
        for progress in self._query.recentProgress:
            batch = batch_of(progress) if progress.batchId > self._told else None
            if batch is None:
                continue
            self._told = batch.number
            self._attempts = 0
            self.standing = self._audit.counted(self.standing, batch)
            self._keep()
            tell(Report(self.table.name, batch, self.standing))

    def finish(self, tell: Tell) -> MainstemError | None:
        """Let the batch end that is being written, stop, and return what went wrong, if any."""
        assert self._query is not None
        while self._query.isActive and self._query.status["isTriggerActive"]:
            self._wait(_LOOK_S)
        if self._query.isActive:
            self._query.stop()
        self.look(tell)
        failure = self._query.exception()
        if failure is None or _STOPPED in str(failure):
            self._keep(state="stopped", pid=0)
            self._move_cursors()
            return None
        told = self._fail(_said(self._error) if self._error else short(failure))
        return PipelineFailed(f"table {self.table.name!r} stopped: {told}")

    def _wait(self, seconds: float) -> None:
        assert self._query is not None
        # A failure is looked at in the end.
        with suppress(StreamingQueryException):
            self._query.awaitTermination(seconds)  # type: ignore[arg-type]

    def settle(self, tell: Tell) -> None:
        """Wait until the query has begun to read, or for a while.

        Spark starts a Python process for each topic, and gives up if it takes more than 10 s to
        come up: on a busy machine many at once do.
        """
        until = time.monotonic() + _SETTLE_S
        while self.active and self._told < 0 and time.monotonic() < until:
            self._wait(_LOOK_S)
            self.look(tell)

    # A bounded run

    def until_done(self, tell: Tell, stop: threading.Event) -> None:
        """Run up to the end that was asked for; close the open windows if that was asked, too."""
        if not self._place.completed:
            self._once(tell, stop)
        if not self._request.complete or stop.is_set():
            return
        self._place.complete()
        if any(source.watermark for source in self.table.sources):
            # Not an event more than was read before the end was declared.
            self._once(tell, stop, self._standing_still())
        if not stop.is_set():
            self._keep(state="complete")

    def _once(self, tell: Tell, stop: threading.Event, frame: DataFrame | None = None) -> None:
        self.start(frame)
        while self.active or self.start_again(stop):
            self.look(tell)
            if stop.is_set():
                self.gate.closed.set()
            self._wait(_LOOK_S)
        if (error := self.finish(tell)) is not None:
            raise error

    def _standing_still(self) -> DataFrame:
        here = msgspec.json.encode(self.standing.offsets).decode()
        bounds = Bounds(self._request.bounds.starting, {"endingOffsets": here})
        planning = Planning(
            self._spark, self._pipeline, self._request.address, self._request.into, bounds
        )
        return planning.frame(self.table, self._place)

    # What is kept

    def _keep(self, **changed: object) -> None:
        now_ms = time.time_ns() // 1_000_000
        self.standing = msgspec.structs.replace(self.standing, updated_ms=now_ms, **changed)
        self._place.keep(self.standing)

    def _fail(self, reason: str) -> str:
        found = _BAD_EVENT.search(reason)
        if found:
            reason = f"{found['reason']} ({found['event']})"
        failure = Failure(reason, time.time_ns() // 1_000_000, found["event"] if found else None)
        self._keep(state="failed", pid=0, failure=failure)
        return reason

    def _move_cursors(self) -> None:
        """Spark tells a source that a batch is done when the next begins; here none begins."""
        places = {
            (topic, int(number)): offset
            for topic, offsets in self.standing.offsets.items()
            for number, offset in offsets.items()
        }
        if places:
            link = Link(self._request.address, timeout_s=10, settings={})
            group = group_of(self._pipeline, self.table, self._request.into)
            Cursors(Administration(link)).move(group, places)


def _said(error: BaseException) -> str:
    return str(error) if isinstance(error, MainstemError) else f"{type(error).__name__}: {error}"
