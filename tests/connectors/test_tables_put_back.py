"""A table is taken out of a connector's list and put back: its topic equals the table again."""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest
from tests.broker.brokers import read_all
from tests.connectors.database import Database, database
from tests.connectors.desk import Desk, desk
from tests.connectors.mariadb.databases import TABLE as MARIADB_TABLE
from tests.connectors.mariadb.databases import mariadb
from tests.connectors.postgres.equality import rows_of
from tests.connectors.sqlite.databases import TABLE as SQLITE_TABLE
from tests.connectors.sqlite.databases import SqliteFile
from tests.connectors.workload import create
from tests.connectors.writer import Dialect, Writer
from tests.processes import wait_until

from mainstem.connectors.settings import Format, SnapshotMode
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
        if known.phase != "paused":
            wait_until(
                lambda: self.at.state().phase.startswith("following"),
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


@pytest.fixture(scope="module")
def postgres_server() -> Iterator[Database]:
    with database() as found:
        yield found


@contextmanager
def postgres(db: Database, at: Path) -> Iterator[Captured]:
    db.execute("DROP TABLE IF EXISTS a, b")
    create(db, "a", "b")
    with desk(db.url, at) as found:
        yield Captured(
            found, "public", db.execute, db.last, lambda it: rows_of(db, it), db.dialect(), {}
        )


@contextmanager
def maria_db(at: Path) -> Iterator[Captured]:
    with mariadb() as db:
        db.execute(*(MARIADB_TABLE.format(t=each) for each in "ab"))
        options = {"password_env": "MAINSTEM_SECRET_A"}
        with desk(db.url, at) as found:
            yield Captured(found, "shop", db.execute, db.last, db.rows, db.dialect(), options)


@contextmanager
def sqlite(at: Path) -> Iterator[Captured]:
    db = SqliteFile(at / "shop.db")
    db.execute(*(SQLITE_TABLE.format(t=each) for each in "ab"))
    with desk(db.url, at) as found:
        yield Captured(found, "main", db.execute, db.last, db.rows, db.dialect(), {})


@pytest.fixture(params=["postgresql", "mariadb", "sqlite"])
def it(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Captured]:
    with ExitStack() as stack:
        if request.param == "postgresql":
            server = request.getfixturevalue("postgres_server")
            found = stack.enter_context(postgres(server, tmp_path))
        elif request.param == "mariadb":
            found = stack.enter_context(maria_db(tmp_path))
        else:
            found = stack.enter_context(sqlite(tmp_path))
        rows = ", ".join(f"({number}, 1, 'n', 'x')" for number in range(4))
        found.execute(*(f"INSERT INTO {each} VALUES {rows}" for each in "ab"))
        yield found


def test_a_table_that_was_out_of_the_list_for_a_while_is_emptied_and_read_again(
    it: Captured,
) -> None:
    it.add(partitions=2)
    it.catch_up()
    it.capture("b")
    it.change_both()
    it.catch_up()
    assert len(it.parts("a")[0] + it.parts("a")[1]) == 4

    it.capture("ab")
    it.catch_up()
    it.execute("UPDATE a SET v = v + 1", "UPDATE b SET v = v + 1")
    it.catch_up()

    it.assert_equal()


def test_topics_equal_tables_though_the_list_changes_during_random_transactions(
    it: Captured,
) -> None:
    with Writer(it.dialect, "ab", 1) as first, Writer(it.dialect, "ab", 2) as second:

        def wait_for_commits(count: int) -> None:
            target = first.commits + second.commits + count
            wait_until(lambda: first.commits + second.commits >= target, "no commits")

        it.add()
        for tables in ("b", "ab", "a", "ab", "b", "ab"):
            wait_for_commits(60)
            it.capture(tables)
        wait_for_commits(60)
    assert not first.errors + second.errors

    it.catch_up()

    it.assert_equal()


def test_a_table_that_is_taken_out_while_it_is_read_is_read_from_its_start_later(
    it: Captured,
) -> None:
    it.add()
    it.at.connectors.pause("shop")
    it.at.connectors.snapshot("shop", [])
    it.capture("b")
    it.change_both()
    it.at.connectors.resume("shop")
    it.catch_up()

    it.capture("ab")
    it.catch_up()

    it.assert_equal()


def test_a_list_that_changes_to_and_fro_while_the_connector_is_paused_loses_nothing(
    it: Captured,
) -> None:
    it.add()
    it.at.connectors.pause("shop")
    it.capture("b")
    it.change_both()
    it.capture("ab")
    it.at.connectors.resume("shop")
    it.catch_up()

    it.assert_equal()


@pytest.mark.parametrize(
    ("changed", "missing"),
    [
        ({"truncates": False}, "deletions of rows"),
        ({"format": Format.FLAT}, "deletions of rows"),
        ({"snapshot": SnapshotMode.NONE}, "changes made"),
    ],
)
def test_what_a_topic_misses_is_told_if_it_may_not_be_emptied_or_the_table_not_be_read(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, changed: dict[str, Any], missing: str
) -> None:
    with sqlite(tmp_path) as it:
        it.add(**changed)
        it.execute("INSERT INTO a VALUES (1, 1, 'n', 'x')", "INSERT INTO b VALUES (1, 1, 'n', 'x')")
        it.catch_up()
        it.capture("b")
        it.change_both()
        it.catch_up()
        it.capture("ab")
        it.catch_up()

        text = f"table main.a was not captured for a while: {missing} meanwhile are not in topic"
        assert text in it.at.state().note
        assert text in caplog.text
