"""Kafka clients against mainstem and against Apache Kafka, in one run.

    python -m bench.kafka.beside            measure, and write docs/benchmarks/kafka.md
    python -m bench.kafka.beside --quick    tiny numbers; prints, and writes nothing

Apache Kafka is one node with its own controller, started as its own script would start it
(``bench/apache_kafka.py``; its jars are in .cache/kafka once .ci/run has been there). Both are
measured in turn, round by round; the first round of everything is thrown away, since a JVM has to
warm up. ``disk`` stands beside Kafka's defaults: both survive kill -9, not a power cut; ``fsync``
beside ``flush.messages=1``: both sync before they acknowledge.
"""

import argparse
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import median

import msgspec
from bench.apache_kafka import ApacheKafka, missing
from bench.chart import Bars, clusters
from bench.kafka.__main__ import DOCS, say
from bench.kafka.measuring import (
    Compared,
    Delay,
    Figures,
    Process,
    Taken,
    Taking,
    loading,
    ready_ms,
    started,
)
from bench.kafka.page import table
from bench.kafka.plan import PEERS, QUICK, Cell, Plan
from bench.kafka.processes import Usage
from bench.kafka.systems import Kafka, Mainstem, System

from mainstem.cli.bench import machine, write_section

NOTES = """\
The same client (librdkafka through confluent-kafka, in a process of its own, acks=all) drives both
in turn, round by round; a first round of everything is not counted, as a JVM has to warm up. Apache
Kafka {version} is one node with its own controller (KRaft), 1 GB of heap as in its start script.
`disk` stands beside Kafka's defaults, `fsync` beside `flush.messages=1`, which syncs before it
acknowledges as well. Ratio is mainstem to Kafka, the median of the rounds; so is every other
figure. CPU is user and system time of the whole server process, in microseconds per event."""

Pair = tuple[System, System]


class Beside:
    """Two pairs of systems, measured one after the other."""

    def __init__(self, pairs: Sequence[Pair], taking: Taking, plan: Plan) -> None:
        self._pairs = pairs
        self._taking = taking
        self._plan = plan

    def produce(self) -> Iterator[Compared]:
        """Produce everything to every system."""
        for cell in self._plan.cells:
            for pair in self._pairs:
                yield self._row("produce", cell, 1, pair, self._produced)

    def consume(self) -> Iterator[Compared]:
        """Read everything back, and one topic with many readers at once."""
        pair = self._pairs[0]
        for cell in self._plan.cells:
            yield self._row("consume", cell, 1, pair, self._consumed)
        many = self._plan.readers
        what = f"consume, {many} readers at once"
        yield self._row(what, self._plan.fan_out, many, pair, self._consumed)

    def delays(self) -> Iterator[Delay]:
        """Send at a steady rate, and take how old the events are when they come."""
        systems = [system for pair in self._pairs for system in pair]
        found = [Delay(system.name) for system in systems]
        with loading() as reader:
            for number in range(-1, self._plan.rounds):
                for system, delay in zip(systems, found, strict=True):
                    taken = delay if number >= 0 else Delay("")
                    topic = f"pace-{number + 1}-1"
                    self._taking.pace(system, reader, topic, self._plan, taken)
        yield from found

    def _row(
        self,
        what: str,
        cell: Cell,
        readers: int,
        pair: Pair,
        take: Callable[[System, Cell, int, Taken], None],
    ) -> Compared:
        row = Compared(what, pair[0].name, cell, readers)
        for number in range(-1, self._plan.rounds):
            for system, taken in zip(pair, (row.ours, row.raw), strict=True):
                take(system, cell, readers, taken if number >= 0 else Taken())
        return row

    def _produced(self, system: System, cell: Cell, readers: int, taken: Taken) -> None:
        self._taking.fill(system, cell, taken)
        system.delete(cell.topic)

    def _consumed(self, system: System, cell: Cell, readers: int, taken: Taken) -> None:
        self._taking.fill(system, cell, Taken())
        self._taking.read(system, cell, readers, taken)
        system.delete(cell.topic)


def measure(directory: Path, plan: Plan) -> Figures:
    figures = Figures()
    say("starting")
    ready = ready_ms(directory, plan.starts)
    theirs = median(_kafka_ready_ms(directory / f"start-{n}") for n in range(plan.starts))
    server = ApacheKafka(directory / "kafka", Kafka.OPTIONS)
    disk, fsync = (Mainstem(directory / each, each) for each in ("disk", "fsync"))
    kafka, synced = (Kafka(server, synced=each) for each in (False, True))
    with ExitStack() as stack:
        load = stack.enter_context(loading())
        stack.enter_context(started(disk))
        stack.enter_context(started(fsync))
        server.start()
        stack.callback(server.stop)
        kafka.start()
        synced.start()
        idle = [disk.usage.memory_mb, Usage.of(server.pid).memory_mb]
        beside = Beside(((disk, kafka), (fsync, synced)), Taking(load), plan)
        for row in (*beside.produce(), *beside.consume()):
            say(f"{row.what}: {row.cell.topic}, {row.cell.way.name}, {row.system}: {row.ratio:.2f}")
            figures.rows.append(row)
        say("latency")
        figures.delays += beside.delays()
        loaded = [disk.usage.memory_mb, Usage.of(server.pid).memory_mb]
    figures.processes.append(Process("mainstem", ready, idle[0], loaded[0]))
    figures.processes.append(Process("Apache Kafka", theirs, idle[1], loaded[1]))
    return figures


def _kafka_ready_ms(directory: Path) -> float:
    server = ApacheKafka(directory, Kafka.OPTIONS)
    server.format()
    began = time.perf_counter()
    server.start()
    ready = (time.perf_counter() - began) * 1000
    server.stop()
    return ready


def page(figures: Figures, about: str, version: str) -> str:
    produce = [row for row in figures.rows if row.what == "produce"]
    consume = [row for row in figures.rows if row.what != "produce"]
    delays = [
        (each.system, f"{median(each.p50_ms):.2f}", f"{median(each.p99_ms):.2f}")
        for each in figures.delays
    ]
    processes = [
        (each.system, f"{each.ready_ms:,.0f}", f"{each.idle_mb:,.0f}", f"{each.loaded_mb:,.0f}")
        for each in figures.processes
    ]
    return "\n\n".join(
        (
            f"## Beside Apache Kafka\n\n{about}\n\n{NOTES.format(version=version)}",
            "![Rates as multiples of Apache Kafka's](kafka-beside.svg)",
            "### Produce, beside Apache Kafka\n\n" + _table(produce),
            "### Consume, beside Apache Kafka\n\n" + _table(consume),
            "### End to end, beside Apache Kafka\n\nAt 1,000 events of 100 bytes per second.\n\n"
            + table(("system", "p50, ms", "p99, ms"), delays),
            "### The process, beside Apache Kafka\n\nReady: from starting it to the first answer; "
            "of Kafka without formatting its directory.\n\n"
            + table(("system", "ready, ms", "memory idle, MB", "after the run, MB"), processes),
        )
    )


def _table(rows: Sequence[Compared]) -> str:
    head = (
        "event",
        "client",
        "partitions",
        "mainstem",
        "events/s",
        "Kafka's",
        "ratio",
        "CPU, µs",
        "Kafka's CPU",
    )
    return table(head, [_cells(row) for row in rows])


def _cells(row: Compared) -> tuple[str, ...]:
    events = row.cell.events * row.readers
    return (
        f"{row.cell.size} B",
        row.cell.way.name + ("" if row.what in ("produce", "consume") else f"; {row.what}"),
        f"{row.cell.partitions}",
        row.system.removeprefix("mainstem, "),
        f"{median(row.ours.per_second):,.0f}",
        f"{median(row.raw.per_second):,.0f}",
        f"{row.ratio:.2f}",
        f"{median(row.ours.broker_cpu_s) / events * 1e6:.1f}",
        f"{median(row.raw.broker_cpu_s) / events * 1e6:.1f}",
    )


def draw(figures: Figures) -> str:
    """Return an SVG: a cluster for each way to produce, events of 1 KB, one partition."""
    series = (
        ("produce", "disk", "#2b6cb0"),
        ("produce", "fsync", "#2f855a"),
        ("consume", "disk", "#b7791f"),
    )
    rows = [row for row in figures.rows if (row.cell.size, row.cell.partitions) == (1000, 1)]
    found = []
    for way in dict.fromkeys(row.cell.way.name for row in rows):
        of_way = [row for row in rows if row.cell.way.name == way]
        shares = [
            next((r.ratio for r in of_way if r.what == what and r.system.endswith(kept)), 0.0)
            for what, kept, _ in series
        ]
        first, _, second = way.partition(", ")
        found.append(Bars((first, second), shares))
    names = [(f"{what}, {kept}", colour) for what, kept, colour in series]
    title = "Events of 1 KB, one partition: rates as multiples of Apache Kafka's"
    return clusters(title, names, found, band=(1.0, 2.0), note="grey band: once to twice Kafka's")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.kafka.beside")
    parser.add_argument("--dir", type=Path, default=Path(), help="where to make the logs")
    parser.add_argument("--quick", action="store_true", help="tiny numbers; writes nothing")
    options = parser.parse_args()
    if reason := missing():
        parser.error(reason)
    plan = QUICK if options.quick else PEERS
    directory = Path(tempfile.mkdtemp(prefix=".mainstem-beside-", dir=options.dir)).absolute()
    try:
        figures = measure(directory, plan)
    finally:
        shutil.rmtree(directory)
    about = (
        f"Command: `python -m bench.kafka.beside`. Machine: {machine()}. "
        f"Median of {plan.rounds} rounds."
    )
    text = page(figures, about, ApacheKafka.version())
    print(text)
    if not options.quick:
        kept = msgspec.json.format(msgspec.json.encode(figures), indent=1)
        (DOCS / "kafka-beside.json").write_bytes(kept + b"\n")
        write_section(DOCS / "kafka.md", "beside", text)
        (DOCS / "kafka-beside.svg").write_text(draw(figures))


if __name__ == "__main__":
    main()
