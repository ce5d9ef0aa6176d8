"""The databases: how rows get into them, and how Debezium's engine follows them."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Protocol

from tests.connectors.database import Database
from tests.connectors.debezium.engine import (
    JARS,
    MARIADB_JARS,
    mariadb_settings_for,
    settings_for,
)
from tests.connectors.mariadb.databases import MariaDb

AT_ONCE = 1_000
Write = Callable[[int], int]
"""Inserts the row of a number and commits it; returns when that began, in microseconds."""


class Measured(Protocol):
    """A database with tables of the benchmark."""

    name: str
    url: str
    schema: str
    jars: list[Path]
    tells_commits: bool
    """Whether events tell when the transaction was committed, more exactly than in seconds."""

    def make(self, table: str, rows: int) -> None:
        """Create a table with so many rows."""

    def load(self, table: str, first: int, rows: int) -> None:
        """Insert rows, a thousand in each transaction."""

    def writing(self, table: str) -> AbstractContextManager[Write]:
        """Open a connection that commits single rows."""

    def engine(self, table: str, directory: Path) -> Mapping[str, str]:
        """Return the settings of Debezium's engine."""

    def is_followed(self) -> bool:
        """Tell whether the engine follows the database."""

    def clear(self, table: str) -> None:
        """Remove a table, and what followed it."""


class MeasuredPostgres:
    """PostgreSQL."""

    name, schema, jars, tells_commits = "PostgreSQL", "public", JARS, True
    _COLUMNS = (
        "id bigint PRIMARY KEY, customer int, amount numeric(10,2), at timestamptz, note text"
    )
    _ROWS = (
        "INSERT INTO {} SELECT i, i % 1000, i / 100.0, now(), repeat('x', 60) "
        "FROM generate_series({}, {}) i"
    )

    def __init__(self, db: Database) -> None:
        self._db = db
        self.url = db.url

    def make(self, table: str, rows: int) -> None:
        """Create a table with so many rows."""
        self._db.execute(
            f"CREATE TABLE {table} ({self._COLUMNS})",
            self._ROWS.format(table, 0, rows - 1),
            f"ANALYZE {table}",
            "CHECKPOINT",
        )

    def load(self, table: str, first: int, rows: int) -> None:
        """Insert rows, a thousand in each transaction."""
        with self._db.connect() as connection:
            for start in range(first, first + rows, AT_ONCE):
                statement = self._ROWS.format(table, start, start + AT_ONCE - 1)
                connection.execute(statement.encode())

    @contextmanager
    def writing(self, table: str) -> Iterator[Write]:
        """Open a connection that commits single rows."""
        with self._db.connect() as connection:

            def write(number: int) -> int:
                began_us = time.time_ns() // 1000
                connection.execute(self._ROWS.format(table, -number - 1, -number - 1).encode())
                return began_us

            yield write

    def engine(self, table: str, directory: Path) -> Mapping[str, str]:
        """Return the settings of Debezium's engine."""
        return settings_for(self._db, table, directory) | {
            "table.include.list": f"public.{table}",
            "publication.autocreate.mode": "filtered",
            "publication.name": table,
            "slot.name": table,
        }

    def is_followed(self) -> bool:
        """Tell whether the engine follows the database."""
        return self._db.execute("SELECT 1 FROM pg_replication_slots WHERE active") != []

    def clear(self, table: str) -> None:
        """Remove a table, and what followed it."""
        self._db.execute("SELECT pg_terminate_backend(active_pid, 5000) FROM pg_replication_slots")
        self._db.execute("SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots")
        for (publication,) in self._db.execute("SELECT pubname FROM pg_publication"):
            self._db.execute(f'DROP PUBLICATION "{publication}"')
        self._db.execute(f"DROP TABLE {table}")


class MeasuredMariaDb:
    """MariaDB."""

    name, schema, jars, tells_commits = "MariaDB", "shop", MARIADB_JARS, False
    _COLUMNS = (
        "id BIGINT PRIMARY KEY, customer INT, amount DECIMAL(10,2), at TIMESTAMP(6), note TEXT"
    )
    _ROWS = (
        "INSERT INTO {} SELECT seq, seq % 1000, seq / 100.0, now(6), repeat('x', 60) "
        "FROM seq_{}_to_{}"
    )

    def __init__(self, db: MariaDb) -> None:
        self._db = db
        self.url = db.url

    def make(self, table: str, rows: int) -> None:
        """Create a table with so many rows."""
        self._db.execute(
            f"CREATE TABLE {table} ({self._COLUMNS})",
            self._ROWS.format(table, 0, rows - 1),
            f"ANALYZE TABLE {table}",
        )

    def load(self, table: str, first: int, rows: int) -> None:
        """Insert rows, a thousand in each transaction."""
        with self._db.connect() as connection:
            for start in range(first, first + rows, AT_ONCE):
                connection.execute(self._ROWS.format(table, start, start + AT_ONCE - 1))

    @contextmanager
    def writing(self, table: str) -> Iterator[Write]:
        """Open a connection that commits single rows."""
        with self._db.connect() as connection:

            def write(number: int) -> int:
                began_us = time.time_ns() // 1000
                connection.execute(
                    f"INSERT INTO {table} VALUES ({-number - 1}, 1, 1.25, now(6), repeat('x', 60))"
                )
                return began_us

            yield write

    def engine(self, table: str, directory: Path) -> Mapping[str, str]:
        """Return the settings of Debezium's engine."""
        return mariadb_settings_for(self._db, table, directory) | {
            "table.include.list": f"shop.{table}",
        }

    def is_followed(self) -> bool:
        """Tell whether the engine follows the database."""
        rows = self._db.execute(
            "SELECT 1 FROM information_schema.processlist WHERE command = 'Binlog Dump' AND "
            "user = 'debezium'"
        )
        return rows != []

    def clear(self, table: str) -> None:
        """Remove a table, and what followed it."""
        self._db.execute(f"DROP TABLE {table}", "RESET MASTER")
