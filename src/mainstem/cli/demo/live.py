"""The demo of ``./run``: a server, a generator of events, a Spark pipeline, and its tables.

Beside them runs a shop in a PostgreSQL, whose changes a connector captures. Without Java, or
without Spark, the demo only serves the log, and says so; without PostgreSQL, there is no shop.
"""

import os
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from datetime import UTC, datetime
from pathlib import Path

import click

import mainstem
from mainstem.cli.demo.companions import Companion, companion
from mainstem.cli.demo.events import TOPICS, sample_events
from mainstem.cli.demo.processes import TURN_S, Stop, pipeline_running, serving, serving_options
from mainstem.cli.demo.shop import Shop
from mainstem.cli.demo.shop_screen import is_equal, shop_picture
from mainstem.cli.exit_codes import Exit, say
from mainstem.cli.output.tables import table
from mainstem.core.errors import MainstemError, UnknownTopic
from mainstem.pipelines.definitions.load import load
from mainstem.pipelines.definitions.table import Pipeline, Table
from mainstem.pipelines.spark.requirements import MissingJava, MissingSpark, find_java, find_spark
from mainstem.pipelines.state.table_state import TableStatus, table_statuses

_TABLES = Path(__file__).with_name("pipeline") / "tables.py"
_CATCH_UP_S = 60
_CLEAR = "\x1b[2J\x1b[H"


@click.command()
@serving_options
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
        beside = _companions(stack)
        lifelines = [each.lifeline for each in beside.values()]
        address, lifeline = stack.enter_context(serving(serve, stop, lifelines))
        generator = Generator(address)
        shop = _shop(address, beside, stack)
        lifelines.append(lifeline)
        runs = stack.enter_context(pipeline_running(_TABLES, address, work, lifelines, stop))
        head = introduction(address, directory, work)
        ended = _show(head, Sources(generator, shop), work, stop, seconds, runs)
    sys.exit(ended)


def _companions(stack: ExitStack) -> dict[str, Companion]:
    """Start PostgreSQL and Redis; return both by kind, after printing which cannot run."""
    found = {"postgres": stack.enter_context(companion("postgres"))}
    if found["postgres"].address:
        os.environ["MAINSTEM_SAMPLE_SHOP"] = "1"
        found["redis"] = stack.enter_context(companion("redis"))
        if found["redis"].address:
            os.environ["MAINSTEM_SAMPLE_REDIS"] = found["redis"].address
        else:
            say(f"no cache of the shop here: {found['redis'].reason}")
    else:
        say(f"no shop here: {found['postgres'].reason}")
    return found


def _shop(address: str, beside: Mapping[str, Companion], stack: ExitStack) -> Shop | None:
    if not beside["postgres"].address:
        return None
    shop = Shop(address, beside["postgres"].address)
    stack.callback(shop.close)
    return shop


class Generator:
    """Publishes sample events in a thread."""

    def __init__(self, address: str) -> None:
        self.counts = dict.fromkeys(TOPICS, 0)
        self.failure: MainstemError | None = None
        self._stem = mainstem.connect(address)
        for topic in TOPICS:
            # Delete the events of an earlier run.
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
    """Return the text printed first: how to connect to the server, and where the files are."""
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
    """Return how many rows of each table fit on a terminal with ``height`` lines left."""
    # Each table has two title lines, and an empty line if there is room.
    fit = (height - 13) // tables - 2
    return min(6, fit - 1 if fit > 1 else 1)


class Sources:
    """The publishers of the demo: the generator, and the shop if there is one."""

    def __init__(self, generator: Generator, shop: Shop | None) -> None:
        self.generator, self.shop = generator, shop

    @property
    def failure(self) -> Exception | None:
        """The error that ended one of them; None if both run."""
        return self.generator.failure or (self.shop.failure if self.shop else None)

    def stop(self) -> None:
        """Stop publishing events and changing the database."""
        self.generator.close()
        if self.shop:
            self.shop.stop()

    def behind(self, pipeline: Pipeline) -> bool:
        """Return whether the tables lack published events, or committed changes."""
        known = _known()
        counts = self.generator.counts
        return any(
            known[each.name].events < counts[each.sources[0].name]
            for each in _sampled(pipeline)
            if each.name in known
        ) or (self.shop is not None and not is_equal(self.shop, pipeline))


def _show(
    head: str,
    sources: Sources,
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
            if sources.failure is not None or runs.poll() is not None:
                break
            if live:
                size = shutil.get_terminal_size()
                rows = rows_for(size.lines, len(_sampled(pipeline)))
                picture = _picture(sources, pipeline, rows).splitlines()
                fitting = picture[: max(0, size.lines - len(head.splitlines()) - 2)]
                shown = "\n".join(each[: size.columns] for each in fitting)
                click.echo(f"{_CLEAR}{head}\n\n{shown}", nl=False)
    finally:
        sources.stop()
    # The last events reach the tables a moment after they were published.
    until = time.monotonic() + _CATCH_UP_S
    while sources.behind(pipeline) and runs.poll() is None and time.monotonic() < until:
        if stop.hurry.wait(TURN_S):
            break
    click.echo(f"{_CLEAR * live}{_picture(sources, pipeline, rows=12)}")
    if sources.shop and not stop.hurry.is_set():
        equal = "equal" if is_equal(sources.shop, pipeline) else "do not yet equal"
        click.echo(f"shop: index, history{_and_cache()} {equal} the database")
    if sources.failure is not None:
        say(str(sources.failure))
    if runs.poll() is not None:
        said = Path("pipeline.log").read_text(errors="replace").strip().splitlines()
        say(f"the pipeline ended by itself: {said[-1] if said else 'without a word'}")
    return Exit.OK if sources.failure is None and runs.poll() is None else Exit.ERROR


def _and_cache() -> str:
    return " and cache" if "MAINSTEM_SAMPLE_REDIS" in os.environ else ""


def _sampled(pipeline: Pipeline) -> list[Table]:
    """Return the tables that are made from the generator's events."""
    return [each for each in pipeline.tables if each.sources[0].name in TOPICS]


def _known() -> dict[str, TableStatus]:
    return {name: status for _, name, status in table_statuses(Path("mainstem-pipelines"))}


def _picture(sources: Sources, pipeline: Pipeline, rows: int) -> str:
    known = _known()
    lines = [shop_picture(sources.shop, pipeline, known)] if sources.shop else []
    for each in _sampled(pipeline):
        status = known.get(each.name, TableStatus("stopped"))
        published = sources.generator.counts[each.sources[0].name]
        lines.append(
            f"{each.name}: {published:,} published, {status.events:,} in the table, "
            f"{status.late} late, {status.bad} bad, batch {status.batch}, {status.state}"
        )
        found = each.sink.read()
        newest = found.sort_by([(found.column_names[0], "descending")]) if found else None
        shown = newest.slice(0, rows).to_pylist() if newest else []
        lines.append(table(shown) if shown else "  nothing yet: Spark is starting")
        lines += [""] * (rows > 1)
    return "\n".join(lines)


if __name__ == "__main__":
    main()
