"""Server and writing programs are killed (kill -9) at any moment: each change is there once."""

import random
import subprocess
import sys
from pathlib import Path

import pytest
from tests.connectors.killed_servers import assert_topics_equal_tables
from tests.connectors.sqlite.databases import TABLE, SqliteFile
from tests.connectors.writer import Writer
from tests.faults.killable_server import Mortal
from tests.long_runs import seeds
from tests.processes import wait_until

from mainstem.cli.admin_port import ServerAdmin
from mainstem.connectors.settings import ConnectorSettings
from mainstem.node.connector_operations import ADD, AddConnector, Added

_PROGRAM = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], timeout=30)
for number in range(10**6):
    with connection:
        for id in range(1000, 1010):
            connection.execute(
                f"INSERT INTO {sys.argv[2]} (id, v) VALUES ({id}, 1) "
                f"ON CONFLICT (id) DO UPDATE SET v = {sys.argv[2]}.v + 1"
            )
    print(number, flush=True)
"""


@pytest.mark.parametrize("seed", seeds(1, 1, 100))
def test_after_kills_topics_equal_tables(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    db = SqliteFile(tmp_path / "shop.db", wal=bool(seed % 2))
    for name in "ab":
        db.execute(
            TABLE.format(t=name),
            "WITH RECURSIVE n(i) AS (SELECT 2000 UNION ALL SELECT i + 1 FROM n WHERE i < 30000) "
            f"INSERT INTO {name} SELECT i, 1, 'n', 'x' FROM n",
        )
    settings = ConnectorSettings(
        name="shop", url=db.url, tables=("main.a", "main.b"), heartbeat_ms=100
    )

    with Mortal(tmp_path / "data") as server:
        with Writer(db.dialect(), "ab", seed) as writer:
            wait_until(lambda: writer.commits > 10, "no commits")
            ServerAdmin(server.address).change(ADD, AddConnector(settings), Added)
            for life in range(4):
                # The first ones die in the snapshot.
                target = writer.commits + rng.randrange(1 + 30 * life)
                wait_until(lambda: writer.commits >= target, "no commits")  # noqa: B023
                command = [sys.executable, "-c", _PROGRAM, str(db.path), rng.choice("ab")]
                with subprocess.Popen(command, stdout=subprocess.PIPE) as program:
                    assert program.stdout is not None
                    program.stdout.readline()
                    program.kill()
                if rng.random() < 0.8:
                    server.kill()
                    server.start()
        assert not writer.errors
        assert_topics_equal_tables(server, db.last(), "main", "ab", db.rows)
