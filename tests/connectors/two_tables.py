"""A connector to two tables of any database, and whether their topics equal them."""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from tests.broker.brokers import read_all
from tests.connectors.database import database
from tests.connectors.desk import Desk, desk
from tests.connectors.mariadb.databases import TABLE as MARIADB_TABLE
from tests.connectors.mariadb.databases import mariadb
from tests.connectors.postgres.equality import rows_of
from tests.connectors.sqlite.databases import TABLE as SQLITE_TABLE
from tests.connectors.sqlite.databases import SqliteFile
from tests.connectors.workload import create
from tests.connectors.writer import Dialect
from tests.processes import wait_until

from mainstem.pipelines.planning.change_values import OPERATIONS, UNAVAILABLE, position_of

Rows = dict[bytes, dict[str, Any]]
Told = tuple[bytes, dict[str, Any]]
"""The key and the value of an event."""


class Captured(NamedTuple):
    """A database with the tables ``a`` and ``b``, and a connector to it."""

    at: Desk
    schema: str
    execute: Callable[..., Sequence[tuple[Any, ...]]]
    last: Callable[[], tuple[int, ...]]
    rows: Callable[[str], Rows]
    dialect: Dialect
    options: dict[str, Any]

    def add(self, **settings: Any) -> None:
        """Capture both tables."""
        self.at.add(*self._named("ab"), **self.options, **settings)
        self.at.wait_for("following")

    def capture(self, tables: str) -> None:
        """Change the list of the connector; returns when it knows what it has to read."""
        known = self.at.state()
        settings = msgspec.structs.replace(known.settings, tables=self._named(tables))
        self.at.connectors.alter(settings)
        if known.report.phase != "paused":
            wait_until(
                lambda: self.at.state().report.phase.startswith("following"),
                lambda: str(self.at.state()),
            )

    def _named(self, tables: str) -> tuple[str, ...]:
        return tuple(f"{self.schema}.{each}" for each in tables)

    def topic(self, table: str) -> str:
        """Return the topic of a table."""
        return f"shop.{self.schema}.{table}"

    def catch_up(self) -> None:
        """Wait until all that was committed is published, and all tables are read."""
        self.at.wait_past(self.last())

    def change_both(self) -> None:
        """Delete, change and add rows of both tables."""
        for each in "ab":
            self.execute(
                f"DELETE FROM {each} WHERE id = 1",
                f"UPDATE {each} SET v = v + 1 WHERE id = 2",
                f"INSERT INTO {each} VALUES (5, 1, 'n', 'x')",
            )

    def assert_equal(self) -> None:
        """Compare the topics with the tables, read in order, and by the positions of changes."""
        for each in "ab":
            rows, parts = self.rows(each), self.parts(each)
            assert [_applied(part) for part in parts] == [
                {key: row for key, row in rows.items() if key in {it for it, _ in part}}
                for part in parts
            ]
            whole = [told for part in parts for told in part]
            assert _applied(sorted(whole, key=_position)) == rows

    def parts(self, table: str) -> list[list[Told]]:
        """Return the changes in each partition of a topic, without tombstones."""
        topic = self.topic(table)
        count = len(self.at.broker.topic(topic).partitions)
        return [
            [
                (event.key or b"", json.loads(event.value))
                for event in read_all(self.at.broker, topic, number)
                if event.value
            ]
            for number in range(count)
        ]


def _position(told: Told) -> str:
    _, value = told
    return position_of(value["source"], 0, OPERATIONS[value["op"]])


def _applied(told: Iterable[Told]) -> Rows:
    rows: Rows = {}
    for key, value in told:
        known, after = rows.get(key, {}), value["after"]
        if value["op"] == "t":
            rows.clear()
        elif value["op"] == "d":
            rows.pop(key, None)
        else:
            rows[key] = {
                name: known.get(name) if each == UNAVAILABLE else each
                for name, each in after.items()
            }
    return rows


@contextmanager
def postgres(at: Path) -> Iterator[Captured]:
    """A PostgreSQL."""
    with database() as db:
        create(db, "a", "b")
        with desk(db.url, at) as found:
            yield Captured(
                found, "public", db.execute, db.last, lambda it: rows_of(db, it), db.dialect(), {}
            )


@contextmanager
def maria_db(at: Path) -> Iterator[Captured]:
    """A MariaDB."""
    with mariadb() as db:
        db.execute(*(MARIADB_TABLE.format(t=each) for each in "ab"))
        options = {"password_env": "MAINSTEM_SECRET_A"}
        with desk(db.url, at) as found:
            yield Captured(found, "shop", db.execute, db.last, db.rows, db.dialect(), options)


@contextmanager
def sqlite(at: Path) -> Iterator[Captured]:
    """An SQLite file."""
    db = SqliteFile(at / "shop.db")
    db.execute(*(SQLITE_TABLE.format(t=each) for each in "ab"))
    with desk(db.url, at) as found:
        yield Captured(found, "main", db.execute, db.last, db.rows, db.dialect(), {})


_KINDS = {"postgresql": postgres, "mariadb": maria_db, "sqlite": sqlite}
NAMES = tuple(_KINDS)


@contextmanager
def captured(name: str, at: Path) -> Iterator[Captured]:
    """Start a database with four rows in each table; ``add`` captures them."""
    with _KINDS[name](at) as found:
        rows = ", ".join(f"({number}, 1, 'n', 'x')" for number in range(4))
        found.execute(*(f"INSERT INTO {each} VALUES {rows}" for each in "ab"))
        yield found
