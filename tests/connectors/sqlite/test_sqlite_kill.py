"""Server and writing programs are killed (kill -9) at any moment: each change is there once."""

import random
from pathlib import Path

import pytest
from tests.connectors.killed_servers import assert_topics_equal_tables, may_die
from tests.connectors.sqlite.databases import TABLE, SqliteFile
from tests.connectors.writer import Writer
from tests.faults.killable_server import Mortal
from tests.long_runs import seeds
from tests.processes import wait_until

from mainstem.cli.admin_port import ServerAdmin
from mainstem.connectors.settings import ConnectorSettings
from mainstem.node.connector_operations import ADD, AddConnector, Added


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
                db.kill_program(rng.choice("ab"), 1000)
                may_die(rng, 0.8, server)
        assert not writer.errors
        assert_topics_equal_tables(server, db.last(), "main", "ab", db.rows)
