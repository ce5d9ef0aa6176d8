"""Random transactions on a table whose every change raises ``v``; also while the database dies."""

import random
import threading
from types import TracebackType
from typing import Any

import psycopg
from tests.connectors.database import Database

TABLE = """
CREATE TABLE {name} (id int PRIMARY KEY, v int NOT NULL, note text, big text);
ALTER TABLE {name} ALTER big SET STORAGE EXTERNAL
"""
KEYS = 40
_SCHEMAS = (
    "ALTER TABLE {name} ADD COLUMN IF NOT EXISTS extra int",
    "ALTER TABLE {name} DROP COLUMN IF EXISTS extra",
    "ALTER TABLE {name} ALTER note TYPE varchar(100)",
    "ALTER TABLE {name} ALTER note TYPE text",
)


def create(database: Database, *names: str) -> None:
    """Create the tables."""
    for name in names:
        database.execute(*TABLE.format(name=name).split(";"))


class Writer:
    """A thread that runs random transactions until it is told to stop."""

    def __init__(
        self,
        database: Database,
        tables: tuple[str, ...],
        seed: int,
        *,
        ddl: bool = True,
        truncates: bool = True,
    ) -> None:
        self._database = database
        self._tables = tables
        self._rng = random.Random(seed)
        self._ddl = ddl
        self._truncates = truncates
        self._stop = threading.Event()
        self.commits = 0
        self.errors: list[Exception] = []
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> "Writer":
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                with self._database.connect() as connection:
                    while not self._stop.is_set():
                        self._transaction(connection)
            except (psycopg.OperationalError, psycopg.IntegrityError):
                # The database is gone for a moment, or two writers had the same idea.
                self._stop.wait(0.02)
            except psycopg.Error as error:
                self.errors.append(error)
                return

    def _transaction(self, connection: "psycopg.Connection[tuple[Any, ...]]") -> None:
        rng = self._rng
        if self._ddl and rng.random() < 0.01:
            name = rng.choice(self._tables)
            connection.execute(rng.choice(_SCHEMAS).format(name=name).encode())
            return
        with connection.transaction() as transaction:
            for _ in range(rng.choice((1, 1, 1, 2, 5, 30))):
                self._change(connection, rng.choice(self._tables))
            if rng.random() < 0.1:
                raise psycopg.Rollback(transaction)
        self.commits += 1

    def _change(self, connection: "psycopg.Connection[tuple[Any, ...]]", name: str) -> None:
        rng = self._rng
        one, other = rng.randrange(KEYS), rng.randrange(KEYS)
        chance = rng.random()
        if chance < 0.35:
            big = f"repeat('{rng.randrange(10)}', {rng.choice((1, 10, 5_000))})"
            connection.execute(
                f"INSERT INTO {name} VALUES ({one}, 1, 'n{rng.randrange(99)}', {big}) "
                f"ON CONFLICT (id) DO UPDATE SET v = {name}.v + 1, big = excluded.big".encode()
            )
        elif chance < 0.75:
            connection.execute(
                f"UPDATE {name} SET v = v + 1, note = 'u{rng.randrange(99)}' "
                f"WHERE id = {one}".encode()
            )
        elif chance < 0.88:
            connection.execute(f"DELETE FROM {name} WHERE id = {one}".encode())
        elif chance < 0.995 or not self._truncates:
            # A large value is sent again, as nobody could know it under the new key.
            connection.execute(
                f"UPDATE {name} SET id = {other}, v = v + 1, big = big || '' WHERE id = {one} "
                f"AND NOT EXISTS (SELECT FROM {name} WHERE id = {other})".encode()
            )
        else:
            connection.execute(f"TRUNCATE {name}".encode())
