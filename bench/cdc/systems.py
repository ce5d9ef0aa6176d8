"""The two that follow a database, and what each does in a round."""

import json
import os
import signal
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
from bench.cdc.databases import Measured
from bench.kafka.systems import COMMAND
from tests.connectors.debezium.engine import Engine
from tests.connectors.mariadb.databases import PASSWORD

import mainstem
from mainstem.cli.admin_port import ServerAdmin
from mainstem.connectors.settings import ConnectorSettings
from mainstem.node.connector_operations import ADD, SHOW, AddConnector, Added, ConnectorInfo

OURS, DEBEZIUM = "mainstem", "Debezium's engine"
PATIENCE_S = 240
_PAUSE_S = 0.005
_SECRET = "MAINSTEM_SECRET_BENCH"


class Figures(msgspec.Struct, frozen=True):
    """What one system did in one round."""

    start_s: float
    """From the start of the process to its first event."""
    snapshot: float
    """Rows per second from the first to the last."""
    following: float
    snapshot_cpu_us: float
    """User and system time of the process for a row."""
    following_cpu_us: float
    p50_ms: float
    p99_ms: float
    memory_mib: float


class Plan(msgspec.Struct, frozen=True):
    """How much is done."""

    rows: int
    commits: int


def wait_until(
    done: Callable[[], bool], said: Callable[[], str] = str, *, pause_s: float = 0.03
) -> float:
    """Wait for a condition; return the time."""
    deadline = time.monotonic() + PATIENCE_S
    while not done():
        if time.monotonic() > deadline:
            raise TimeoutError(f"nothing came for {PATIENCE_S} s: {said()}")
        # Asking a server takes its time, too.
        time.sleep(pause_s)
    return time.perf_counter()


def memory_mib(pid: int) -> float:
    """Return the largest memory that a process has had."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    raise ValueError(f"process {pid} has no VmHWM")


def cpu_us(pid: int) -> float:
    """Return the user and system time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * 1_000_000 / os.sysconf("SC_CLK_TCK")


class Rate(msgspec.Struct, frozen=True):
    """How fast rows came."""

    rows_s: float
    row_cpu_us: float


class Counting:
    """Measures a process from the first rows on, until others have come."""

    def __init__(self, pid: int, count: int) -> None:
        self._pid = pid
        self._count = count
        self._cpu_us = cpu_us(pid)
        self._began = time.perf_counter()

    def rate(self, count: int) -> Rate:
        """Return what has happened since."""
        rows = count - self._count
        used_us = cpu_us(self._pid) - self._cpu_us
        return Rate(rows / (time.perf_counter() - self._began), used_us / rows)


def load(db: Measured, name: str, plan: Plan, pid: int, count: Callable[[], int]) -> Rate:
    """Insert rows while the process is stopped; return how fast they come once it goes on."""
    before = count()
    os.kill(pid, signal.SIGSTOP)
    try:
        db.load(name, plan.rows, plan.rows)
    finally:
        os.kill(pid, signal.SIGCONT)
    counting = Counting(pid, before)
    wait_until(lambda: count() >= before + plan.rows)
    return counting.rate(before + plan.rows)


class Single(msgspec.Struct, frozen=True):
    """A row that was committed alone."""

    began_us: int
    arrived_us: int
    value: bytes | str | None


def percentiles(db: Measured, rows: list[Single]) -> tuple[float, float]:
    """Return p50 and p99 of the milliseconds from the commit to the arrival."""
    lags = []
    for each in rows:
        from_us = each.began_us
        if db.tells_commits:
            from_us = json.loads(each.value or "{}")["source"]["ts_us"]
        lags.append((each.arrived_us - from_us) / 1000)
    return statistics.median(lags), statistics.quantiles(lags, n=100)[98]


def figures(
    pid: int, start_s: float, snapshot: Rate, following: Rate, lags: tuple[float, float]
) -> Figures:
    """Return what a process did, whose memory is asked for now."""
    p50_ms, p99_ms = lags
    return Figures(
        start_s=start_s,
        snapshot=snapshot.rows_s,
        following=following.rows_s,
        snapshot_cpu_us=snapshot.row_cpu_us,
        following_cpu_us=following.row_cpu_us,
        p50_ms=p50_ms,
        p99_ms=p99_ms,
        memory_mib=memory_mib(pid),
    )


@contextmanager
def serving(directory: str) -> Iterator[tuple[int, str]]:
    """Run a server; gives its process and address."""
    free = "127.0.0.1:0"
    options = ["--kafka", free, "--admin", free, "--log-format", "json"]
    process = subprocess.Popen(
        [str(COMMAND), "serve", f"{directory}/data", *options],
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {_SECRET: PASSWORD},
    )
    try:
        assert process.stderr is not None
        address = ""
        while not address:
            said = json.loads(process.stderr.readline())
            address = said.get("kafka", "")
        yield process.pid, address
    finally:
        process.kill()
        process.communicate()


def ours(db: Measured, name: str, plan: Plan) -> Figures:
    """Measure a server with a connector."""
    with tempfile.TemporaryDirectory() as directory:
        began = time.perf_counter()
        with serving(directory) as (pid, address):
            admin = ServerAdmin(address)

            def published() -> int:
                # The first event is about the schema.
                return admin.read(SHOW, {"name": name}, ConnectorInfo).published - 1

            settings = ConnectorSettings(
                name=name,
                url=db.url,
                tables=(f"{db.schema}.{name}",),
                password_env="" if db.tells_commits else _SECRET,
            )
            admin.change(ADD, AddConnector(settings), Added)
            first = wait_until(lambda: published() > 0)
            counting = Counting(pid, published())
            wait_until(lambda: published() >= plan.rows)
            snapshot = counting.rate(plan.rows)
            following = load(db, name, plan, pid, published)
            with mainstem.connect(address) as stem:
                lags = percentiles(db, ours_one_by_one(stem, db, name, plan))
            return figures(pid, first - began, snapshot, following, lags)


def ours_one_by_one(stem: mainstem.Stem, db: Measured, name: str, plan: Plan) -> list[Single]:
    """Insert single rows, each when a client has the event of the one before."""
    found = []
    topic = f"{name}.{db.schema}.{name}"
    with stem.subscribe(topic, start="latest") as events, db.writing(name) as write:
        # Afterwards it is known where "latest" is.
        assert events.poll(1) is None
        for number in range(plan.commits):
            began_us = write(number)
            event = events.poll(PATIENCE_S)
            assert event is not None
            found.append(Single(began_us, time.time_ns() // 1000, event.value))
            time.sleep(_PAUSE_S)
    return found


def debezium(db: Measured, name: str, plan: Plan) -> Figures:
    """Measure Debezium's engine."""
    with tempfile.TemporaryDirectory() as directory:
        settings = {
            **db.engine(name, Path(directory)),
            "key.converter.schemas.enable": "false",
            "value.converter.schemas.enable": "false",
            # The rows are counted in the batches of the engine.
            "include.schema.changes": "false",
            # By default it waits up to half a second for more changes.
            "poll.interval.ms": "1",
        }
        Engine.compile(Path(directory), db.jars)
        began = time.perf_counter()
        with Engine(settings, Path(directory), db.jars, "count") as engine:
            taken = 0
            records = 0

            def count() -> int:
                nonlocal taken, records
                while taken < len(engine.records):
                    records += int(engine.records[taken].topic)
                    taken += 1
                return records

            first = wait_until(lambda: count() > 0, engine.said)
            counting = Counting(engine.process.pid, count())
            wait_until(lambda: count() >= plan.rows, engine.said)
            snapshot = counting.rate(plan.rows)
            wait_until(db.is_followed, engine.said)
            following = load(db, name, plan, engine.process.pid, count)
            began_us, batches = [], len(engine.records)
            with db.writing(name) as write:
                for number in range(plan.commits):
                    before = count()
                    began_us.append(write(number))
                    wait_until(lambda: count() > before, pause_s=0.001)  # noqa: B023
                    time.sleep(_PAUSE_S)
            alone = [
                Single(each_us, record.at_us, record.value)
                for each_us, record in zip(began_us, engine.records[batches:], strict=True)
            ]
            lags = percentiles(db, alone)
            return figures(engine.process.pid, first - began, snapshot, following, lags)


SYSTEMS: dict[str, Callable[[Measured, str, Plan], Figures]] = {OURS: ours, DEBEZIUM: debezium}
