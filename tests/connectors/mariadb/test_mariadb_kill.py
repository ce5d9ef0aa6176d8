"""Server and MariaDB are killed (kill -9) at any moment: each change is there exactly once."""

import random
from pathlib import Path

import pytest
from tests.connectors.killed_servers import assert_topics_equal_tables, may_die
from tests.connectors.mariadb.databases import PASSWORD, TABLE, MariaDb
from tests.connectors.writer import Writer
from tests.faults.killable_server import Mortal
from tests.long_runs import seeds
from tests.processes import wait_until

from mainstem.cli.admin_port import ServerAdmin
from mainstem.connectors.settings import ConnectorSettings
from mainstem.node.connector_operations import ADD, AddConnector, Added


@pytest.mark.parametrize("seed", seeds(1, 1, 100))
def test_after_kills_topics_equal_tables(
    db: MariaDb, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setenv("MAINSTEM_SECRET_A", PASSWORD)
    rng = random.Random(seed)
    names = (f"a{seed}", f"b{seed}")
    for name in names:
        db.execute(
            TABLE.format(t=name),
            # So many that the snapshot is not over when the server dies for the first time.
            f"INSERT INTO {name} SELECT seq, 1, 'n', 'x' FROM seq_100_to_30000",
        )
    settings = ConnectorSettings(
        name="shop",
        url=db.url,
        tables=tuple(f"shop.{name}" for name in names),
        password_env="MAINSTEM_SECRET_A",
        heartbeat_ms=100,
    )

    with Mortal(tmp_path / "data") as server:
        with Writer(db.dialect(), names, seed) as writer:
            wait_until(lambda: writer.commits > 10, "no commits")
            ServerAdmin(server.address).change(ADD, AddConnector(settings), Added)
            for life in range(4):
                # The first ones die in the snapshot.
                target = writer.commits + rng.randrange(1 + 60 * life)
                wait_until(lambda: writer.commits >= target, "no commits")  # noqa: B023
                may_die(rng, 0.4, db)
                may_die(rng, 0.8, server)
        assert not writer.errors
        assert_topics_equal_tables(server, db.last(), "shop", names, db.rows)
