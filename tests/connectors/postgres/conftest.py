"""A real PostgreSQL for the tests of a module, and connectors with a broker for each test."""

from collections.abc import Iterator
from typing import Any

import pytest
from tests.connectors.database import Database, database
from tests.connectors.postgres.desk import PostgresDesk
from tests.in_process_server import server

from mainstem.connectors.secrets import Secrets


@pytest.fixture(scope="module")
def db() -> Iterator[Database]:
    with database() as found:
        yield found


@pytest.fixture
def desk(db: Database, tmp_path: Any) -> Iterator[PostgresDesk]:
    for (name,) in db.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'"):
        db.execute(f'DROP TABLE IF EXISTS public."{name}" CASCADE')
    with server(None) as running:
        secrets = Secrets(tmp_path, {"MAINSTEM_SECRET_A": "hidden"})
        found = PostgresDesk(running.node.broker, db, secrets)
        yield found
        for name in found.connectors.names():
            found.connectors.remove(name)
        found.connectors.close()
    assert db.execute("SELECT slot_name FROM pg_replication_slots") == []
    assert db.execute("SELECT pubname FROM pg_publication") == []
