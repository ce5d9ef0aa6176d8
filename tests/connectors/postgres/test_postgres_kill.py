"""Server and database are killed (kill -9) at any moment: each change is there exactly once."""

import random
from pathlib import Path

import pytest
from tests.connectors.database import Database
from tests.connectors.killed_servers import events_of, has_reached
from tests.connectors.mirror import Mirror
from tests.connectors.postgres.equality import assert_equal, rows_of
from tests.connectors.workload import Writer, create
from tests.faults.killable_server import Mortal
from tests.long_runs import seeds
from tests.processes import wait_until

from mainstem.cli.admin_port import ServerAdmin
from mainstem.connectors.settings import ConnectorSettings
from mainstem.node.connector_operations import ADD, AddConnector, Added


@pytest.mark.parametrize("seed", seeds(1, 2, 100))
def test_after_kills_topics_equal_tables(db: Database, tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    names = (f"a{seed}", f"b{seed}")
    create(db, *names)
    # So many that the snapshot is not over when the server dies for the first time.
    for name in names:
        db.execute(f"INSERT INTO {name} SELECT i, 1, 'n', 'x' FROM generate_series(100, 30000) i")
    tables = tuple(f"public.{name}" for name in names)
    settings = ConnectorSettings(name="shop", url=db.url, tables=tables, heartbeat_ms=100)

    with Mortal(tmp_path / "data") as server:
        with Writer(db, names, seed) as writer:
            wait_until(lambda: writer.commits > 10, "no commits")
            ServerAdmin(server.address).change(ADD, AddConnector(settings), Added)
            for life in range(6):
                # The first ones die in the snapshot.
                more = rng.randrange(1 + 60 * life)
                done = writer.commits
                wait_until(lambda: writer.commits >= done + more, "no commits")  # noqa: B023
                if rng.random() < 0.4:
                    db.kill()
                    db.start()
                if rng.random() < 0.8:
                    server.kill()
                    server.start()
        assert not writer.errors
        ((text,),) = db.execute("SELECT pg_logical_emit_message(true, 'test', '')::text")
        high, low = text.split("/")
        target = int(high, 16) << 32 | int(low, 16)
        wait_until(lambda: has_reached(server, (target,)), lambda: f"not caught up: {server.said}")

        for name in names:
            mirror = Mirror().apply_all(events_of(server.address, f"shop.public.{name}"))
            assert_equal(mirror, rows_of(db, name))

    db.execute("SELECT pg_terminate_backend(active_pid, 5000) FROM pg_replication_slots")
    db.execute("SELECT pg_drop_replication_slot('mainstem_shop')", "DROP PUBLICATION mainstem_shop")
