"""Three tables by a stream that is killed, by a batch, and by a replay: equal, and right.

How this works: each run is a process of its own, by the command that a user would give. What the
tables should hold is computed here from the events, without Spark.
"""

import json
import os
import signal
import subprocess
import sys
from collections import defaultdict
from contextlib import chdir, suppress
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pytest
from tests.in_process_server import serving
from tests.long_runs import LONG
from tests.pipelines.sample_events import World, create_topics, publish, some_world
from tests.processes import MARK, marked, wait_until, wait_until_none_is_left

from mainstem import pipelines as p
from mainstem.pipelines.state.table_state import DEFAULT_STATE, StateDirectory

THREE = Path(__file__).with_name("three_tables.py")
TABLES = ("windows", "once", "paid")
TIMES = 20 if LONG else 1
PATIENCE_S = 600

pytestmark = [
    pytest.mark.peers,
    pytest.mark.minutes,
    pytest.mark.timeout(TIMES * 1800),
    pytest.mark.usefixtures("own_scratch"),
]

Rows = dict[str, list[tuple[object, ...]]]


class Runs:
    """Runs of the pipeline in one directory."""

    def __init__(self, directory: Path, address: str) -> None:
        directory.mkdir()
        self._directory = directory
        self.mark = str(directory)
        self._environment = os.environ | {"MAINSTEM_AT": address, MARK: self.mark}

    def start(self, *how: str) -> "subprocess.Popen[bytes]":
        """Start a run."""
        program = [sys.executable, "-m", "mainstem", "pipeline", "run", str(THREE)]
        with (self._directory / "run.log").open("ab") as log:
            return subprocess.Popen(
                [*program, "--master", "local[2]", *how],
                cwd=self._directory,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def run(self, *how: str) -> None:
        """Run up to the end."""
        with self.start(*how) as process:
            assert process.wait(PATIENCE_S) == 0, self.told()
        wait_until_none_is_left(self.mark)

    def kill(self, process: "subprocess.Popen[bytes]") -> None:
        """End a run and all that it started, at once."""
        assert process.poll() is None, self.told()
        for each in marked(self.mark):
            with suppress(ProcessLookupError):
                os.kill(each, signal.SIGKILL)
        process.wait()
        wait_until_none_is_left(self.mark)

    def told(self) -> str:
        """Return what the runs have said."""
        return (self._directory / "run.log").read_text()

    def batch(self, table: str) -> int:
        """Return the number of a table's last batch; -1 before the first."""
        found = self._place(table).status()
        return found.batch if found is not None else -1

    def read(self, table: str, topic: str) -> int:
        """Return how many events a table has read of a topic."""
        found = self._place(table).status()
        return sum(found.offsets.get(topic, {}).values()) if found is not None else 0

    def are_exact(self, into: str | None = None) -> bool:
        """Tell whether no event came too late for any table."""
        found = [self._place(table, into).status() for table in TABLES]
        return all(each is not None and each.exact and each.state == "complete" for each in found)

    def _place(self, table: str, into: str | None = None) -> StateDirectory:
        pipeline = f"{THREE.stem}@{into}" if into else THREE.stem
        return StateDirectory(self._directory / DEFAULT_STATE / pipeline / table)

    def rows(self, into: str | None = None) -> Rows:
        """Return what the tables hold."""
        found = {}
        with chdir(self._directory):
            for table in p.load(THREE).tables:
                sink = table.sink.beside(into) if into else table.sink
                rows = sink.read()
                assert rows is not None, table.name
                found[table.name] = sorted(tuple(row.values()) for row in rows.to_pylist())
        return found


def expected(world: World) -> Rows:
    """Compute the tables without Spark."""
    sums: dict[datetime, list[Decimal]] = defaultdict(list)
    orders: dict[str, tuple[str, Decimal, datetime]] = {}
    for event in world.orders:
        order = json.loads(event.value or b"")
        at, amount = datetime.fromisoformat(order["at"]), Decimal(order["amount"])
        start = datetime.fromtimestamp(at.timestamp() // 600 * 600, UTC)
        sums[start].append(amount)
        orders[order["id"]] = (order["user"], amount, at)
    paid = []
    for event in world.payments:
        payment = json.loads(event.value or b"")
        user, amount, at = orders[payment["order_id"]]
        paid_at = datetime.fromisoformat(payment["paid_at"])
        if at <= paid_at <= at + timedelta(minutes=5):
            paid.append((payment["order_id"], user, amount, payment["method"], paid_at))
    return {
        "windows": sorted((start, sum(each), len(each)) for start, each in sums.items()),
        "once": sorted((name, *rest) for name, rest in orders.items()),
        "paid": sorted(paid),
    }


def halves(world: World) -> tuple[World, World]:
    """Cut a world in two, at one moment."""
    cut_ms = world.orders[len(world.orders) // 2].timestamp_ms
    first, second = World([], [], []), World([], [], [])
    for topic in ("orders", "payments"):
        for event in getattr(world, topic):
            getattr(first if event.timestamp_ms < cut_ms else second, topic).append(event)
    return first, second


def publish_all(address: str, world: World) -> None:
    for topic in ("orders", "payments"):
        publish(address, topic, getattr(world, topic))


def by_killed_stream(runs: Runs, address: str, world: World, number: int) -> Rows:
    """Stream the first half until some batch of some table, kill all, and stream the rest."""
    first, second = halves(world)
    create_topics(address)
    publish_all(address, first)
    how = ("--stream", "--max-rows", "20")
    table, batch = TABLES[number % len(TABLES)], number % 2
    stream = runs.start(*how)
    reached = f"table {table} has not come to batch {batch}"
    wait_until(lambda: stream.poll() is not None or runs.batch(table) >= batch, reached, PATIENCE_S)
    runs.kill(stream)

    publish_all(address, second)
    stream = runs.start(*how)

    def caught_up() -> bool:
        orders = all(runs.read(each, "orders") == len(world.orders) for each in ("windows", "once"))
        return orders and runs.read("paid", "payments") == len(world.payments)

    wait_until(lambda: stream.poll() is not None or caught_up(), "it does not end", PATIENCE_S)
    stream.terminate()
    assert stream.wait(PATIENCE_S) == 0, runs.told()
    wait_until_none_is_left(runs.mark)
    runs.run("--batch", "--complete")
    return runs.rows()


@pytest.mark.parametrize("number", range(TIMES))
def test_a_killed_stream_a_batch_and_a_replay_give_the_tables_that_plain_python_gives(
    tmp_path: Path, number: int
) -> None:
    world = some_world(number + 1)
    right = expected(world)
    assert all(right.values())
    with serving(None) as address:
        runs = Runs(tmp_path / "stream", address)
        streamed = by_killed_stream(runs, address, world, number)
        bounded = Runs(tmp_path / "batch", address)
        bounded.run("--batch", "--complete")
        bounded.run("--replay", "--into", "again", "--complete", "--max-rows", "40")

    assert streamed == right
    assert bounded.rows() == right
    assert bounded.rows("again") == right
    assert runs.are_exact()
    assert bounded.are_exact()
    assert bounded.are_exact("again")
