"""Takes the figures: both systems have their turn in every round, and take turns at going first."""

import itertools
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec
from bench.amqp.client import Client, send_tasks, worker
from bench.amqp.plan import MODES, PERSISTENT, TRANSIENT, WINDOW, Plan
from bench.amqp.systems import Mainstem, RabbitMq, System


class Row(msgspec.Struct):
    """One thing that was measured, with a value of each system in every round."""

    what: str
    case: dict[str, str]
    """What distinguishes this row from the others of its table."""
    values: dict[str, list[float]] = {}
    cpu_us: dict[str, list[float]] = {}
    """CPU time of the server for each message, if that was measured."""

    def add(self, system: str, value: float, cpu_us: float | None = None) -> None:
        """Add what was measured in a round."""
        self.values.setdefault(system, []).append(value)
        if cpu_us is not None:
            self.cpu_us.setdefault(system, []).append(cpu_us)


class Bench:
    """Both systems, and what puts load on them."""

    def __init__(self, directory: Path, plan: Plan) -> None:
        self._directory = directory
        self._plan = plan
        self._client = Client(directory)
        self._names = itertools.count()

    def throughput(self) -> list[Row]:
        """Publish with confirms, and consume with acknowledgements."""
        plan, rows = self._plan, list[Row]()
        with self._both() as systems:
            for cell in plan.cells:
                case = {
                    "message": f"{cell.size} B",
                    "mode": MODES[cell.mode],
                    "queues": f"{cell.queues}",
                }
                published = Row("publish", case)
                consumed = [
                    Row("consume", {**case, "prefetch": f"{each}"}) for each, _ in plan.portions
                ]
                for system in _turns(systems, plan.rounds):
                    with self._queues(system, cell.queues) as name:
                        whole = (cell.queues, plan.published, cell.size, cell.mode, WINDOW)
                        self._timed(published, system, plan.published, "publish", name, *whole)
                        for row, (prefetch, count) in zip(consumed, plan.portions, strict=True):
                            part = (cell.queues, count, prefetch)
                            self._timed(row, system, count, "consume", name, *part)
                _say(published, *consumed)
                rows += [published, *consumed]
        return rows

    def latency(self) -> list[Row]:
        """How old messages are when they are consumed, at a steady rate."""
        plan, rows = self._plan, list[Row]()
        with self._both() as systems:
            for mode, prefetch in itertools.product((TRANSIENT, PERSISTENT), (1, 100)):
                case = {"mode": MODES[mode], "prefetch": f"{prefetch}"}
                halves = [Row("latency", {**case, "percentile": name}) for name in ("p50", "p99")]
                for system in _turns(systems, plan.rounds):
                    with self._queues(system, 1) as name:
                        job = ("pace", name, plan.paced, 100, mode, prefetch, plan.rate)
                        found = self._client.run(system, *job)
                    for row, field in zip(halves, ("p50_us", "p99_us"), strict=True):
                        row.add(system.name, found[field])
                _say(*halves)
                rows += halves
        return rows

    def celery(self) -> list[Row]:
        """Tasks from a publisher through the broker to one worker process."""
        row = Row("celery", {"tasks": f"{self._plan.tasks:,}"})
        with self._both() as systems:
            for system in _turns(systems, self._plan.rounds):
                number = next(self._names)
                done = self._directory / f"tasks-{number}"
                with worker(system, done.with_suffix(".out")):
                    send_tasks(system, 1, done.with_suffix(".first"))
                    before = system.usage().cpu_s
                    seconds = send_tasks(system, self._plan.tasks, done)
                    cpu_s = system.usage().cpu_s - before
                row.add(system.name, self._plan.tasks / seconds, cpu_s / self._plan.tasks * 1e6)
        _say(row)
        return [row]

    def backlog(self) -> list[Row]:
        """Publish many messages, then drain the queue; and what that takes of memory."""
        count = self._plan.backlog
        steps = {name: Row("backlog", {"step": name}) for name in ("publish", "drain")}
        memory = {
            when: Row("memory", {"when": when})
            for when in ("idle", f"with {count:,} messages", "after they were drained")
        }
        idle, full, drained = memory.values()
        with self._both() as systems:
            for system in systems:
                idle.add(system.name, system.usage().memory_mb)
                with self._queues(system, 1) as name:
                    whole = (1, count, 100, TRANSIENT, WINDOW)
                    self._timed(steps["publish"], system, count, "publish", name, *whole)
                    full.add(system.name, system.usage().memory_mb)
                    self._timed(steps["drain"], system, count, "consume", name, 1, count, 100)
                    drained.add(system.name, system.usage().memory_mb)
        _say(*steps.values(), *memory.values())
        return [*steps.values(), *memory.values()]

    def start_up(self) -> list[Row]:
        """How long an empty server takes until it answers."""
        row = Row("start", {"server": "empty"})
        for system in _turns(self._new(), self._plan.starts):
            row.add(system.name, system.start())
            system.stop()
        _say(row)
        return [row]

    def _new(self) -> list[System]:
        number = next(self._names)
        return [
            Mainstem(self._directory / f"mainstem-{number}"),
            RabbitMq(self._directory / f"rabbitmq-{number}"),
        ]

    @contextmanager
    def _both(self) -> Iterator[list[System]]:
        systems, started = self._new(), list[System]()
        try:
            for system in systems:
                system.start()
                started.append(system)
            yield systems
        finally:
            for system in started:
                system.stop()

    @contextmanager
    def _queues(self, system: System, count: int) -> Iterator[str]:
        name = f"bench-{next(self._names)}"
        self._client.run(system, "declare", name, count)
        yield name
        self._client.run(system, "delete", name, count)

    def _timed(self, row: Row, system: System, count: int, *job: object) -> None:
        before = system.usage().cpu_s
        seconds = self._client.run(system, *job)["seconds"]
        cpu_s = system.usage().cpu_s - before
        row.add(system.name, count / seconds, cpu_s / count * 1e6)


SECTIONS: dict[str, Callable[[Bench], list[Row]]] = {
    "throughput": Bench.throughput,
    "latency": Bench.latency,
    "celery": Bench.celery,
    "backlog": Bench.backlog,
    "start": Bench.start_up,
}
"""What can be measured by itself, by the name that ``--only`` takes."""


def _turns(systems: Sequence[System], rounds: int) -> Iterator[System]:
    for number in range(rounds):
        yield from systems if number % 2 == 0 else reversed(systems)


def _say(*rows: Row) -> None:
    for row in rows:
        told = ", ".join(row.case.values())
        values = " against ".join(f"{values[-1]:,.0f}" for values in row.values.values())
        print(f"amqp: {row.what}: {told}: {values}", file=sys.stderr, flush=True)
