"""Takes the figures: every system in turn, round by round, so that a busy moment hits all alike."""

import os
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median

import msgspec
from bench.kafka.plan import Cell, Plan
from bench.kafka.processes import Job, Load
from bench.kafka.systems import Mainstem, Sink, System, usage

_ASK_FOR_VERSIONS = b"\0\0\0\x0a\0\x12\0\0\0\0\0\x01\xff\xff"


class Taken(msgspec.Struct):
    """What one system took for one thing, a figure per round."""

    per_second: list[float] = []
    broker_cpu_s: list[float] = []
    client_cpu_s: list[float] = []


class Compared(msgspec.Struct):
    """A system beside its raw limit."""

    what: str
    system: str
    cell: Cell
    readers: int = 1
    ours: Taken = msgspec.field(default_factory=Taken)
    raw: Taken = msgspec.field(default_factory=Taken)

    @property
    def ratio(self) -> float:
        """Ours to raw, the median of the rounds."""
        pairs = zip(self.ours.per_second, self.raw.per_second, strict=True)
        return median(ours / raw for ours, raw in pairs)


class Delay(msgspec.Struct):
    """How old events are when they arrive, figures per round."""

    system: str
    p50_ms: list[float] = []
    p99_ms: list[float] = []
    highest_ms: list[float] = []


class Process(msgspec.Struct):
    """What the server process itself takes."""

    system: str
    ready_ms: float
    idle_mb: float
    loaded_mb: float


class Figures(msgspec.Struct):
    """Everything that was measured."""

    rows: list[Compared] = []
    delays: list[Delay] = []
    processes: list[Process] = []


class Taking:
    """Takes figures of one system at a time, with one process of load."""

    def __init__(self, load: Load) -> None:
        self.load = load

    def fill(self, system: System, cell: Cell, taken: Taken, touched: int = 1) -> None:
        """Produce to a new topic; see ``add``."""
        system.create(cell.topic, cell.partitions)
        self.add(system, cell, taken, touched)

    def add(self, system: System, cell: Cell, taken: Taken, touched: int = 1) -> None:
        """Produce to a topic, once so many of its partitions have been written to."""
        job: Job = {"do": "produce", "settings": cell.settings, "touched": touched}
        self._do(system, cell, job, taken)

    def read(
        self, system: System, cell: Cell, readers: int, taken: Taken, touched: int = 1
    ) -> None:
        """Read a topic from its start, with many readers at once."""
        self._do(system, cell, {"do": "consume", "readers": readers, "touched": touched}, taken)

    def pace(self, system: System, reader: Load, topic: str, plan: Plan, delay: Delay) -> None:
        """Send at a steady rate to a new topic, and take how old events are when they come."""
        system.create(topic, 1)
        events = plan.rate * plan.seconds
        job: Job = {"address": system.server.address, "topic": topic, "rate": plan.rate}
        job |= {"size": plan.pace.size, "settings": plan.pace.settings}
        reader.begin(job | {"do": "tail", "events": events, "settings": {}})
        self.load.begin(job | {"do": "pace", "events": events})
        reader.line()
        self.load.line()
        found = reader.line()
        delay.p50_ms.append(found["p50_ms"])
        delay.p99_ms.append(found["p99_ms"])
        delay.highest_ms.append(found["highest_ms"])
        system.delete(topic)

    def _do(self, system: System, cell: Cell, job: Job, taken: Taken) -> None:
        given = {"address": system.server.address, "topic": cell.topic, "size": cell.size}
        counts = {"events": cell.events, "partitions": cell.partitions}
        self.load.begin(given | counts | job)
        self.load.line()
        before = usage(system)
        found = self.load.line()
        readers = job.get("readers", 1)
        assert isinstance(readers, int)
        taken.per_second.append(cell.events * readers / found["seconds"])
        taken.client_cpu_s.append(found["cpu_s"])
        taken.broker_cpu_s.append(usage(system).cpu_s - before.cpu_s)


class Bench:
    """The processes that take part in a run."""

    def __init__(self, directory: Path, plan: Plan) -> None:
        self._directory = directory
        self._plan = plan
        self.disk = Mainstem(directory / "disk", "disk")
        self.fsync = Mainstem(directory / "fsync", "fsync")
        self.sink = Sink(directory / "sink")
        self.synced_sink = Sink(directory / "synced-sink", "--sync", name="raw, synced")
        self.taking = Taking(Load())

    def produce(self) -> Iterator[Compared]:
        """Produce everything to every system."""
        pairs = ((self.disk, self.sink), (self.fsync, self.synced_sink))
        for cell in self._plan.cells:
            rows = [Compared("produce", system.name, cell) for system, _ in pairs]
            for _ in range(self._plan.rounds):
                for row, (system, sink) in zip(rows, pairs, strict=True):
                    self.taking.fill(system, cell, row.ours)
                    system.delete(cell.topic)
                    self.taking.fill(sink, cell, row.raw)
            yield from rows

    def consume(self) -> Iterator[Compared]:
        """Read everything back, and one topic with many readers at once."""
        for cell in self._plan.cells:
            yield self._read(cell, "consume", 1)
        many = self._plan.readers
        yield self._read(self._plan.fan_out, f"consume, {many} readers at once", many)

    def delays(self) -> Iterator[Delay]:
        """Send at a steady rate, and take how old the events are when they come."""
        relay = Sink(self._directory / "relay", "--relay")
        systems: Sequence[System] = (self.disk, self.fsync, relay)
        found = [Delay(system.name) for system in systems]
        with started(relay), loading() as reader:
            for number in range(self._plan.rounds):
                for system, delay in zip(systems, found, strict=True):
                    self.taking.pace(system, reader, f"pace-{number}-1", self._plan, delay)
        yield from found

    def _read(self, cell: Cell, what: str, readers: int) -> Compared:
        row = Compared(what, self.disk.name, cell, readers)
        self.taking.fill(self.disk, cell, Taken())
        segments = map(str, self.disk.segments(cell.topic, cell.partitions))
        sink = Sink(self._directory / "read", "--segments", *segments)
        with started(sink):
            for _ in range(self._plan.rounds):
                self.taking.read(self.disk, cell, readers, row.ours)
                self.taking.read(sink, cell, readers, row.raw)
        self.disk.delete(cell.topic)
        return row


@contextmanager
def started(system: System) -> Iterator[None]:
    system.start()
    try:
        yield
    finally:
        system.stop()


@contextmanager
def loading(module: str = "bench.kafka.load") -> Iterator[Load]:
    load = Load(module)
    try:
        yield load
    finally:
        load.stop()


def ready_ms(directory: Path, times: int) -> float:
    """Return how long it takes from spawning a server to its first answer.

    The first is not counted: it compiles, which for users the installation does.
    """
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    _ready_ms(directory)
    return median(_ready_ms(directory) for _ in range(times))


def _ready_ms(directory: Path) -> float:
    system = Mainstem(directory / "start", "disk")
    began = time.perf_counter()
    with started(system):
        host, _, port = system.server.address.partition(":")
        with socket.create_connection((host, int(port))) as peer:
            peer.sendall(_ASK_FOR_VERSIONS)
            if not peer.recv(4):
                raise SystemExit("the server closed its first connection")
        return (time.perf_counter() - began) * 1000
