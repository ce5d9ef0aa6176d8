"""The run of one table: its streaming query, the batches it wrote, and its status.

How this works: the sink commits a batch together with its mark (query and batch number), so it
knows which batches it has. A query that failed for a transient reason is restarted from its
checkpoint, and so is the whole run after a crash; a batch that Spark repeats then is not written
again. To stop, a run creates the stop file: the batch being written is finished, and the next one
is refused before any of it is written.
"""

import os
import re
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Literal

import msgspec
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession, is_remote
from pyspark.sql.streaming.query import StreamingQuery

from mainstem.core.errors import MainstemError
from mainstem.pipelines.bad_events.audit import Audit
from mainstem.pipelines.bad_events.bisection import (
    EventsNotFound,
    FailingEventSearch,
    describe_ranges,
    failed_range,
    may_be_caused_by_event,
    save_skipped_events,
)
from mainstem.pipelines.definitions.fingerprint import (
    fingerprint,
    incompatible_change,
    save_fingerprint,
)
from mainstem.pipelines.definitions.table import Pipeline, Table
from mainstem.pipelines.errors import InvalidDefinition, PipelineFailed, RunRefused
from mainstem.pipelines.planning.planner import Bounds, Planner, group_of
from mainstem.pipelines.running.batch_writer import STOPPED, BatchWriter
from mainstem.pipelines.running.freshness import FreshnessMeter
from mainstem.pipelines.spark.connect import Write, remote_writer
from mainstem.pipelines.spark.error_messages import CRASHED, cause_of, save_traceback
from mainstem.pipelines.spark.progress import Batch, batch_of
from mainstem.pipelines.spark.retry import is_away, is_transient, with_retries
from mainstem.pipelines.state.table_state import Failure, StateDirectory, TableStatus
from mainstem.remote.admin import Admin
from mainstem.remote.arrow.range import Range
from mainstem.remote.cluster import Cluster
from mainstem.remote.consumer_groups import ConsumerGroups

POLL_S = 0.1
_FIRST_BATCH_S = 5.0
PACKAGE = "package.zip"
"""File name of our package in the state directory, for the Spark Connect server."""
_MOST_ATTEMPTS = 6
_LONGEST_PAUSE_S = 30.0
_BAD_EVENT = re.compile(
    r"bad event: (?P<reason>.*?); (?P<event>topic \S+, partition \d+, offset \d+)"
)


class Request(msgspec.Struct, frozen=True):
    """The options of a run: broker address, state directory, range, mode and tables."""

    address: str
    state: Path
    mode: Literal["stream", "batch"] = "batch"
    bounds: Bounds = Bounds()
    into: str | None = None
    """The name of the copies to write to instead of the tables."""
    complete: bool = False
    interval_ms: int = 0
    only: tuple[str, ...] = ()
    """Names of the tables to run; empty for all."""


class Report(msgspec.Struct, frozen=True):
    """A finished batch, and the status of its table after it."""

    table: str
    batch: Batch
    status: TableStatus


OnReport = Callable[[Report], None]
Notify = Callable[[str], None]
"""Prints one sentence for the user."""


class TableRun:
    """The run of one table."""

    def __init__(
        self,
        spark: SparkSession,
        pipeline: Pipeline,
        table: Table,
        request: Request,
        planner: Planner,
        directory: Path,
        notify: Notify,
    ) -> None:
        self.table = table
        self._notify = notify
        self._spark, self._pipeline = spark, pipeline
        self._request, self._planner = request, planner
        self._state_dir = StateDirectory(directory / table.name)
        self._package = directory.resolve() / PACKAGE
        self._query: StreamingQuery | None = None
        self._error: BaseException | None = None
        self._told = -1
        self._attempts = 0
        self.status = TableStatus("stopped")
        self._frame: DataFrame | None = None
        self._mark = ""
        self._audit: Audit | None = None
        self._freshness = FreshnessMeter()
        self._known: tuple[str, str | None] | None = None
        """Why and at which event the run failed, if we know more than Spark reports."""

    def is_complete(self) -> bool:
        """Return whether an earlier run read the input to its declared end."""
        before = self._state_dir.status()
        if before is None or before.state != "complete":
            return False
        self.status = before
        return True

    def prepare(self) -> None:
        """Load the state and build the plan; raises RunRefused or InvalidDefinition."""
        before = self._state_dir.status()
        self._mark = f"{self._pipeline.name}.{self.table.name}.{self._state_dir.identity()}"
        self.status = msgspec.structs.replace(
            before or TableStatus("stopped"),
            file=str(self._pipeline.file),
            address=self._request.address,
            sink=self.table.sink.place,
            failure=None,
            waiting=None,
            freshness=None,
            expectations={
                each.name: before.expectations.get(each.name, 0) if before else 0
                for source in self.table.sources
                for each in source.expectations
            },
        )
        self._state_dir.error.unlink(missing_ok=True)
        self._audit = Audit(
            self._spark,
            self.table,
            self._request.address,
            self._mark,
            self._pipeline.dead_topic(self._request.into),
            self._state_dir,
        )
        self.status = self._audit.with_missed_batches(self.status)
        if self.status.ended and self._request.mode == "stream":
            raise RunRefused(
                f"the input of table {self.table.name!r} was declared complete; finish that run: "
                "--batch --complete, or replay into a new target to read more"
            )
        self._frame = self._planner.frame(self.table, self._state_dir, complete=self._completing)

    def definition_change(self) -> str | None:
        """Return which change of the definition its checkpoint does not fit; None if none."""
        assert self._frame is not None
        wanted = fingerprint(self.table, self._frame)
        if wanted is None:
            return None
        save_fingerprint(self._state_dir, wanted)
        return incompatible_change(self._state_dir, wanted)

    @property
    def _completing(self) -> bool:
        """Whether the input was declared complete, in this run or an earlier one."""
        return self._request.complete or self.status.ended

    # The query

    def start(self) -> None:
        """Start the query; raises InvalidDefinition if Spark does not support it."""
        assert self._frame is not None
        writing = self._frame.writeStream.outputMode(self.table.output).option(
            "checkpointLocation", str(self._state_dir.checkpoint)
        )
        writing = writing.queryName(self._mark).foreachBatch(self._writer())
        if self._request.mode == "stream":
            writing = writing.trigger(processingTime=f"{self._request.interval_ms} milliseconds")
        else:
            writing = writing.trigger(availableNow=True)
        self._state_dir.stop_file.unlink(missing_ok=True)
        self._keep(state="running", pid=os.getpid())
        try:
            self._query = with_retries(writing.start)
        except PySparkException as error:
            raise InvalidDefinition(
                f"{self._pipeline.file.name}: table {self.table.name!r}: {self._fail(error)}"
            ) from error

    def restart(self, on_report: OnReport, stop: threading.Event) -> bool:
        """Restart a failed query if that may help; return whether it was restarted.

        The failed batch is run again; the sink writes it unless it has it already.
        """
        assert self._query is not None
        # The progress reports of this query are lost when another one starts.
        self.read_progress(on_report)
        failure = f"{self._query.exception()} {self._error}"
        if stop.is_set() or self._query.exception() is None or STOPPED in failure:
            return False
        if not is_transient(failure):
            return self._skip_failing_events(failure, stop)
        away = is_away(failure)
        if self._attempts >= _MOST_ATTEMPTS and not (away and self._request.mode == "stream"):
            return False
        if away:
            self._set_waiting_for(self._error or self._query.exception())
        if stop.wait(min(2.0 ** min(self._attempts, 10), _LONGEST_PAUSE_S)):
            return False
        self._attempts += 1
        self._error = None
        self.start()
        return True

    def _set_waiting_for(self, error: BaseException | None) -> None:
        """Save in the status what does not answer; notify the user of it once."""
        assert error is not None
        reason = cause_of(error, self._pipeline.file)
        if self.status.waiting is None:
            self._notify(f"table {self.table.name!r} waits, and tries again: {reason}")
        self._keep(waiting=reason, retries=self.status.retries + 1)

    def _skip_failing_events(self, failure: str, stop: threading.Event) -> bool:
        """Search the events on which the batch failed, and restart the query without them.

        Returns whether it was restarted. If not, ``_known`` has the cause, and the event if known.
        """
        assert self._frame is not None
        assert self._query is not None
        if _BAD_EVENT.search(failure) or not (
            may_be_caused_by_event(failure) or CRASHED in failure
        ):
            return False
        file = self._pipeline.file
        ranges: list[Range] = []
        try:
            ranges = failed_range(self._planner, self.table, self._state_dir)
            if not ranges:
                return False
            if CRASHED in failure:
                raise EventsNotFound("any of its events may be the cause")
            search = FailingEventSearch(self._planner, self.table, self._state_dir, file, stop)
            found = search.find(self._frame, ranges)
        except MainstemError as undecided:
            error = self._error or self._query.exception()
            assert error is not None
            first = undecided.first if isinstance(undecided, EventsNotFound) else None
            where = f"; the batch has {describe_ranges(ranges)}" if ranges else ""
            cause = f"{cause_of(error, file)}; {undecided}{where}"
            self._known = cause, first.event if first else None
            return False
        if self.table.bad == "stop":
            self._known = f"{found[0].reason} ({found[0].event})", found[0].event
            return False
        save_skipped_events(self._state_dir, found, self.status.offsets)
        self._frame = self._planner.frame(self.table, self._state_dir, complete=self._completing)
        self._error = None
        self.start()
        return True

    def _writer(self) -> Write:
        writing = BatchWriter(
            self.table.sink, self._mark, self._state_dir.stop_file, self._state_dir.truncation
        )
        if is_remote():
            return remote_writer(writing, self._package)

        def write(rows: DataFrame, number: int) -> None:
            try:
                writing(rows, number)
            except BaseException as error:
                # Spark would wrap it in two stack traces and a plan.
                self._error = error
                raise

        return write

    def refuse_new_batches(self) -> None:
        """Create the stop file: a batch being written is finished, no further one begins."""
        self._state_dir.stop_file.touch()

    @property
    def active(self) -> bool:
        """Whether the query is running."""
        return self._query is not None and self._query.isActive

    def read_progress(self, on_report: OnReport) -> None:
        """Count, save and report the batches that were finished since the last call."""
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
            if self.status.waiting is not None:
                self._notify(f"table {self.table.name!r} continues")
                self._keep(waiting=None)
            # Spark may run the last batch again after a crash, though an audit has counted it.
            if batch.number > self.status.audited:
                self.status = self._audit.with_batch(self.status, batch)
                freshness = self._freshness.add(batch) or self.status.freshness
                self._keep(freshness=freshness)
            on_report(Report(self.table.name, batch, self.status))

    def finish(self, on_report: OnReport) -> MainstemError | None:
        """Wait for the batch being written, stop the query, and return its error, if any."""
        assert self._query is not None
        while self._query.isActive and self._query.status["isTriggerActive"]:
            self._wait(POLL_S)
        if self._query.isActive:
            self._query.stop()
        self.read_progress(on_report)
        failure = self._query.exception()
        if self._state_dir.stop_file.exists() and is_away(f"{failure} {self._error}"):
            # It was stopped while it waited; the next run writes the batch.
            self._keep(state="stopped", pid=0, waiting=None)
            return None
        if failure is None or STOPPED in str(failure):
            self._keep(state="stopped", pid=0)
            self._move_cursors()
            return None
        return PipelineFailed(
            f"table {self.table.name!r} stopped: {self._fail(self._error or failure)}"
        )

    def _wait(self, seconds: float) -> None:
        assert self._query is not None
        # Errors are handled by ``restart`` and ``finish``.
        with suppress(StreamingQueryException):
            self._query.awaitTermination(seconds)  # type: ignore[arg-type]

    def wait_for_first_batch(self, on_report: OnReport) -> None:
        """Wait until the first batch is done, or ``_FIRST_BATCH_S`` seconds have passed.

        Spark starts a Python process for each source and gives up if that takes more than 10 s,
        which happens on a busy machine when many start at once.
        """
        until = time.monotonic() + _FIRST_BATCH_S
        while self.active and self._told < 0 and time.monotonic() < until:
            self._wait(POLL_S)
            self.read_progress(on_report)

    # A bounded run

    def run_to_end(self, on_report: OnReport, stop: threading.Event) -> None:
        """Run the query until it has read the requested range."""
        self.start()
        while self.active or self.restart(on_report, stop):
            self.read_progress(on_report)
            if stop.is_set():
                self.refuse_new_batches()
            self._wait(POLL_S)
        if stop.is_set():
            self.refuse_new_batches()
        if (error := self.finish(on_report)) is not None:
            raise error
        if self._completing and not stop.is_set():
            self._keep(state="complete")

    # The status

    def set_waiting(self, reason: str) -> None:
        """Save in the status why the table does not run now."""
        failure = Failure(reason, time.time_ns() // 1_000_000)
        self._keep(state="stopped", pid=0, failure=failure)

    def _keep(self, **changed: object) -> None:
        now_ms = time.time_ns() // 1_000_000
        self.status = msgspec.structs.replace(self.status, updated_ms=now_ms, **changed)
        self._state_dir.save_status(self.status)

    def _fail(self, error: BaseException) -> str:
        """Save in the status why the run failed; return the message for the user."""
        reason, event = self._known or (cause_of(error, self._pipeline.file), None)
        if self._known is None and (found := _BAD_EVENT.search(reason)):
            reason, event = f"{found['reason']} ({found['event']})", found["event"]
        failure = Failure(reason, time.time_ns() // 1_000_000, event)
        self._keep(state="failed", pid=0, failure=failure, waiting=None)
        return f"{reason}; {save_traceback(error, reason, self._state_dir)}"

    def _move_cursors(self) -> None:
        """Commit the read offsets to the table's group; Spark would only with the next batch."""
        places = {
            (topic, int(number)): offset
            for topic, offsets in self.status.offsets.items()
            for number, offset in offsets.items()
        }
        if places:
            cluster = Cluster(self._request.address, timeout_s=10, settings={})
            group = group_of(self._pipeline, self.table, self._request.into)
            ConsumerGroups(Admin(cluster)).move(group, places)
