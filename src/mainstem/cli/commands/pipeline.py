"""``mainstem pipeline``: run data pipelines on Spark, show their state, compare replays."""

import json
import os
import signal
import threading
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

import click
import msgspec

from mainstem.cli.arguments.units import parse_ms
from mainstem.cli.commands.pipeline_check import check
from mainstem.cli.commands.pipeline_diff import diff
from mainstem.cli.commands.pipeline_metrics import metrics
from mainstem.cli.confirmation import confirm, yes_option
from mainstem.cli.connection import at_option, server_address
from mainstem.cli.exit_codes import say
from mainstem.cli.help import Group
from mainstem.cli.output.progress import waiting
from mainstem.cli.output.tables import Format, Row, chosen, format_option, print_json, print_rows
from mainstem.cli.pipelines.pipeline_options import file_argument, name_option, state_option
from mainstem.cli.pipelines.pipeline_progress import steps_of
from mainstem.cli.pipelines.replay_range import EDGE, EDGE_HELP, check_edges, edges
from mainstem.cli.pipelines.spark_session import start_spark
from mainstem.cli.signals import leave_closed_terminal, stop_signals
from mainstem.pipelines.state.table_state import (
    Freshness,
    TableStatus,
    pipeline_directory,
    table_statuses,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from mainstem.pipelines.definitions.table import Pipeline
    from mainstem.pipelines.running.table_run import Report, Request

_ANSWER_S = 5.0


@click.group(
    cls=Group,
    epilog="""
    mainstem pipeline check shop.py
    mainstem pipeline run shop.py --stream
    mainstem pipeline run shop.py --batch --to 2026-11-15T09:00Z
    mainstem pipeline run shop.py --replay --into fixed
    mainstem pipeline diff shop.py fixed
    mainstem pipeline swap shop.py fixed --yes
    mainstem pipeline ls
    """,
)
def pipeline() -> None:
    """Run data pipelines on Spark, show their state, compare replays."""


pipeline.add_command(check)
pipeline.add_command(metrics)
pipeline.add_command(diff)


@pipeline.command(
    epilog="""
    mainstem pipeline run shop.py --stream --every 1s
    mainstem pipeline run shop.py --batch --to 2026-11-15T09:00Z
    mainstem pipeline run shop.py --batch --to end --complete
    mainstem pipeline run shop.py --batch --from 2026-11-15 --to +1d --into sunday
    mainstem pipeline run shop.py --replay --into fixed
    mainstem pipeline run shop.py --stream --master spark://host:7077
    mainstem pipeline run shop.py --stream --remote sc://host:15002
    """,
)
@file_argument
@click.option("--stream", "mode", flag_value="stream", help="Run until stopped.")
@click.option(
    "--batch", "mode", flag_value="batch", help="Continue from the checkpoint up to --to."
)
@click.option(
    "--replay", "mode", flag_value="replay", help="Run from the first event, into copies (--into)."
)
@click.option("--from", "begin", metavar=EDGE, help="With --batch: start here; needs --into.")
@click.option(
    "--to", "end", metavar=f"end|{EDGE}", default="end", show_default=True, help=EDGE_HELP
)
@click.option("--into", metavar="NAME", help="Write copies of the tables under this name.")
@click.option("--complete", is_flag=True, help="The input is complete: close open windows.")
@click.option(
    "--every",
    metavar="DURATION",
    default="0s",
    show_default=True,
    help="Minimum time between the starts of two batches.",
)
@click.option(
    "--only",
    metavar="TABLE",
    multiple=True,
    help="Run only this table (repeatable). Tables that it reads must have run, or be given, too.",
)
@click.option("--max-rows", type=click.IntRange(1), help="Maximum events per batch and topic.")
@click.option("--master", default="local[*]", show_default=True, help="Spark master.")
@click.option("--remote", metavar="sc://HOST:PORT", help="Spark Connect server; replaces --master.")
@click.option("--conf", metavar="NAME=VALUE", multiple=True, help="Spark setting (repeatable).")
@name_option
@state_option
@at_option
def run(
    *,
    file: Path,
    mode: str | None,
    begin: str | None,
    end: str,
    into: str | None,
    complete: bool,
    every: str,
    only: tuple[str, ...],
    max_rows: int | None,
    master: str,
    remote: str | None,
    conf: tuple[str, ...],
    name: str | None,
    state: Path,
    at: str | None,
) -> None:
    """Run a pipeline file: as a stream, up to a point, over a range, or again from the start.

    --stream, and --batch without --from, continue from the pipeline's checkpoint. Ctrl-C, SIGTERM
    and a closed terminal let the current batch finish. Progress is printed as text on a terminal,
    as JSON lines in a pipe.
    """
    from mainstem.pipelines.definitions.load import load  # noqa: PLC0415 - only what is used
    from mainstem.pipelines.session import end_session  # noqa: PLC0415

    _check_mode(mode, begin, into, end, complete=complete)
    starting, ending = edges(begin, None if end == "end" else end)
    settings = _settings(conf)
    if remote and not remote.startswith("sc://"):
        raise click.BadParameter(f"{remote!r} must begin with sc://", param_hint="--remote")
    loaded = load(file, name)
    check_edges(loaded, starting, ending)
    address = server_address(at, "pipelines")
    _check_answers(address)
    # Spark's workers import modules beside the pipeline file by name.
    beside = (str(loaded.file.parent), os.environ.get("PYTHONPATH", ""))
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, beside))
    spark = start_spark(remote or master, **settings)
    from mainstem.pipelines.planning.planner import Bounds  # noqa: PLC0415 - these need Spark
    from mainstem.pipelines.running.table_run import Request  # noqa: PLC0415

    bounds = Bounds(starting=starting, ending=ending, max_rows=max_rows)
    request = Request(
        address=address,
        state=state,
        mode="stream" if mode == "stream" else "batch",
        bounds=bounds,
        into=into,
        complete=complete,
        interval_ms=parse_ms(every),
        only=only,
    )
    try:
        if not remote and "spark.log.level" not in settings:
            from mainstem.pipelines.spark.jvm import log_to  # noqa: PLC0415 - needs Spark

            log_to(spark, pipeline_directory(state, loaded.name, into) / "spark.log")
        with waiting("planning", steps_of(spark)):
            _run(spark, loaded, request)
    finally:
        end_session(spark)


def _run(spark: "SparkSession", loaded: "Pipeline", request: "Request") -> None:
    from mainstem.pipelines.running.pipeline_run import run as run_pipeline  # noqa: PLC0415 - needs Spark

    stop = threading.Event()

    def stopping(number: int, frame: FrameType | None) -> None:
        leave_closed_terminal()
        if stop.is_set():
            raise SystemExit(128 + number)
        say("stopping after this batch; repeat to stop at once")
        stop.set()

    # Set again here, because starting Spark has installed PySpark's own handler.
    before = {each: signal.signal(each, stopping) for each in stop_signals()}
    lost: list[OSError] = []

    def tell(report: "Report") -> None:
        # If nobody reads stdout any more, stop after the current batch.
        try:
            if not lost:
                _tell(report)
        except OSError as error:
            lost.append(error)
            stop.set()

    try:
        found = run_pipeline(spark, loaded, request, tell, stop, say)
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
    if lost:
        raise lost[0]
    _summary(found)


def _check_mode(
    mode: str | None, begin: str | None, into: str | None, end: str, *, complete: bool
) -> None:
    if mode is None:
        raise click.UsageError("choose --stream, --batch --to ..., or --replay --into NAME")
    if mode == "stream" and (begin or into or complete or end != "end"):
        raise click.UsageError("--from, --to, --into and --complete are for --batch and --replay")
    if mode == "replay" and (begin or not into):
        raise click.UsageError("--replay starts at the first event, so no --from; add --into NAME")
    if mode == "batch" and bool(begin) != bool(into):
        raise click.UsageError("--batch: use --from and --into NAME together, or neither")
    if into and not into.isidentifier():
        raise click.BadParameter(f"{into!r} must be letters, digits and _", param_hint="--into")


def _settings(given: tuple[str, ...]) -> dict[str, str]:
    pairs = [each.partition("=") for each in given]
    for name, equals, _ in pairs:
        if not equals or not name.startswith("spark."):
            raise click.BadParameter("write spark.NAME=VALUE", param_hint="--conf")
    return {name: value for name, _, value in pairs}


def _check_answers(address: str) -> None:
    """Raise Unreachable if no server responds; Spark would take minutes to notice."""
    from mainstem.remote.admin import Admin  # noqa: PLC0415 - slow to load
    from mainstem.remote.cluster import Cluster  # noqa: PLC0415

    cluster = Cluster(address, timeout_s=_ANSWER_S, settings={})
    cluster.check_reachable()
    administration = Admin(cluster)
    try:
        administration.partitions()
    finally:
        administration.close()


# Output


def _tell(report: "Report") -> None:
    status, batch = report.status, report.batch
    # If this batch had no changes, the freshness is that of an earlier batch.
    fresh = (
        status.freshness if status.freshness and status.freshness.at_ms == batch.stored_ms else None
    )
    row = {
        "table": report.table,
        "batch": batch.number,
        "events": batch.events,
        "events_total": status.events,
        "events_per_second": round(batch.rows_per_second),
        "duration_ms": batch.duration_ms,
        "watermark": status.watermark,
        "state_rows": status.state_rows,
        "bad": status.bad,
        "late": status.late,
        "freshness_ms": fresh.last_ms if fresh else None,
    }
    if chosen(None) != "table":
        print_json(row)
        return
    wrong = f", {status.bad} bad" * bool(status.bad) + f", {status.late} late" * bool(status.late)
    wrong += f", {fresh.last_ms:,} ms after the commit" if fresh else ""
    click.echo(
        f"{report.table:<24} batch {batch.number:>5}  {batch.events:>9,} events in "
        f"{batch.duration_ms / 1000:6.1f} s  {batch.rows_per_second:>9,.0f}/s  "
        f"total {status.events:,}{wrong}"
    )


def _summary(found: dict[str, TableStatus]) -> None:
    for name, status in found.items():
        if not status.exact:
            say(
                f"table {name}: {status.late} events were later than the watermark "
                f"({status.dropped_rows} rows dropped), so a stream, a batch and a replay may "
                "give different tables"
            )
        for expected, count in status.expectations.items():
            if count:
                say(f"table {name}: {count} events did not fulfil {expected!r}")
        if status.bad:
            say(f"table {name}: {status.bad} bad events, written to the dead letters")
    if chosen(None) == "table":
        print_rows([_row(name, each) for name, each in found.items()], None)


def _row(table: str, status: TableStatus) -> Row:
    return {
        "table": table,
        "state": status.state,
        "batch": status.batch,
        "events": status.events,
        "bad": status.bad,
        "late": status.late,
        "watermark": status.watermark,
        "sink": status.sink,
    }


@pipeline.command("ls", epilog="mainstem pipeline ls")
@state_option
@format_option
def list_pipelines(state: Path, form: Format | None) -> None:
    """List the tables of all pipelines: state, lag, watermark, bad and late events."""
    found = table_statuses(state)
    rows = [
        {"pipeline": name, **_row(table, status), **_lag(status), **_failure(status)}
        for name, table, status in found
    ]
    _tell_damaged(found)
    print_rows(rows, form, empty="no pipeline has run here; mainstem pipeline run FILE --stream")


@pipeline.command(epilog="mainstem pipeline show shop")
@click.argument("name")
@state_option
@format_option
def show(name: str, state: Path, form: Format | None) -> None:
    """Show the tables of a pipeline: offsets, state size, freshness, and the last error."""
    documents: list[Row] = []
    found = table_statuses(state, name)
    _tell_damaged(found)
    for _, table, status in found:
        document = {"table": table, **msgspec.to_builtins(status), **_lag(status)}
        documents.append(document)
    if chosen(form) != "table":
        print_rows(documents, form)
        return
    for each in documents:
        for key, value in each.items():
            click.echo(f"{key:<16} {_shown(key, value)}")
        click.echo()


def _tell_damaged(found: list[tuple[str, str, TableStatus]]) -> None:
    for name, table, status in found:
        if status.state == "damaged" and status.failure is not None:
            say(f"table {table} of {name}: {status.failure.reason}")


def _shown(key: str, value: object) -> str:
    if value is None:
        return "-"
    if key == "freshness":
        return str(msgspec.convert(value, Freshness))
    return json.dumps(value) if isinstance(value, (dict, list)) else str(value)


def _lag(status: TableStatus) -> dict[str, object]:
    from mainstem.pipelines.running.lag import lag_of  # noqa: PLC0415 - librdkafka is slow to load

    lag = lag_of(status) if status.offsets else None
    return {
        "lag": lag.events if lag else None,
        "lag_ms": lag.age_ms if lag else None,
        "seen": _moment(status.updated_ms) if status.updated_ms else None,
    }


def _failure(status: TableStatus) -> dict[str, object]:
    waiting = f"waiting: {status.waiting}" if status.waiting else None
    return {"failure": status.failure.reason if status.failure else waiting}


def _moment(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="seconds")


@pipeline.command(epilog="mainstem pipeline swap shop.py fixed --yes")
@file_argument
@click.argument("into", metavar="NAME")
@name_option
@state_option
@yes_option
def swap(*, file: Path, into: str, name: str | None, state: Path, yes: bool) -> None:
    """Replace the tables by the copies of a replay, and continue from there.

    The replaced tables are kept as before-NAME.
    """
    from mainstem.pipelines.definitions.load import load  # noqa: PLC0415
    from mainstem.pipelines.running.replay import swap as exchange  # noqa: PLC0415 - only what is used

    loaded = load(file, name)
    confirm(f"replace the {len(loaded.tables)} tables of {loaded.name} by {into}", yes=yes)
    exchange(loaded, into, state)
    say(f"{loaded.name} continues from {into}; the replaced tables are kept as before-{into}")
