"""Each guard of exactly-once is removed on purpose: topics no longer equal tables, and it is seen.

How this works: the server is killed at one point of a transaction that is published in parts. With
all guards the topic equals the table after that; without one of them it does not.
"""

from pathlib import Path

import pytest
from tests.connectors.database import Database
from tests.connectors.killed_servers import events_of, has_reached
from tests.connectors.mirror import Mirror
from tests.connectors.postgres.equality import rows_of
from tests.connectors.workload import create
from tests.faults.killable_server import Mortal
from tests.processes import wait_until

from mainstem.cli.admin_port import ServerAdmin
from mainstem.connectors.settings import ConnectorSettings
from mainstem.core.errors import MainstemError
from mainstem.node.connector_operations import ADD, SHOW, AddConnector, Added, ConnectorInfo

SMALL_PARTS = """
from mainstem.connectors.running import runner
runner._MOST_BYTES = 20_000
"""
DIES_IN_TRANSACTION = """
import os, signal
from mainstem.connectors.running.output import Output
inner = Output.flush

def flush(self, progress, more):
    inner(self, progress, more)
    if progress.done:
        self.wait()
        os.kill(os.getpid(), signal.SIGKILL)

Output.flush = flush
"""
DIES_BEFORE_APPEND = """
import os, signal
from mainstem.connectors.running.output import Output
inner = Output.flush

def flush(self, progress, more):
    if "shop.public.t" in self._open:
        os.kill(os.getpid(), signal.SIGKILL)
    inner(self, progress, more)

Output.flush = flush
"""
"""The database has sent a transaction, and nothing of it is in the log."""

PROGRESS_APART = """
from mainstem.connectors.running.output import Output
together = Output.flush

def later(self, progress, more):
    before, self._before = getattr(self, "_before", progress), progress
    together(self, before, more)

Output.flush = later
"""
"""The position is stored by the append after that of the events."""
PROGRESS_FIRST = """
from mainstem.connectors.running.output import Output
together = Output.flush

def earlier(self, progress, more):
    self._close_entries()
    self._entries, self._kept = getattr(self, "_kept", []), self._entries
    together(self, progress, more)

Output.flush = earlier
"""
"""The events are appended after the position."""
NOT_SKIPPED = """
from mainstem.connectors.running import runner
begin = runner._Transaction.__init__
runner._Transaction.__init__ = lambda self, _, settings: begin(self, runner.Progress(), settings)
"""
"""What was published of a transaction is published again."""
CONFIRMED_EARLY = """
from mainstem.connectors.port import Commit
from mainstem.connectors.running.runner import Runner
moved = Runner._moved

def confirmed(self, at, item):
    if isinstance(item, Commit):
        self._source.confirm(item.position)
    moved(self, at, item)

Runner._moved = confirmed
"""
"""The database may forget what is not in the log yet."""


def difference(db: Database, path: Path, *, flaw: str, crash: str) -> str:
    """Kill the server in a transaction; return how the topic differs from the table in the end."""
    db.execute("DROP TABLE IF EXISTS t")
    create(db, "t")
    settings = ConnectorSettings(name="shop", url=db.url, tables=("public.t",), heartbeat_ms=100)
    with Mortal(path / "data", flaw=SMALL_PARTS + flaw, crash=crash) as server:
        ServerAdmin(server.address).change(ADD, AddConnector(settings), Added)
        wait_until(lambda: has_reached(server, (0,)), lambda: server.said)
        db.execute(
            "INSERT INTO t VALUES (0, 1, 'n', 'x')",
            "INSERT INTO t SELECT i, 1, 'n', 'x' FROM generate_series(1, 300) i",
        )
        server.wait()
        server.start()
        end = db.last()
        error = ""

        def has_ended() -> bool:
            nonlocal error
            error = _error(server)
            return bool(error) or has_reached(server, end)

        wait_until(has_ended, lambda: server.said)
        try:
            mirror = Mirror().apply_all(events_of(server.address, "shop.public.t"))
        finally:
            db.execute("SELECT pg_terminate_backend(active_pid, 5000) FROM pg_replication_slots")
    db.execute("SELECT pg_drop_replication_slot('mainstem_shop')", "DROP PUBLICATION mainstem_shop")
    if error or mirror.flaws:
        return error or mirror.flaws[0]
    return "" if mirror.rows == rows_of(db, "t") else "other rows"


def _error(server: Mortal) -> str:
    try:
        found = ServerAdmin(server.address).read(SHOW, {"name": "shop"}, ConnectorInfo)
    except MainstemError:
        return ""
    return found.error if found.phase == "failed" else ""


@pytest.mark.parametrize(
    "crash",
    [
        pytest.param(DIES_IN_TRANSACTION, id="in a transaction"),
        pytest.param(DIES_BEFORE_APPEND, id="before an append"),
    ],
)
def test_with_all_guards_a_topic_equals_its_table_wherever_the_server_dies(
    db: Database, tmp_path: Path, crash: str
) -> None:
    assert difference(db, tmp_path, flaw="", crash=crash) == ""


@pytest.mark.parametrize(
    ("flaw", "crash", "seen"),
    [
        pytest.param(PROGRESS_APART, DIES_IN_TRANSACTION, "is there twice", id="progress apart"),
        pytest.param(PROGRESS_FIRST, DIES_IN_TRANSACTION, "other rows", id="progress first"),
        pytest.param(NOT_SKIPPED, DIES_IN_TRANSACTION, "is there twice", id="not skipped"),
        pytest.param(CONFIRMED_EARLY, DIES_BEFORE_APPEND, "changes in between", id="confirmed"),
    ],
)
def test_without_a_guard_it_is_seen_that_a_topic_differs_from_its_table(
    db: Database, tmp_path: Path, flaw: str, crash: str, seen: str
) -> None:
    assert seen in difference(db, tmp_path, flaw=flaw, crash=crash)
