"""Tables that are altered at the very moment in which they begin to be read."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from tests.connectors.altered_tables import ROWS, Execute, check_chunks, check_snapshots, repeated
from tests.connectors.mariadb.databases import PASSWORD, MariaDb

from mainstem.connectors.mariadb.source import MariaDbSource
from mainstem.connectors.settings import ConnectorSettings

CHANGES = (
    "ALTER TABLE t ADD COLUMN extra INT DEFAULT 7",
    "ALTER TABLE t MODIFY v BIGINT",
    "ALTER TABLE t DROP COLUMN extra",
    "ALTER TABLE t MODIFY v INT",
)


@pytest.fixture
def source(db: MariaDb) -> Iterator[MariaDbSource]:
    db.execute(
        "CREATE TABLE t (id INT PRIMARY KEY, v INT)",
        f"INSERT INTO t SELECT seq, seq FROM seq_1_to_{ROWS}",
    )
    settings = ConnectorSettings(name="locked", url=db.url, tables=("shop.t",))
    found = MariaDbSource(settings, lambda: PASSWORD)
    yield found
    found.close()
    db.execute("DROP TABLE t")


@pytest.fixture
def altered(source: MariaDbSource, db: MariaDb) -> Iterator[list[int]]:
    @contextmanager
    def session() -> Iterator[Execute]:
        with db.connect() as connection:
            yield connection.execute

    with repeated(session, CHANGES) as found:
        yield found


def test_a_snapshot_has_every_row_of_a_table(source: MariaDbSource, altered: list[int]) -> None:
    check_snapshots(source, altered)


def test_a_chunk_has_every_row_of_a_table(source: MariaDbSource, altered: list[int]) -> None:
    check_chunks(source, "shop.t", altered)
