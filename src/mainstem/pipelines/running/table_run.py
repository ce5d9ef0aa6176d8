"""The run of one table: a streaming query, what it wrote, and how it stands.

How this works: a batch is written by the sink together with its mark. Stopping closes a gate: the
batch that is being written is finished, the next one is turned away before anything of it is
written. A query that failed for a reason that may pass is started again; so is the whole run after
a crash, from the same checkpoint, and the sink knows which batches it has.
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
    Search,
    Undecided,
    failed_range,
    keep_skips,
    may_be_an_event,
    told,
)
from mainstem.pipelines.definitions.fingerprint import changed, fingerprint, keep
from mainstem.pipelines.definitions.table import Pipeline, Table
from mainstem.pipelines.errors import InvalidDefinition, PipelineFailed, RunRefused
from mainstem.pipelines.format.planning import Range
from mainstem.pipelines.planning.planner import Bounds, Planning, group_of
from mainstem.pipelines.running.batch_writer import STOPPED, Writing
from mainstem.pipelines.spark.connect import Write, sent_writer
from mainstem.pipelines.spark.error_messages import CRASHED, cause_of, keep_all
from mainstem.pipelines.spark.progress import Batch, batch_of
from mainstem.pipelines.spark.retry import may_pass, patiently
from mainstem.pipelines.state.table_state import Failure, Place, Standing
from mainstem.remote.admin import Admin
from mainstem.remote.cluster import Cluster
from mainstem.remote.consumer_groups import ConsumerGroups

LOOK_S = 0.1
_SETTLE_S = 5.0
PACKAGE = "package.zip"
"""Our package, beside the state, for the server of Spark Connect."""
_MOST_ATTEMPTS = 6
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
    only: tuple[str, ...] = ()
    """The names of the tables to run; none for all."""


class Report(msgspec.Struct, frozen=True):
    """What is told of a run after each batch."""

    table: str
    batch: Batch
    standing: Standing


Tell = Callable[[Report], None]


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
        self._spark = spark
        self._pipeline = pipeline
        self._request = request
        self._planning = planning
        self._place = Place(directory / table.name)
        self._package = directory.resolve() / PACKAGE
        self._query: StreamingQuery | None = None
        self._error: BaseException | None = None
        self._told = -1
        self._attempts = 0
        self.standing = Standing("stopped")
        self._frame: DataFrame | None = None
        self._mark = ""
        self._audit: Audit | None = None
        self._known: tuple[str, str | None] | None = None
        """Why it failed and at which event, if more is known than Spark says."""

    def is_complete(self) -> bool:
        """Tell whether an earlier run read all input of the table and closed its windows."""
        before = self._place.standing()
        if before is None or before.state != "complete":
            return False
        self.standing = before
        return True

    def prepare(self) -> None:
        """Build the plan and look at what is there; all that can be refused is refused here."""
        before = self._place.standing()
        self._mark = f"{self._pipeline.name}.{self.table.name}.{self._place.identity()}"
        self.standing = msgspec.structs.replace(
            before or Standing("stopped"),
            file=str(self._pipeline.file),
            address=self._request.address,
            sink=self.table.sink.place,
            failure=None,
        )
        self._place.error.unlink(missing_ok=True)
        self._audit = Audit(
            self._spark,
            self.table,
            self._request.address,
            self._mark,
            self._pipeline.dead_topic(self._request.into),
            self._place,
        )
        self.standing = self._audit.recovered(self.standing)
        if self.standing.ended and self._request.mode == "stream":
            raise RunRefused(
                f"the input of table {self.table.name!r} was declared complete; end that run with "
                "--batch --complete, or replay into a new target to read more"
            )
        self._frame = self._planning.frame(self.table, self._place, complete=self._completing)

    def definition_change(self) -> str | None:
        """Return why the definition does not suit its checkpoint any more; None if it does."""
        assert self._frame is not None
        wanted = fingerprint(self.table, self._frame)
        if wanted is None:
            return None
        keep(self._place, wanted)
        return changed(self._place, wanted)

    @property
    def _completing(self) -> bool:
        """Whether the end of this run is the end of the input; once said, it is not taken back."""
        return self._request.complete or self.standing.ended

    # One query

    def start(self) -> None:
        """Start the query; what Spark does not support is told now, before any batch."""
        assert self._frame is not None
        writing = self._frame.writeStream.outputMode(self.table.output).option(
            "checkpointLocation", str(self._place.checkpoint)
        )
        writing = writing.queryName(self._mark).foreachBatch(self._writer())
        if self._request.mode == "stream":
            writing = writing.trigger(processingTime=f"{self._request.interval_ms} milliseconds")
        else:
            writing = writing.trigger(availableNow=True)
        self._place.gate.unlink(missing_ok=True)
        self._keep(state="running", pid=os.getpid())
        try:
            self._query = patiently(writing.start)
        except PySparkException as error:
            raise InvalidDefinition(
                f"{self._pipeline.file.name}: table {self.table.name!r}: {self._fail(error)}"
            ) from error

    def start_again(self, tell: Tell, stop: threading.Event) -> bool:
        """Start the query anew if what stopped it may pass; tells whether it did.

        The batch that failed is run again, and its sink knows whether it was written.
        """
        assert self._query is not None
        # What was done before the failure is not told by another query.
        self.look(tell)
        failure = f"{self._query.exception()} {self._error}"
        if stop.is_set() or self._query.exception() is None or STOPPED in failure:
            return False
        if not may_pass(failure):
            return self._left_out(failure, stop)
        if self._attempts >= _MOST_ATTEMPTS:
            return False
        stop.wait(2.0**self._attempts)
        self._attempts += 1
        self._error = None
        self.start()
        return True

    def _left_out(self, failure: str, stop: threading.Event) -> bool:
        """Leave out the events on which the batch failed, and run it again; tells whether it does.

        If not, ``_known`` says at which event or range it failed.
        """
        assert self._frame is not None
        assert self._query is not None
        if _BAD_EVENT.search(failure) or not (may_be_an_event(failure) or CRASHED in failure):
            return False
        file = self._pipeline.file
        ranges: list[Range] = []
        try:
            ranges = failed_range(self._planning, self.table, self._place)
            if not ranges:
                return False
            if CRASHED in failure:
                raise Undecided("any of its events may be the cause")
            search = Search(self._planning, self.table, self._place, file, stop)
            found = search.culprits(self._frame, ranges)
        except MainstemError as undecided:
            error = self._error or self._query.exception()
            assert error is not None
            first = undecided.first if isinstance(undecided, Undecided) else None
            where = f"; the batch has {told(ranges)}" if ranges else ""
            cause = f"{cause_of(error, file)}; {undecided}{where}"
            self._known = cause, first.event if first else None
            return False
        if self.table.bad == "stop":
            self._known = f"{found[0].reason} ({found[0].event})", found[0].event
            return False
        keep_skips(self._place, found, self.standing.offsets)
        self._frame = self._planning.frame(self.table, self._place, complete=self._completing)
        self._error = None
        self.start()
        return True

    def _writer(self) -> Write:
        writing = Writing(self.table.sink, self._mark, self._place.gate)
        if is_remote():
            return sent_writer(writing, self._package)

        def write(rows: DataFrame, number: int) -> None:
            try:
                writing(rows, number)
            except BaseException as error:
                # Spark would tell it with two stack traces and a plan around it.
                self._error = error
                raise

        return write

    def turn_away(self) -> None:
        """Let no batch begin any more; one that is being written is finished."""
        self._place.gate.touch()

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
            # After a crash the last batch may be run again, and be counted already.
            if batch.number > self.standing.audited:
                self.standing = self._audit.counted(self.standing, batch)
                self._keep()
            tell(Report(self.table.name, batch, self.standing))

    def finish(self, tell: Tell) -> MainstemError | None:
        """Let the batch end that is being written, stop, and return what went wrong, if any."""
        assert self._query is not None
        while self._query.isActive and self._query.status["isTriggerActive"]:
            self._wait(LOOK_S)
        if self._query.isActive:
            self._query.stop()
        self.look(tell)
        failure = self._query.exception()
        if failure is None or STOPPED in str(failure):
            self._keep(state="stopped", pid=0)
            self._move_cursors()
            return None
        return PipelineFailed(
            f"table {self.table.name!r} stopped: {self._fail(self._error or failure)}"
        )

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
            self._wait(LOOK_S)
            self.look(tell)

    # A bounded run

    def until_done(self, tell: Tell, stop: threading.Event) -> None:
        """Run up to the end that was asked for."""
        self.start()
        while self.active or self.start_again(tell, stop):
            self.look(tell)
            if stop.is_set():
                self.turn_away()
            self._wait(LOOK_S)
        if (error := self.finish(tell)) is not None:
            raise error
        if self._completing and not stop.is_set():
            self._keep(state="complete")

    # What is kept

    def hold(self, reason: str) -> None:
        """Keep why the table does not run now."""
        failure = Failure(reason, time.time_ns() // 1_000_000)
        self._keep(state="stopped", pid=0, failure=failure)

    def _keep(self, **changed: object) -> None:
        now_ms = time.time_ns() // 1_000_000
        self.standing = msgspec.structs.replace(self.standing, updated_ms=now_ms, **changed)
        self._place.keep(self.standing)

    def _fail(self, error: BaseException) -> str:
        """Keep why the run failed; returns what a person is told of it."""
        reason, event = self._known or (cause_of(error, self._pipeline.file), None)
        if self._known is None and (found := _BAD_EVENT.search(reason)):
            reason, event = f"{found['reason']} ({found['event']})", found["event"]
        failure = Failure(reason, time.time_ns() // 1_000_000, event)
        self._keep(state="failed", pid=0, failure=failure)
        return f"{reason}; {keep_all(error, reason, self._place)}"

    def _move_cursors(self) -> None:
        """Spark tells a source that a batch is done when the next begins; here none begins."""
        places = {
            (topic, int(number)): offset
            for topic, offsets in self.standing.offsets.items()
            for number, offset in offsets.items()
        }
        if places:
            cluster = Cluster(self._request.address, timeout_s=10, settings={})
            group = group_of(self._pipeline, self.table, self._request.into)
            ConsumerGroups(Admin(cluster)).move(group, places)
