"""Tables that are altered and truncated at the very moment in which they begin to be read."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from tests.connectors.altered_tables import ROWS, Execute, check_chunks, check_snapshots, repeated
from tests.connectors.database import Database

from mainstem.connectors.postgres.source import PostgresSource
from mainstem.connectors.settings import ConnectorSettings

FILL = f"INSERT INTO t SELECT n, n FROM generate_series(1, {ROWS}) n"
CHANGES = {
    "altered": (
        "ALTER TABLE t ADD COLUMN extra int DEFAULT 7",
        "ALTER TABLE t ALTER COLUMN v TYPE bigint",
        "ALTER TABLE t DROP COLUMN extra",
        "ALTER TABLE t ALTER COLUMN v TYPE int",
    ),
    "truncated": (f"TRUNCATE t; {FILL}",),
}


@pytest.fixture
def source(db: Database) -> Iterator[PostgresSource]:
    db.execute("CREATE TABLE t (id int PRIMARY KEY, v int)", FILL)
    settings = ConnectorSettings(name="locked", url=db.url, tables=("public.t",))
    found = PostgresSource(settings, lambda: None)
    yield found
    found.release()
    found.close()
    db.execute("DROP TABLE t")


@pytest.fixture(params=list(CHANGES))
def altered(
    source: PostgresSource, db: Database, request: pytest.FixtureRequest
) -> Iterator[list[int]]:
    @contextmanager
    def session() -> Iterator[Execute]:
        with db.connect() as connection:
            yield lambda statement: connection.execute(statement.encode())

    with repeated(session, CHANGES[request.param]) as found:
        yield found


def test_a_snapshot_has_every_row_of_a_table(source: PostgresSource, altered: list[int]) -> None:
    check_snapshots(source, altered)


def test_a_chunk_has_every_row_of_a_table(source: PostgresSource, altered: list[int]) -> None:
    check_chunks(source, "public.t", altered)
