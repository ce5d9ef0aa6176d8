"""kill -9 of driver and JVM at each step of a batch, and of the server, changes no table."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.in_process_server import serving
from tests.long_runs import LONG
from tests.pipelines.postgresql import postgresql
from tests.pipelines.redis_server import redis_server

import mainstem
from mainstem import pipelines as p

pytestmark = [
    pytest.mark.peers,
    pytest.mark.minutes,
    pytest.mark.timeout(7200 if LONG else 3600),
    pytest.mark.usefixtures("own_scratch"),
]

DYING = Path(__file__).with_name("killed_at_step.py")
SINKS = ("sqlite", "delta", "parquet", "topic", "postgres", "redis", "search")
STEPS = ("before", "middle", "after", "offset")
ROUND = 100
"""How many events there are for each run."""
FEW = ["topic:middle", "delta:after", "postgres:offset", "redis:middle", "search:middle"]
"""Each starts a JVM. A kill ends the runs of all tables, at whatever step the others are; every
sink is killed at every step with ``--long``."""
GRID = [f"{sink}:{step}" for _ in range(2) for step in STEPS for sink in SINKS]


def publish(address: str, numbers: range) -> None:
    with mainstem.connect(address) as stem:
        stem.topics.create("numbers", partitions=1, exist_ok=True)
        stem.publish_many("numbers", (mainstem.Event(b'{"n": %d}' % n) for n in numbers))


def command(*arguments: str) -> list[str]:
    program = [sys.executable, "-m", "mainstem", "pipeline", "run", str(DYING)]
    return [*program, "--master", "local[2]", *arguments]


class World(NamedTuple):
    """Where a pipeline reads and writes."""

    address: str
    database: str
    redis: str
    directory: Path

    def environment(self, die: str = "nobody:never") -> dict[str, str]:
        places = {"MAINSTEM_AT": self.address, "DATABASE": self.database, "REDIS": self.redis}
        return os.environ | places | {"DIE": die}

    def run_until_killed(self, die: str) -> None:
        """Run until the process is killed at a step."""
        ran = self._run(die)
        assert ran.returncode == -signal.SIGKILL, f"{die}: {ran.stderr}"

    def run_to_end(self) -> "subprocess.CompletedProcess[str]":
        """Run up to the end of the topic."""
        ran = self._run("nobody:never")
        assert ran.returncode == 0, ran.stderr
        return ran

    def _run(self, die: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            command("--batch"),
            cwd=self.directory,
            env=self.environment(die),
            capture_output=True,
            text=True,
            check=False,
        )

    def tables(self) -> dict[str, list[tuple[int, int]]]:
        """Return what the tables hold."""
        kept = {
            "sqlite": p.sqlite(str(self.directory / "base.db"), "numbers"),
            "delta": p.delta(str(self.directory / "delta")),
            "parquet": p.parquet(str(self.directory / "parquet")),
            "postgres": p.postgres(self.database, "numbers"),
            "redis": p.redis(self.redis, "numbers", key="n"),
            "search": p.search(str(self.directory / "index"), key="n"),
        }
        found = {}
        for name, sink in kept.items():
            rows = sink.read()
            assert rows is not None
            found[name] = [tuple(row.values()) for row in rows.to_pylist()]
        with mainstem.connect(self.address) as stem:
            read = stem.subscribe("squares", follow=False)
            events = [json.loads(each.value or b"") for each in read]
        found["topic"] = [(each["n"], each["square"]) for each in events]
        return {name: sorted(rows) for name, rows in found.items()}


def whole(count: int) -> dict[str, list[tuple[int, int]]]:
    """Return what tables hold in which every number is once."""
    squares = [(n, n * n) for n in range(count)]
    sums = [(digit, sum(range(digit, count, 10))) for digit in range(10)]
    return {name: sums if name == "delta" else squares for name in SINKS}


def test_runs_that_are_killed_at_every_step_give_whole_tables(tmp_path: Path) -> None:
    with serving(None) as address, stores(tmp_path) as (database, redis):
        world = World(address, database, redis, tmp_path)
        steps = GRID if LONG else FEW
        for number, step in enumerate(["unguarded:after", *steps]):
            publish(address, range(number * ROUND, (number + 1) * ROUND))
            world.run_until_killed(step)
        count = (len(steps) + 1) * ROUND

        ran = world.run_to_end()

        assert world.tables() == whole(count)
    # Shown by this run, as every run is a JVM: a pipe gets JSON lines, and no progress display.
    assert all("batch" in json.loads(line) for line in ran.stdout.splitlines())
    assert ran.stdout.startswith('{"table":')
    assert "mainstem: " not in ran.stderr
    # So it is the marks that keep rows from being doubled.
    unguarded = p.sqlite(str(tmp_path / "base.db"), "unguarded").read()
    assert unguarded is not None
    assert set(unguarded["n"].to_pylist()) == set(range(count))
    assert len(unguarded) >= count + ROUND


def test_a_stream_goes_on_when_its_server_was_killed(tmp_path: Path) -> None:
    port = free_port()
    with (
        stores(tmp_path) as (database, redis),
        server(tmp_path / "data", port) as (address, process),
    ):
        world = World(address, database, redis, tmp_path)
        publish(address, range(200))
        with subprocess.Popen(
            command("--stream"),
            cwd=tmp_path,
            env=world.environment(),
            stdout=subprocess.PIPE,
            text=True,
        ) as stream:
            try:
                assert stream.stdout is not None
                read_up_to(stream.stdout, 200)
                process.kill()
                process.wait()
                with server(tmp_path / "data", port):
                    publish(address, range(200, 400))
                    read_up_to(stream.stdout, 400)
                    stream.terminate()
                    assert stream.wait(600) == 0

                    assert world.tables() == whole(400)
            finally:
                stream.kill()


@contextmanager
def stores(directory: Path) -> Iterator[tuple[str, str]]:
    """Start a PostgreSQL and a Redis; gives their addresses."""
    (directory / "redis").mkdir()
    with postgresql() as database, redis_server(directory / "redis") as redis:
        yield database, redis


def read_up_to(lines: Iterator[str], events: int) -> None:
    """Read what a run tells until all tables have read so many events."""
    waiting = {*SINKS, "unguarded"}
    for line in lines:
        told = json.loads(line)
        if told["events_total"] == events:
            waiting.remove(told["table"])
        if not waiting:
            return
    raise AssertionError(f"the stream has ended, and {waiting} have not read {events} events")


@contextmanager
def server(directory: Path, port: int) -> Iterator[tuple[str, "subprocess.Popen[str]"]]:
    serve = [sys.executable, "-m", "mainstem", "serve", str(directory)]
    with subprocess.Popen(
        [*serve, "--kafka", f"127.0.0.1:{port}", "--admin", "127.0.0.1:0"],
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stderr is not None
            while "stop" not in process.stderr.readline():
                assert process.poll() is None
            yield f"127.0.0.1:{port}", process
        finally:
            process.kill()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        port: int = found.getsockname()[1]
    return port
