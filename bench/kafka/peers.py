"""Compares mainstem with its peers, Apache Kafka and NATS JetStream, in one run.

    python -m bench.kafka.peers            measure, and write docs/benchmarks/kafka.md
    python -m bench.kafka.peers --quick    tiny numbers; prints, and writes nothing
    python -m bench.kafka.peers --only "produce, synced: 1000 B"
                                            the rows whose names have this in them; writes nothing
    python -m bench.kafka.peers --again    write page and chart from kafka-peers.json

Apache Kafka is one node with its own controller, started as its own script would start it
(``bench/apache_kafka.py``; its jars are in .cache/kafka once .ci/run has been there). NATS is two
servers, of which one syncs before it answers (``nats.py``).

How this works: the systems take turns, round by round, and who begins changes. Before the rounds
that count, each gets more and more events until a turn takes about ``TURN_S``, or has as many as
the plan says, which warms it up as well. After each turn the server is asked how many it holds.
"""

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import NamedTuple, Protocol

import msgspec
from bench.apache_kafka import ApacheKafka
from bench.apache_kafka import missing as missing_kafka
from bench.kafka.__main__ import DOCS, say
from bench.kafka.measuring import Delay, Process, Taken, Taking, loading, ready_ms, started
from bench.kafka.nats import Nats
from bench.kafka.nats import missing as missing_nats
from bench.kafka.peers_page import KAFKA, NATS, OURS, Row, Standing, Turn, draw, page
from bench.kafka.plan import PEERS, QUICK_PEERS, ROUND_TRIPS, SINGLE, TURN_S, Cell, Plan
from bench.kafka.processes import Load
from bench.kafka.systems import Kafka, Mainstem, System, usage

from mainstem.cli.benchmarks.report import machine, write_section

READS = 4
"""Reads of a topic per round: one read takes only a fraction of a second."""
TRIAL_SHARE = 50
"""The first trial has 1/50 of the events; with fewer, fixed costs of a turn would dominate."""


class Counting(System, Protocol):
    """A system that can say how many events it holds."""

    def count(self, topic: str, partitions: int) -> int:
        """Return how many events a topic holds."""


class Side(NamedTuple):
    """A system, its name in the tables, and two load processes that speak its protocol."""

    name: str
    system: Counting
    taking: Taking
    reader: Load


class Comparison:
    """Measures all systems in turn: with default settings, and with a sync before each answer."""

    def __init__(self, disk: Sequence[Side], synced: Sequence[Side], plan: Plan, only: str) -> None:
        self._disk = disk
        self._synced = synced
        self._plan = plan
        self._only = only

    def warm_up(self) -> None:
        """Warm up every system: a JVM needs more than one turn."""
        singles = [each for each in self._plan.cells if each.way.name == SINGLE.name]
        for cell in singles[: self._plan.warm_ups]:
            for side in self._disk:
                side.system.create(cell.topic, cell.partitions)
                enough = self._enough(side, cell)
                self._read(side, enough, 1)
                side.system.delete(cell.topic)

    def rows(self) -> Iterator[Row]:
        """Produce everything to every system, and read it back; one topic with many readers."""
        for cell in self._plan.cells:
            yield from self._produced(Row("produce, disk", cell), self._disk)
            yield from self._produced(Row("produce, synced", cell), self._synced)
        for cell in self._plan.cells:
            # They leave the same batches as those that do not wait.
            if cell.way != ROUND_TRIPS:
                yield from self._consumed(Row("consume", cell))
        many = self._plan.readers
        yield from self._consumed(Row(f"consume, {many} readers", self._plan.fan_out, many))

    def delays(self) -> Iterator[Delay]:
        """Send at a steady rate, and measure the age of events on arrival."""
        found = [(side, Delay(side.name)) for side in self._disk]
        found += [(side, Delay(f"{side.name}, synced")) for side in self._synced]
        for number in range(-min(1, self._plan.warm_ups), self._plan.rounds):
            for side, delay in found:
                taken = delay if number >= 0 else Delay("")
                topic = f"pace-{number + 1}-1"
                side.taking.pace(side.system, side.reader, topic, self._plan, taken)
        yield from (delay for _, delay in found)

    def _produced(self, row: Row, sides: Sequence[Side]) -> Iterator[Row]:
        if self._only not in row.name:
            return
        # One topic for all turns: to make and delete partitions is work that goes on for a while.
        for side in sides:
            side.system.create(row.cell.topic, row.cell.partitions)
        cells = {side.name: self._enough(side, row.cell) for side in sides}
        for number in range(self._plan.rounds):
            for side in _rotated(sides, number):
                row.add(side.name, self._once(side, cells[side.name]))
        for side in sides:
            side.system.delete(row.cell.topic)
        yield row

    def _enough(self, side: Side, cell: Cell) -> Cell:
        """Return the cell with enough events for a turn of ``TURN_S``, after warm-up turns."""
        most = round(cell.events / cell.way.share)
        cell = msgspec.structs.replace(cell, events=min(cell.events, most // TRIAL_SHARE))
        # The first long turn may be so because it is the first.
        long_turns = 0
        while self._plan.warm_ups and long_turns < 2:
            took_s = cell.events / self._once(side, cell).per_second
            if took_s >= TURN_S / 2:
                long_turns += 1
            elif cell.events == most:
                break
            else:
                factor = min(max(TURN_S / took_s, 2), 10)
                cell = msgspec.structs.replace(cell, events=min(most, round(cell.events * factor)))
        return cell

    def _once(self, side: Side, cell: Cell) -> Turn:
        """Produce to an existing topic."""
        taken, before = Taken(), side.system.count(cell.topic, cell.partitions)
        side.taking.add(side.system, cell, taken, touched=cell.partitions)
        self._check(side, cell, before)
        return _turn(taken, cell.events)

    def _check(self, side: Side, cell: Cell, before: int = 0) -> None:
        held = side.system.count(cell.topic, cell.partitions) - before
        if held < cell.events:
            raise SystemExit(f"{side.name} holds {held} of {cell.events} events: {cell}")

    def _consumed(self, row: Row) -> Iterator[Row]:
        if self._only not in row.name:
            return
        for side in self._disk:
            self._fill(side, row.cell)
        for number in range(-min(1, self._plan.warm_ups), self._plan.rounds * READS):
            for side in _rotated(self._disk, number):
                turn = self._read(side, row.cell, row.readers)
                if number >= 0:
                    row.add(side.name, turn)
        for side in self._disk:
            side.system.delete(row.cell.topic)
        yield row

    def _fill(self, side: Side, cell: Cell) -> None:
        side.taking.fill(side.system, cell, Taken(), touched=cell.partitions)
        self._check(side, cell)

    def _read(self, side: Side, cell: Cell, readers: int) -> Turn:
        taken = Taken()
        side.taking.read(side.system, cell, readers, taken, touched=cell.partitions)
        return _turn(taken, cell.events * readers)


def _turn(taken: Taken, events: int) -> Turn:
    (server_s,), (client_s,) = taken.broker_cpu_s, taken.client_cpu_s
    return Turn(taken.per_second[0], server_s / events * 1e6, client_s / events * 1e6)


def _rotated(sides: Sequence[Side], number: int) -> Sequence[Side]:
    at = number % len(sides)
    return [*sides[at:], *sides[:at]]


class Starting(Protocol):
    """What can be started and ended."""

    def start(self) -> None:
        """Start it, and wait until it answers."""

    def stop(self) -> None:
        """End it."""


def _ready_ms(kept: Starting, others: Sequence[Starting]) -> float:
    """Start and stop ``others``, start ``kept``; return the median start-up time."""
    took = []
    for each in (*others, kept):
        began = time.perf_counter()
        each.start()
        took.append((time.perf_counter() - began) * 1000)
        if each is not kept:
            each.stop()
    return median(took)


class Servers:
    """One process of each system, and their start-up times."""

    def __init__(self, directory: Path, starts: int, stack: ExitStack) -> None:
        again = range(starts - 1)
        kafka = _formatted(directory / "kafka")
        nats_server = Nats(directory / "nats")
        nats_synced = Nats(directory / "nats-synced", synced=True)
        self.ready_ms = {
            OURS: ready_ms(directory, starts),
            KAFKA: _ready_ms(kafka, [_formatted(directory / f"kafka-{each}") for each in again]),
        }
        stack.callback(kafka.stop)
        others = [Nats(directory / f"nats-{each}") for each in again]
        self.ready_ms[NATS] = _ready_ms(nats_server, others)
        stack.callback(nats_server.stop)
        disk = Mainstem(directory / "disk", "disk")
        fsync = Mainstem(directory / "disk", "fsync", served_by=disk)
        unflushed, flushed = Kafka(kafka, synced=False), Kafka(kafka, synced=True)
        for system in (disk, fsync, unflushed, flushed, nats_synced):
            stack.enter_context(started(system))
        clients = Taking(stack.enter_context(loading())), stack.enter_context(loading())
        bare = "bench.kafka.nats_load"
        bare_clients = (
            Taking(stack.enter_context(loading(bare))),
            stack.enter_context(loading(bare)),
        )
        self.disk = (
            Side(OURS, disk, *clients),
            Side(KAFKA, unflushed, *clients),
            Side(NATS, nats_server, *bare_clients),
        )
        self.synced = (
            Side(OURS, fsync, *clients),
            Side(KAFKA, flushed, *clients),
            Side(NATS, nats_synced, *bare_clients),
        )
        self._idle = {side.name: usage(side.system) for side in self.disk}

    def processes(self) -> Iterator[Process]:
        """Yield start-up time and memory of each process."""
        for side in self.disk:
            idle_mb = self._idle[side.name].memory_mb
            highest_mb = usage(side.system).highest_mb
            yield Process(side.name, self.ready_ms[side.name], idle_mb, highest_mb)


def _formatted(directory: Path) -> ApacheKafka:
    server = ApacheKafka(directory, Kafka.OPTIONS)
    server.format()
    return server


def measure(directory: Path, plan: Plan, only: str, standing: Standing) -> None:
    """Start everything, and measure what is asked for."""
    began = time.monotonic()

    def tell(text: str) -> None:
        say(f"{time.monotonic() - began:4.0f} s: {text}")

    with ExitStack() as stack:
        tell("starting")
        servers = Servers(directory, plan.starts, stack)
        comparison = Comparison(servers.disk, servers.synced, plan, only)
        tell("warming up")
        comparison.warm_up()
        for row in comparison.rows():
            tell(row.summary)
            standing.rows.append(row)
        if only in "latency":
            tell("latency")
            standing.delays += comparison.delays()
        standing.processes += servers.processes()
    tell("done")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.kafka.peers")
    parser.add_argument("--dir", type=Path, default=Path(), help="where to make the logs")
    parser.add_argument("--quick", action="store_true", help="tiny numbers; writes nothing")
    parser.add_argument("--only", default="", help="a part of the names of rows; writes nothing")
    parser.add_argument("--rounds", type=int, help="how many rounds count  [default: 3]")
    parser.add_argument("--again", action="store_true", help="write what was measured last time")
    options = parser.parse_args()
    if options.again:
        write(msgspec.json.decode((DOCS / "kafka-peers.json").read_bytes(), type=Standing))
        return
    if reason := missing_kafka() or missing_nats():
        parser.error(reason)
    plan = QUICK_PEERS if options.quick else PEERS
    plan = msgspec.structs.replace(plan, rounds=options.rounds or plan.rounds)
    command = " ".join(["python -m bench.kafka.peers", *sys.argv[1:]])
    about = f"Command: `{command}`. Machine: {machine()}. Median of {plan.rounds} rounds."
    standing = Standing(about, ApacheKafka.version(), Nats.version())
    directory = Path(tempfile.mkdtemp(prefix=".mainstem-peers-", dir=options.dir)).absolute()
    try:
        measure(directory, plan, options.only, standing)
    finally:
        shutil.rmtree(directory)
    print(page(standing))
    if not options.quick and not options.only:
        kept = msgspec.json.format(msgspec.json.encode(standing), indent=1)
        (DOCS / "kafka-peers.json").write_bytes(kept + b"\n")
        write(standing)


def write(standing: Standing) -> None:
    """Write the section and the chart."""
    write_section(DOCS / "kafka.md", "peers", page(standing))
    (DOCS / "kafka-peers.svg").write_text(draw(standing))


if __name__ == "__main__":
    main()
