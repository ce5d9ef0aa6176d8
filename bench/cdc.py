"""Measures change capture from PostgreSQL, beside Debezium's engine on the same server.

    python -m bench.cdc --rounds 3    about four minutes; writes docs/benchmarks/cdc.md
    python -m bench.cdc --quick       prints, and writes nothing

How this works: both take turns on one PostgreSQL, each with a table of its own. A round starts the
process, lets it read the rows that are there, then follow inserts of a thousand rows each that were
made while it was stopped, then single commits one after the other. Ours is ``mainstem serve`` with
a connector; Debezium's engine passes records to a program in its own process that drops them. Its
jars are those of ``.ci/run``.
"""

import argparse
import json
import os
import signal
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import msgspec
from bench.kafka.page import table
from bench.kafka.systems import COMMAND, ROOT
from tests.connectors.database import Database, database
from tests.connectors.debezium.engine import JARS, Engine, settings_for

import mainstem
from mainstem.cli.admin_port import ServerAdmin
from mainstem.cli.benchmarks.report import machine
from mainstem.connectors.settings import ConnectorSettings
from mainstem.node.connector_operations import ADD, SHOW, AddConnector, Added, ConnectorInfo

PAGE = ROOT / "docs" / "benchmarks" / "cdc.md"
OURS, DEBEZIUM = "mainstem", "Debezium's engine"
PATIENCE_S = 240
AT_ONCE = 1_000
COLUMNS = "id bigint PRIMARY KEY, customer int, amount numeric(10,2), at timestamptz, note text"
ROWS = (
    "INSERT INTO {} SELECT i, i % 1000, i / 100.0, now(), repeat('x', 60) "
    "FROM generate_series({}, {}) i"
)


class Figures(msgspec.Struct, frozen=True):
    """What one system did in one round."""

    start_s: float
    """From the start of the process to its first event."""
    snapshot: float
    """Rows per second from the first to the last."""
    following: float
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


def load(db: Database, name: str, plan: Plan, pid: int, count: Callable[[], int]) -> float:
    """Insert rows while the process is stopped; return the rows per second once it goes on."""
    before = count()
    os.kill(pid, signal.SIGSTOP)
    try:
        with db.connect() as connection:
            for start in range(plan.rows, 2 * plan.rows, AT_ONCE):
                connection.execute(ROWS.format(name, start, start + AT_ONCE - 1).encode())
    finally:
        os.kill(pid, signal.SIGCONT)
    began = time.perf_counter()
    return plan.rows / (wait_until(lambda: count() >= before + plan.rows) - began)


def commit_one_by_one(db: Database, name: str, plan: Plan, count: Callable[[], int]) -> None:
    """Insert single rows, each when the event of the one before has come."""
    with db.connect() as connection:
        for number in range(plan.commits):
            before = count()
            connection.execute(ROWS.format(name, -number - 1, -number - 1).encode())
            wait_until(lambda: count() > before, pause_s=0.001)  # noqa: B023
            time.sleep(0.005)


def percentiles(arrived_us: list[int], values: list[bytes | str | None]) -> tuple[float, float]:
    """Return p50 and p99 of the milliseconds from the commit to the arrival."""
    lags = []
    for at_us, value in zip(arrived_us, values, strict=True):
        source = json.loads(value or "{}")["source"]
        lags.append((at_us - source["ts_us"]) / 1000)
    return statistics.median(lags), statistics.quantiles(lags, n=100)[98]


@contextmanager
def serving(directory: str) -> Iterator[tuple[int, str]]:
    """Run a server; gives its process and address."""
    free = "127.0.0.1:0"
    options = ["--kafka", free, "--admin", free, "--log-format", "json"]
    process = subprocess.Popen(
        [str(COMMAND), "serve", f"{directory}/data", *options], stderr=subprocess.PIPE, text=True
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


def ours(db: Database, name: str, plan: Plan) -> Figures:
    """Measure a server with a connector."""
    with tempfile.TemporaryDirectory() as directory:
        began = time.perf_counter()
        with serving(directory) as (pid, address):
            admin = ServerAdmin(address)

            def published() -> int:
                # The first event is about the schema.
                return admin.read(SHOW, {"name": name}, ConnectorInfo).published - 1

            settings = ConnectorSettings(name=name, url=db.url, tables=(f"public.{name}",))
            admin.change(ADD, AddConnector(settings), Added)
            first = wait_until(lambda: published() > 0)
            there = published()
            last = wait_until(lambda: published() >= plan.rows)
            following = load(db, name, plan, pid, published)
            with mainstem.connect(address) as stem:
                p50_ms, p99_ms = ours_one_by_one(stem, db, name, plan)
            return Figures(
                start_s=first - began,
                snapshot=(plan.rows - there) / (last - first),
                following=following,
                p50_ms=p50_ms,
                p99_ms=p99_ms,
                memory_mib=memory_mib(pid),
            )


def ours_one_by_one(
    stem: mainstem.Stem, db: Database, name: str, plan: Plan
) -> tuple[float, float]:
    """Return p50 and p99 until a client has an event."""
    arrived_us: list[int] = []
    values: list[bytes | str | None] = []
    with stem.subscribe(f"{name}.public.{name}", start="latest") as events, db.connect() as writer:
        # Afterwards it is known where "latest" is.
        assert events.poll(1) is None
        for number in range(plan.commits):
            writer.execute(ROWS.format(name, -number - 1, -number - 1).encode())
            event = events.poll(PATIENCE_S)
            assert event is not None
            arrived_us.append(time.time_ns() // 1000)
            values.append(event.value)
            time.sleep(0.005)
    return percentiles(arrived_us, values)


def debezium(db: Database, name: str, plan: Plan) -> Figures:
    """Measure Debezium's engine."""
    with tempfile.TemporaryDirectory() as directory:
        settings: Mapping[str, str] = settings_for(db, name, Path(directory)) | {
            "table.include.list": f"public.{name}",
            "publication.autocreate.mode": "filtered",
            "publication.name": name,
            "slot.name": name,
            "key.converter.schemas.enable": "false",
            "value.converter.schemas.enable": "false",
            # By default it waits up to half a second for more changes.
            "poll.interval.ms": "1",
        }
        Engine.compile(Path(directory), JARS)
        began = time.perf_counter()
        with Engine(settings, Path(directory), JARS, "count") as engine:
            taken = 0
            records = 0

            def count() -> int:
                nonlocal taken, records
                while taken < len(engine.records):
                    records += int(engine.records[taken].topic)
                    taken += 1
                return records

            first = wait_until(lambda: count() > 0, engine.said)
            there = count()
            last = wait_until(lambda: count() >= plan.rows, engine.said)
            slot = f"SELECT 1 FROM pg_replication_slots WHERE slot_name = '{name}' AND active"
            wait_until(lambda: db.execute(slot) != [], engine.said)
            following = load(db, name, plan, engine.process.pid, count)
            batches = len(engine.records)
            commit_one_by_one(db, name, plan, count)
            alone = engine.records[batches:]
            p50_ms, p99_ms = percentiles(
                [each.at_us for each in alone], [each.value for each in alone]
            )
            return Figures(
                start_s=first - began,
                snapshot=(plan.rows - there) / (last - first),
                following=following,
                p50_ms=p50_ms,
                p99_ms=p99_ms,
                memory_mib=memory_mib(engine.process.pid),
            )


SYSTEMS: dict[str, Callable[[Database, str, Plan], Figures]] = {OURS: ours, DEBEZIUM: debezium}


def measured(plan: Plan, rounds: int) -> dict[str, list[Figures]]:
    """Let both take turns, each first in every other round."""
    found: dict[str, list[Figures]] = {each: [] for each in SYSTEMS}
    with database() as db:
        for number in range(rounds):
            order = list(SYSTEMS) if number % 2 == 0 else list(reversed(SYSTEMS))
            for system in order:
                name = f"{'a' if system == OURS else 'b'}{number}"
                db.execute(f"CREATE TABLE {name} ({COLUMNS})", ROWS.format(name, 0, plan.rows - 1))
                db.execute(f"ANALYZE {name}", "CHECKPOINT")
                found[system].append(SYSTEMS[system](db, name, plan))
                print(system, found[system][-1], flush=True)
                drop_slots(db)
                db.execute(f"DROP TABLE {name}")
    return found


def drop_slots(db: Database) -> None:
    """Drop what is left in the database."""
    db.execute("SELECT pg_terminate_backend(active_pid, 5000) FROM pg_replication_slots")
    db.execute("SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots")
    for (name,) in db.execute("SELECT pubname FROM pg_publication"):
        db.execute(f'DROP PUBLICATION "{name}"')


def page(found: Mapping[str, list[Figures]], plan: Plan, rounds: int) -> str:
    """Return the page."""
    rows = []
    for field, title, digits in (
        ("snapshot", "snapshot, rows/s", 0),
        ("following", "following, rows/s", 0),
        ("p50_ms", "commit to consumer, p50 ms", 2),
        ("p99_ms", "commit to consumer, p99 ms", 2),
        ("start_s", "start to first event, s", 2),
        ("memory_mib", "largest memory, MiB", 0),
    ):
        cells = [title]
        medians = []
        for system in SYSTEMS:
            values = sorted(getattr(each, field) for each in found[system])
            medians.append(statistics.median(values))
            low, high = values[0], values[-1]
            cells.append(f"{medians[-1]:,.{digits}f} ({low:,.{digits}f} to {high:,.{digits}f})")
        cells.append(f"{medians[0] / medians[1]:.2f}")
        rows.append(cells)
    figures = table(["", *SYSTEMS, "ratio"], rows)
    return _TEXT.format(
        rounds=rounds,
        machine=machine(),
        rows=f"{plan.rows:,}",
        at_once=f"{AT_ONCE:,}",
        commits=f"{plan.commits:,}",
        figures=figures,
    )


_TEXT = """# Change capture from PostgreSQL beside Debezium

`python -m bench.cdc --rounds {rounds}` on {machine}; the machine is shared with other work.
Medians of {rounds} interleaved rounds, with the range. A round: {rows} rows that are there,
{rows} rows inserted in transactions of {at_once} while the process is stopped (SIGSTOP), which it
follows once it is resumed, and {commits} single commits, each after the event of the one before.
Tables have a bigint key, int, numeric, timestamptz and 60 characters of text.

mainstem is a server with a connector. For rows per second, an event counts when it is appended to
its topic; for the time from commit to consumer, when a client of the server has received it, which
is after it was synced to disk. Debezium 3.6's engine runs in a Java program that drops the records;
its heap is 512 MiB, and its `poll.interval.ms` 1 (500 by default, which adds up to half a second to
each commit). Both write JSON without schemas. mainstem's connector runs in one thread, which limits
its rows per second. Debezium's engine works in several threads, and its records are dropped, not
stored.

{figures}
"""


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true")
    given = parser.parse_args()
    rounds = 1 if given.quick else given.rounds
    plan = Plan(20_000, 50) if given.quick else Plan(200_000, 400)
    text = page(measured(plan, rounds), plan, rounds)
    print(text)
    if not given.quick:
        PAGE.write_text(text)


if __name__ == "__main__":
    main()
