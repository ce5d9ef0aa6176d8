"""``mainstem connector run``: a process of its own runs a connector; it may die at any moment."""

import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.connectors.killed_servers import events_of, has_reached
from tests.connectors.mirror import Mirror
from tests.connectors.postgres.equality import assert_equal
from tests.connectors.sqlite.databases import TABLE, SqliteFile
from tests.connectors.writer import Writer
from tests.faults.killable_server import PATIENCE_S, Mortal
from tests.long_runs import seeds
from tests.processes import wait_until

from mainstem.cli.admin_port import ServerAdmin
from mainstem.connectors.settings import ConnectorSettings
from mainstem.core.errors import MainstemError
from mainstem.node.connector_operations import (
    ADD,
    PAUSE,
    REMOVE,
    RESTART,
    RESUME,
    SHOW,
    SNAPSHOT,
    AddConnector,
    Added,
    ConnectorInfo,
    ConnectorName,
    Done,
    RemoveConnector,
    RestartConnector,
    SnapshotTables,
)


class Process:
    """``mainstem connector run shop`` at a server."""

    def __init__(self, server: Mortal) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "mainstem", "connector", "run", "shop", "--at", server.address],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            cwd="/",
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )

    @property
    def name(self) -> str:
        """What the server calls it."""
        return f"process {self._process.pid} on"

    def says(self) -> str:
        """Return the next line that it prints."""
        assert self._process.stderr is not None
        return self._process.stderr.readline()

    def end(self, by: signal.Signals = signal.SIGTERM) -> int:
        """End it; return its exit code."""
        self._process.send_signal(by)
        self._process.communicate(timeout=PATIENCE_S)
        return self._process.returncode


@contextmanager
def running(server: Mortal) -> Iterator[Process]:
    found = Process(server)
    try:
        yield found
    finally:
        found.end(signal.SIGKILL)


def state(server: Mortal) -> ConnectorInfo:
    return ServerAdmin(server.address).read(SHOW, {"name": "shop"}, ConnectorInfo)


def wait_for(server: Mortal, phase: str, runs_in: str) -> ConnectorInfo:
    def is_so() -> bool:
        try:
            found = state(server)
        except MainstemError:
            return False
        return found.phase == phase and found.runs_in.startswith(runs_in)

    wait_until(is_so, lambda: str(state(server)))
    return state(server)


@pytest.fixture
def db(tmp_path: Path) -> SqliteFile:
    found = SqliteFile(tmp_path / "shop.db")
    found.execute(TABLE.format(t="a"), TABLE.format(t="b"), "INSERT INTO a VALUES (1, 1, '', '')")
    return found


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Mortal]:
    with Mortal(tmp_path / "data") as found:
        yield found


def add(server: Mortal, db: SqliteFile, *, own_process: bool) -> ServerAdmin:
    settings = ConnectorSettings(
        name="shop",
        url=db.url,
        tables=("main.a", "main.b"),
        heartbeat_ms=100,
        own_process=own_process,
    )
    admin = ServerAdmin(server.address)
    admin.change(ADD, AddConnector(settings), Added)
    return admin


def test_a_process_takes_over_from_the_server_and_the_server_goes_on_after_it(
    server: Mortal, db: SqliteFile
) -> None:
    admin = add(server, db, own_process=False)
    wait_for(server, "following", "server")
    with running(server) as first:
        wait_for(server, "following", first.name)
        db.execute("UPDATE a SET v = 2")
        wait_until(lambda: has_reached(server, db.last()), lambda: str(state(server)))
        wait_until(lambda: state(server).published == 1, lambda: str(state(server)))
        assert first.end() == 0
    wait_for(server, "following", "server")
    db.execute("UPDATE a SET v = 3")
    wait_until(lambda: has_reached(server, db.last()), lambda: str(state(server)))

    mirror = Mirror().apply_all(events_of(server.address, "shop.main.a"))
    assert_equal(mirror, db.rows("a"))
    admin.change(REMOVE, RemoveConnector("shop"), Done)


def test_pause_resume_restart_snapshot_and_rm_reach_the_process(
    server: Mortal, db: SqliteFile
) -> None:
    admin = add(server, db, own_process=True)
    assert (state(server).phase, state(server).runs_in) == ("not running", "")
    with running(server) as process:
        wait_for(server, "following", process.name)
        admin.change(PAUSE, ConnectorName("shop"), Done)
        wait_for(server, "paused", process.name)
        before = state(server).position
        db.execute("UPDATE a SET v = 2")
        admin.change(RESUME, ConnectorName("shop"), Done)
        wait_until(lambda: has_reached(server, db.last()), lambda: str(state(server)))
        assert state(server).position > before

        admin.change(SNAPSHOT, SnapshotTables("shop", ("main.a",)), Done)
        wait_until(lambda: ops(server)[-1] == "r", lambda: str(ops(server)))
        admin.change(RESTART, RestartConnector("shop", snapshot=True), Done)
        wait_until(lambda: ops(server)[-2:] == ["t", "r"], lambda: str(ops(server)))
        assert ops(server) == ["r", "u", "r", "t", "r"]

        admin.change(REMOVE, RemoveConnector("shop"), Done)
        lines = iter(process.says, "")
        assert any("there is no connector 'shop'" in line for line in lines)


def ops(server: Mortal) -> list[str]:
    events = events_of(server.address, "shop.main.a")
    return [(each.value or b"").partition(b'"op":"')[2][:1].decode() for each in events]


def test_a_second_process_waits_for_the_end_of_the_first(server: Mortal, db: SqliteFile) -> None:
    add(server, db, own_process=True)
    with running(server) as first:
        wait_for(server, "following", first.name)
        with running(server) as second:
            line = second.says()
            assert f"connector shop is run by {first.name}" in line
            assert "waiting for its end" in line
            assert state(server).runs_in.startswith(first.name)
            first.end(signal.SIGKILL)
            wait_for(server, "following", second.name)


@pytest.mark.parametrize("seed", seeds(1, 2, 100))
def test_after_kills_of_process_and_server_each_change_is_there_once(
    server: Mortal, db: SqliteFile, seed: int
) -> None:
    rng = random.Random(seed)
    for name in "ab":
        db.execute(
            "WITH RECURSIVE n(i) AS (SELECT 2000 UNION ALL SELECT i + 1 FROM n WHERE i < 9000) "
            f"INSERT INTO {name} SELECT i, 1, 'n', 'x' FROM n",
        )
    with Writer(db.dialect(), "ab", seed) as writer:
        wait_until(lambda: writer.commits > 10, "no commits")
        # Without a thread of its own the server takes over as soon as the lease has ended.
        add(server, db, own_process=bool(seed % 2))
        for life in range(4):
            with running(server) as process:
                wait_until(lambda: process.name in state(server).runs_in, "it does not run")
                target = writer.commits + rng.randrange(1 + 60 * life)
                wait_until(lambda: writer.commits >= target, "no commits")  # noqa: B023
                if rng.random() < 0.5:
                    server.restart()
    assert not writer.errors
    with running(server):
        end = db.last()
        wait_until(lambda: has_reached(server, end), lambda: f"not caught up: {state(server)}")

    for name in "ab":
        mirror = Mirror().apply_all(events_of(server.address, f"shop.main.{name}"))
        assert_equal(mirror, db.rows(name))
