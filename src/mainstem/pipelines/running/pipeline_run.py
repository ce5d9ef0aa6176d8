"""Runs a pipeline: continuously, up to a point, over a range, or as a replay into copies.

How this works: every table is one streaming query with its own checkpoint. A continuous run uses a
processing-time trigger. A bounded run uses ``availableNow`` with an end for every partition: it
continues from the same checkpoint, so windows, joins and deduplication span runs. Replays and
one-off ranges are bounded runs with their own checkpoints and sinks. A bounded run finishes a table
before it starts those that read it, so that they find their whole input.
"""

import os
import threading
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import msgspec
from pyspark.sql import SparkSession, is_remote

import mainstem.core.errors
import mainstem.pipelines.errors
import mainstem.pipelines.planning.avro_values
from mainstem.core.errors import MainstemError
from mainstem.pipelines.definitions.table import Pipeline, Table
from mainstem.pipelines.errors import RunRefused
from mainstem.pipelines.format.source import MainstemSource
from mainstem.pipelines.planning.planner import Planner
from mainstem.pipelines.planning.table_source import TableSource
from mainstem.pipelines.running.failures import Failures
from mainstem.pipelines.running.table_run import (
    PACKAGE,
    POLL_S,
    Notify,
    OnReport,
    Request,
    TableRun,
)
from mainstem.pipelines.sinks.console import ConsoleSink
from mainstem.pipelines.sinks.topic import TopicSink
from mainstem.pipelines.spark.connect import (
    RemoteSources,
    check_shared_directory,
    pickle_modules_by_value,
)
from mainstem.pipelines.spark.executor_package import modules_of, pack
from mainstem.pipelines.state.one_off_range import CopyRange, claim_range
from mainstem.pipelines.state.table_state import (
    StateDirectory,
    TableStatus,
    pipeline_directory,
    run_lock,
)

_AT_ONCE = max(2, (os.cpu_count() or 2) // 2)
"""Number of tables that a bounded run runs in parallel."""
_AVRO_DECODER = (
    mainstem.pipelines.planning.avro_values,
    mainstem.pipelines.errors,
    mainstem.core.errors,
)
"""The modules of the Avro decoder, our only Python function that Spark calls for each row."""


def run(
    spark: SparkSession,
    pipeline: Pipeline,
    request: Request,
    on_report: OnReport,
    stop: threading.Event,
    notify: Notify = lambda _: None,
) -> dict[str, TableStatus]:
    """Run the tables of a pipeline until they are done or ``stop`` is set.

    Tables that an earlier run completed are skipped. If a table fails, it stops, and so do those
    that read it; the others continue. Raises InvalidDefinition before any batch, and PipelineFailed
    at the end if a table failed.
    """
    directory = pipeline_directory(request.state, pipeline.name, request.into)
    with run_lock(directory):
        if request.into and request.mode == "batch":
            _check_fresh(pipeline, request, directory)
            claim_range(directory, CopyRange(request.bounds.starting, request.bounds.ending))
        pickle_modules_by_value(modules_of(pipeline.file.parent))
        planned = (spark, pipeline, request.address, request.into, request.bounds)
        if is_remote():
            planner = Planner(*planned, _prepare_connect(spark, pipeline, directory).format_of)
        else:
            planner = Planner(*planned)
        runs = [
            TableRun(
                spark, pipeline, _targeted(table, request), request, planner, directory, notify
            )
            for table in _chosen(pipeline, request, directory)
        ]
        unfinished = _unfinished(runs, notify)
        for each in unfinished:
            each.prepare()
            if (change := each.definition_change()) is not None:
                notify(f"warning: table {each.table.name!r}: {change}")
        failures = Failures(pipeline, notify)
        if request.mode == "stream":
            _run_stream(unfinished, on_report, stop, failures)
        else:
            for level in _levels(unfinished):
                # A table must not read an interrupted table as if it were finished.
                if stop.is_set():
                    break
                _run_level(level, on_report, stop, failures)
        failures.raise_all()
        return {each.table.name: each.status for each in runs}


def _chosen(pipeline: Pipeline, request: Request, directory: Path) -> list[Table]:
    """Return the tables to run; raises RunRefused if one reads a table that has not run yet."""
    names = [each.name for each in pipeline.tables]
    for name in request.only:
        if name not in names:
            raise RunRefused(f"there is no table {name!r} in {pipeline.file}: {', '.join(names)}")
    chosen = [each for each in pipeline.tables if not request.only or each.name in request.only]
    for each in chosen:
        for source in each.sources:
            above = pipeline.above(each, source.name)
            if above is None or above in chosen:
                continue
            status = StateDirectory(directory / above.name).status()
            if status is None:
                raise RunRefused(
                    f"table {each.name!r} reads {above.name!r}, which never ran; run that, too: "
                    f"--only {above.name}"
                )
            if request.complete and status.state != "complete":
                raise RunRefused(
                    f"table {each.name!r} reads {above.name!r}, which is not complete; run that, "
                    f"too: --only {above.name}"
                )
    return chosen


def _unfinished(runs: Sequence[TableRun], notify: Notify) -> list[TableRun]:
    """Return the runs of tables that are not complete; raises RunRefused if all are complete."""
    complete = [each for each in runs if each.is_complete()]
    if len(complete) == len(runs):
        raise RunRefused(
            f"the input of table {runs[0].table.name!r} was declared complete, and its windows "
            "are closed; to read more, replay into a new target"
        )
    for each in complete:
        notify(f"table {each.table.name} is complete; skipped")
    return [each for each in runs if each not in complete]


def _prepare_connect(spark: SparkSession, pipeline: Pipeline, directory: Path) -> RemoteSources:
    """Put our package where Spark Connect can import it; return its registered data sources.

    Raises RunRefused if a table has a console sink, or the server does not see the state directory.
    """
    for table in pipeline.tables:
        if isinstance(table.sink, ConsoleSink):
            raise RunRefused(
                f"table {table.name!r} has a console sink, which over Spark Connect would print "
                "on the server; give it another sink, or run it with --master"
            )
    check_shared_directory(spark, directory)
    package = directory.resolve() / PACKAGE
    pack(package)
    pickle_modules_by_value(_AVRO_DECODER)
    sources = RemoteSources(spark, package)
    for source in (MainstemSource, TableSource):
        sources.register(source)
    return sources


def _targeted(table: Table, request: Request) -> Table:
    sink = table.sink.beside(request.into) if request.into else table.sink
    if isinstance(sink, TopicSink) and not sink.address:
        sink = msgspec.structs.replace(sink, address=request.address)
    return msgspec.structs.replace(table, sink=sink)


def _check_fresh(pipeline: Pipeline, request: Request, directory: Path) -> None:
    """Raise RunRefused if a copy exists already that this replay did not create."""
    for table in pipeline.tables:
        assert request.into
        if (directory / table.name / "identity").exists():
            continue
        target = table.sink.beside(request.into)
        if target.read() is not None:
            raise RunRefused(
                f"{target.place} exists already and was not created by this replay; choose another "
                "name for --into"
            )


def _levels(runs: Sequence[TableRun]) -> list[list[TableRun]]:
    """Sort tables into levels: those that read only topics, then those that read these, etc."""
    depth: dict[str, int] = {}
    levels: list[list[TableRun]] = []
    for each in runs:
        above = [depth[source.name] for source in each.table.sources if source.name in depth]
        depth[each.table.name] = level = 1 + max(above, default=-1)
        if level == len(levels):
            levels.append([])
        levels[level].append(each)
    return levels


def _run_level(
    runs: Sequence[TableRun], on_report: OnReport, stop: threading.Event, failures: Failures
) -> None:
    """Run tables that do not read one another in parallel, each to the end of its input."""
    ready = [each for each in runs if not failures.hold_back(each)]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        done = [pool.submit(each.run_to_end, on_report, stop) for each in ready]
    for each, future in zip(ready, done, strict=True):
        try:
            future.result()
        except MainstemError as error:
            failures.add(each, error)


def _run_stream(
    runs: Sequence[TableRun], on_report: OnReport, stop: threading.Event, failures: Failures
) -> None:
    """Run tables in parallel until ``stop`` is set; a failed one ends, and those that read it."""
    started: list[TableRun] = []
    # The pool restarts queries, which may take long, while this thread reads the progress of the
    # other tables.
    with ThreadPoolExecutor(max(1, len(runs))) as pool:
        try:
            for each in runs:
                if stop.is_set():
                    break
                each.start()
                started.append(each)
                each.wait_for_first_batch(on_report)
            _watch(started, pool, on_report, stop, failures)
        finally:
            for each in started:
                each.refuse_new_batches()
            for each in started:
                _finish(each, on_report, failures)


def _watch(
    started: list[TableRun],
    pool: ThreadPoolExecutor,
    on_report: OnReport,
    stop: threading.Event,
    failures: Failures,
) -> None:
    """Poll the queries until ``stop`` is set or none runs; restart those that fail, if possible."""
    again: dict[TableRun, Future[bool]] = {}
    while started and not stop.is_set():
        for each in list(started):
            if each in again:
                if not again[each].done() or again.pop(each).result():
                    continue
                started.remove(each)
                _finish(each, on_report, failures)
            elif each.active:
                each.read_progress(on_report)
            else:
                again[each] = pool.submit(each.restart, on_report, stop)
        for each in [each for each in started if each not in again]:
            if failures.failed_upstream(each):
                started.remove(each)
                each.refuse_new_batches()
                if _finish(each, on_report, failures):
                    failures.hold_back(each)
        stop.wait(POLL_S)
    # No query may be started after this returns.
    for future in again.values():
        future.result()


def _finish(run: TableRun, on_report: OnReport, failures: Failures) -> bool:
    """Finish the run of a table; return False if it ended with an error."""
    error = run.finish(on_report)
    if error is not None:
        failures.add(run, error)
    return error is None
