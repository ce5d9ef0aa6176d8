"""Server and database are killed (kill -9) at any moment: each change is there exactly once."""

import itertools
import json
import random
from collections import Counter
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest
from tests.connectors.database import Database
from tests.connectors.killed_servers import (
    assert_topics_equal_tables,
    events_of,
    has_reached,
    may_die,
)
from tests.connectors.postgres.equality import rows_of
from tests.connectors.workload import SCHEMAS, create
from tests.connectors.writer import Writer
from tests.faults.killable_server import Mortal
from tests.long_runs import seeds
from tests.processes import wait_until

from mainstem.cli.admin_port import ServerAdmin
from mainstem.connectors.settings import ConnectorSettings
from mainstem.node.connector_operations import ADD, AddConnector, Added

BOX = (
    "CREATE TABLE {0} (id int PRIMARY KEY, aggregatetype text, aggregateid text, payload int)",
    "CREATE TABLE sent_{0} (id int PRIMARY KEY)",
)


def send(db: Database, box: str, number: int, *, deletes: bool) -> None:
    """Write an event to the outbox and what was sent to a table, in one transaction."""
    delete = f"DELETE FROM {box}" if deletes else ""
    with suppress(psycopg.OperationalError), db.connect() as connection:
        connection.execute(
            f"INSERT INTO {box} VALUES ({number}, '{box}', {number % 3}, {number}); "
            f"INSERT INTO sent_{box} VALUES ({number}); {delete}".encode()
        )


def assert_told_once(told: list[Any], events: list[Any]) -> None:
    """Check that transactions begin and end once, and have as many events as they say."""
    counts = Counter(each["transaction"]["id"] for each in events if each["transaction"])
    assert [each["status"] for each in told] == ["BEGIN", "END"] * (len(told) // 2)
    assert [each["id"] for each in told[::2]] == [each["id"] for each in told[1::2]]
    ends = {each["id"]: each["event_count"] for each in told[1::2]}
    assert len(ends) == len(told) // 2
    assert {name: count for name, count in ends.items() if count} == counts


@pytest.mark.parametrize("seed", seeds(1, 2, 100))
def test_after_kills_topics_equal_tables(db: Database, tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    names = (f"a{seed}", f"b{seed}")
    create(db, *names)
    # So many that the snapshot is not over when the server dies for the first time.
    for name in names:
        db.execute(f"INSERT INTO {name} SELECT i, 1, 'n', 'x' FROM generate_series(100, 30000) i")
    tables = tuple(f"public.{name}" for name in names)
    box = f"box{seed}"
    db.execute(*(each.format(box) for each in BOX))
    settings = ConnectorSettings(
        name="shop",
        url=db.url,
        tables=tables,
        heartbeat_ms=100,
        transactions=True,
        outbox=(f"public.{box}",),
    )
    numbers, follows = itertools.count(), False
    for _ in range(5):
        send(db, box, next(numbers), deletes=False)

    with Mortal(tmp_path / "data") as server:
        with Writer(db.dialect(*SCHEMAS), names, seed) as writer:
            wait_until(lambda: writer.commits > 10, "no commits")
            ServerAdmin(server.address).change(ADD, AddConnector(settings), Added)
            for life in range(6):
                # The first ones die in the snapshot.
                more = rng.randrange(1 + 60 * life)
                done = writer.commits
                wait_until(lambda: writer.commits >= done + more, "no commits")  # noqa: B023
                # Before the snapshot is over, a row that is deleted may not be seen.
                follows = follows or has_reached(server, (0,))
                for _ in range(5):
                    send(db, box, next(numbers), deletes=follows)
                may_die(rng, 0.4, db)
                may_die(rng, 0.8, server)
        assert not writer.errors
        assert_topics_equal_tables(server, db.last(), "public", names, partial(rows_of, db))

        address = server.address
        told = [json.loads(each.value or b"") for each in events_of(address, "shop.transaction")]
        events = [
            json.loads(each.value)
            for name in names
            for each in events_of(address, f"shop.public.{name}")
            if each.value is not None
        ]
        assert_told_once(told, events)
        boxed = [int(each.value or b"") for each in events_of(address, f"outbox.event.{box}")]
        assert sorted(boxed) == [
            number for (number,) in db.execute(f"SELECT id FROM sent_{box} ORDER BY id")
        ]

    db.execute("SELECT pg_terminate_backend(active_pid, 5000) FROM pg_replication_slots")
    db.execute("SELECT pg_drop_replication_slot('mainstem_shop')", "DROP PUBLICATION mainstem_shop")
