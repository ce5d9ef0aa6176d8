"""The demo that ``./run`` starts: a server, a generator of events, a pipeline, its tables, live.

Without Java, or without Spark, it says so and serves the log alone.
"""

import os
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import ExitStack, suppress
from datetime import UTC, datetime
from pathlib import Path

import click

import mainstem
from mainstem.cli.connection import DEFAULT_DIRECTORY
from mainstem.cli.demo.events import TOPICS, sample_events
from mainstem.cli.demo.processes import TURN_S, Stop, pipeline_running, serving
from mainstem.cli.exit_codes import Exit, say
from mainstem.cli.table_output import table
from mainstem.core.errors import MainstemError, UnknownTopic
from mainstem.pipelines.definitions.load import load
from mainstem.pipelines.definitions.table import Pipeline
from mainstem.pipelines.spark.requirements import MissingJava, MissingSpark, find_java, find_spark
from mainstem.pipelines.state.table_state import TableStatus, table_statuses

_TABLES = Path(__file__).with_name("pipeline") / "tables.py"
_CATCH_UP_S = 30
_CLEAR = "\x1b[2J\x1b[H"


@click.command()
@click.argument("directory", default=DEFAULT_DIRECTORY)
@click.option("--for", "seconds", type=float, help="Stop after this many seconds.")
@click.option("--kafka", default="127.0.0.1:9092", help="Where Kafka clients connect.")
def main(directory: str, seconds: float | None, kafka: str) -> None:
    """Serve a log, publish sample events, run the sample pipeline and show its tables."""
    serve = ["serve", directory, "--kafka", kafka]
    try:
        find_spark()
        find_java()
    except (MissingJava, MissingSpark) as missing:
        say(f"no pipelines here: {missing}; serving the log alone")
        os.execv(sys.executable, [sys.executable, "-m", "mainstem", *serve])
    stop = Stop()
    with ExitStack() as stack:
        work = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="mainstem-sample-")))
        address, lifeline = stack.enter_context(serving(serve, stop))
        generator = Generator(address)
        runs = stack.enter_context(pipeline_running(_TABLES, address, work, lifeline, stop))
        head = introduction(address, directory, work)
        ended = _show(head, generator, work, stop, seconds, runs)
    sys.exit(ended)


class Generator:
    """Publishes sample events in a thread."""

    def __init__(self, address: str) -> None:
        self.counts = dict.fromkeys(TOPICS, 0)
        self.failure: MainstemError | None = None
        self._stem = mainstem.connect(address)
        for topic in TOPICS:
            # Events of an earlier run are not needed.
            with suppress(UnknownTopic):
                self._stem.topics.delete(topic)
            self._stem.topics.create(topic, partitions=2, durability="disk")
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work)
        self._thread.start()

    def close(self) -> None:
        """Stop publishing."""
        self._stop.set()
        self._thread.join()
        self._stem.close()

    def _work(self) -> None:
        chance = random.Random()
        try:
            while not self._stop.wait(TURN_S):
                found = list(sample_events(chance, datetime.now(UTC)))
                for topic in TOPICS:
                    events = [event for each, event in found if each == topic]
                    self.counts[topic] += self._stem.publish_many(topic, events)
        except MainstemError as error:
            self.failure = error


def introduction(address: str, directory: str, work: Path) -> str:
    """Return the text that tells how to connect to the demo's server, and where its files are."""
    program = Path(sys.executable).with_name("mainstem")
    lines = [
        f"mainstem serves {Path(directory).resolve()} at {address}",
        f"  read    kcat -C -b {address} -t {TOPICS[0]}",
        f"          {program} sub {TOPICS[0]} --at {address}",
        f"  tables  {work / 'tables'} (until this ends)",
        "  stop    Ctrl-C",
    ]
    return "\n".join(lines)


def rows_for(height: int, tables: int) -> int:
    """Return how many rows of each table fit on the terminal, below the introduction."""
    # Each table has two titles and an empty line.
    return min(6, max(1, (height - 7) // tables - 3))


def _show(
    head: str,
    generator: Generator,
    work: Path,
    stop: Stop,
    seconds: float | None,
    runs: "subprocess.Popen[bytes]",
) -> int:
    """Show the tables until the demo ends, then a summary; return the exit code."""
    os.chdir(work)
    pipeline = load(_TABLES, "sample")
    until = time.monotonic() + seconds if seconds else float("inf")
    live = sys.stdout.isatty()
    if not live:
        say("tables are shown live on a terminal only; a summary comes in the end")
    try:
        while not stop.asked.wait(1.0) and time.monotonic() < until:
            if generator.failure is not None or runs.poll() is not None:
                break
            if live:
                rows = rows_for(shutil.get_terminal_size().lines, len(pipeline.tables))
                click.echo(f"{_CLEAR}{head}\n\n{_picture(generator, pipeline, rows)}", nl=False)
    finally:
        generator.close()
    # The last events reach the tables a moment later.
    until = time.monotonic() + _CATCH_UP_S
    while _behind(generator, pipeline) and runs.poll() is None and time.monotonic() < until:
        if stop.hurry.wait(TURN_S):
            break
    click.echo(f"{_CLEAR * live}{_picture(generator, pipeline, rows=12)}")
    if generator.failure is not None:
        say(str(generator.failure))
    if runs.poll() is not None:
        said = Path("pipeline.log").read_text(errors="replace").strip().splitlines()
        say(f"the pipeline ended by itself: {said[-1] if said else 'without a word'}")
    return Exit.OK if generator.failure is None and runs.poll() is None else Exit.ERROR


def _behind(generator: Generator, pipeline: Pipeline) -> bool:
    known = _known()
    return any(
        known[each.name].events < generator.counts[each.sources[0].name]
        for each in pipeline.tables
        if each.name in known
    )


def _known() -> dict[str, TableStatus]:
    return {name: status for _, name, status in table_statuses(Path("mainstem-pipelines"))}


def _picture(generator: Generator, pipeline: Pipeline, rows: int) -> str:
    known = _known()
    lines = []
    for each in pipeline.tables:
        status = known.get(each.name, TableStatus("stopped"))
        published = generator.counts[each.sources[0].name]
        lines.append(
            f"{each.name}: {published:,} published, {status.events:,} in the table, "
            f"{status.late} late, {status.bad} bad, batch {status.batch}, {status.state}"
        )
        found = each.sink.read()
        newest = found.sort_by([(found.column_names[0], "descending")]) if found else None
        shown = newest.slice(0, rows).to_pylist() if newest else []
        lines.append(f"{table(shown)}\n" if shown else "  nothing yet: Spark is starting\n")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
