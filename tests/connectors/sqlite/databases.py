"""An SQLite database for tests: programs that write to it, and its rows."""

import json
import sqlite3
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.connectors.writer import Dialect

TABLE = "CREATE TABLE {t} (id INTEGER PRIMARY KEY, v INT NOT NULL, note TEXT, big TEXT)"
SCHEMAS = (
    "ALTER TABLE {t} ADD COLUMN extra",
    "ALTER TABLE {t} RENAME COLUMN extra TO more",
    "ALTER TABLE {t} RENAME COLUMN more TO extra",
    "UPDATE {t} SET extra = v, v = v + 1",
)

_PROGRAM = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], timeout=30)
for number in range(10**6):
    with connection:
        for id in range(int(sys.argv[3]), int(sys.argv[3]) + 10):
            connection.execute(
                f"INSERT INTO {sys.argv[2]} (id, v) VALUES ({id}, 1) "
                f"ON CONFLICT (id) DO UPDATE SET v = {sys.argv[2]}.v + 1"
            )
    print(number, flush=True)
"""


class SqliteFile:
    """A database file."""

    def __init__(self, path: Path, *, wal: bool = True) -> None:
        self.path = path
        self.url = f"sqlite://{path}"
        with self.connect() as connection:
            connection.execute(f"PRAGMA journal_mode = {'WAL' if wal else 'DELETE'}")

    @contextmanager
    def connect(self) -> Iterator[sqlite3.Connection]:
        """Open a connection of an application."""
        connection = sqlite3.connect(self.path, isolation_level=None, timeout=30)
        connection.execute("PRAGMA synchronous = OFF")
        try:
            yield connection
        finally:
            connection.close()

    def execute(self, *statements: str) -> Sequence[tuple[Any, ...]]:
        """Execute statements, each in a transaction of its own; return the last one's rows."""
        rows: Sequence[tuple[Any, ...]] = ()
        with self.connect() as connection:
            for each in statements:
                rows = connection.execute(each).fetchall()
        return rows

    def kill_program(self, table: str, first_id: int) -> None:
        """Kill -9 a program that writes ten rows in each transaction, after its first ones."""
        command = [sys.executable, "-c", _PROGRAM, str(self.path), table, str(first_id)]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as program:
            assert program.stdout is not None
            program.stdout.readline()
            program.kill()

    def last(self, name: str = "shop") -> tuple[int, ...]:
        """Return the position after the last change that is recorded for a connector."""
        return (self.execute(f"SELECT ifnull(max(seq), 0) FROM _mainstem_changes_{name}")[0][0],)

    def rows(self, table: str) -> dict[bytes, dict[str, Any]]:
        """Return the rows of a table by the key of their events."""
        with self.connect() as connection:
            connection.row_factory = sqlite3.Row
            rows = [dict(row) for row in connection.execute(f"SELECT * FROM {table}")]
        return {json.dumps({"id": row["id"]}, separators=(",", ":")).encode(): row for row in rows}

    def dialect(self, *schemas: str) -> Dialect:
        """Return what random transactions need."""
        return Dialect(
            self.connect,
            (sqlite3.OperationalError,),
            "ON CONFLICT(id) DO UPDATE SET v = {t}.v + 1, big = excluded.big",
            "DELETE FROM {t}",
            schemas,
        )
