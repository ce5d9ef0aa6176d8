"""A real SQLite database and a server: topics equal tables, and what cannot be is refused."""

import json
import math
import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.broker.brokers import read_all
from tests.connectors.desk import Desk, desk
from tests.connectors.mirror import Mirror
from tests.connectors.sqlite.databases import SCHEMAS, TABLE, SqliteFile
from tests.long_runs import seeds
from tests.processes import wait_until

from mainstem.connectors.errors import SourceRefused
from mainstem.connectors.settings import Format
from mainstem.core.errors import InvalidSetting


@pytest.fixture(params=["wal", "delete"])
def any_db(request: pytest.FixtureRequest, tmp_path: Path) -> SqliteFile:
    return SqliteFile(tmp_path / "shop.db", wal=request.param == "wal")


@pytest.fixture
def db(tmp_path: Path) -> SqliteFile:
    return SqliteFile(tmp_path / "shop.db")


@pytest.fixture
def at(tmp_path: Path) -> Iterator[Desk]:
    with desk(f"sqlite://{tmp_path / 'shop.db'}", tmp_path) as found:
        yield found
    left = SqliteFile(tmp_path / "shop.db").execute(
        "SELECT name FROM sqlite_master WHERE name LIKE '_mainstem%'"
    )
    assert left == []


@pytest.mark.parametrize("seed", seeds(1, 2, 100))
def test_topics_equal_tables_after_random_transactions_during_the_snapshot_and_after_it(
    any_db: SqliteFile, at: Desk, seed: int
) -> None:
    any_db.execute(*(TABLE.format(t=each) for each in "ab"))
    at.add_and_snapshot_again(any_db.dialect(*SCHEMAS), seed, "main")

    # The new name of a column is in no event before its row changes.
    any_db.execute(*(f"UPDATE {each} SET v = v + 1" for each in "ab"))
    at.assert_equals(any_db.last(), "main", any_db.rows)


def test_a_change_of_the_key_is_a_deletion_and_a_new_row(db: SqliteFile, at: Desk) -> None:
    db.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, v INT)", "INSERT INTO t VALUES (1, 1)")
    at.add("t")
    db.execute("UPDATE t SET v = 2", "UPDATE t SET id = 2", "DELETE FROM t")
    at.wait_past(db.last())

    assert at.changes("shop.main.t") == [
        ("r", None, {"id": 1, "v": 1}),
        ("u", {"id": 1, "v": 1}, {"id": 1, "v": 2}),
        ("d", {"id": 1, "v": 2}, None),
        ("c", None, {"id": 2, "v": 2}),
        ("d", {"id": 2, "v": 2}, None),
    ]
    assert at.values("shop.main.t")[-1] is None


VALUES: list[tuple[str, object, object]] = [
    ("INTEGER", 2**63 - 1, 2**63 - 1),
    ("INTEGER", -(2**63), -(2**63)),
    ("INTEGER", "text", "text"),
    ("BOOLEAN", True, 1),
    ("REAL", 0.1, 0.1),
    ("REAL", 1 / 3, 1 / 3),
    ("REAL", math.inf, "Infinity"),
    ("REAL", -math.inf, "-Infinity"),
    # SQLite itself stores NULL for it.
    ("REAL", math.nan, None),
    ("TEXT", "ü€😀\0z", "ü€😀\0z"),
    ("TEXT", 5, "5"),
    ("TEXT", b"\xff", "/w=="),
    ("BLOB", b"\0\xff", "AP8="),
    ("BLOB", b"", ""),
    ("DECIMAL(10,2)", "12.50", 12.5),
    ("DECIMAL(30,2)", "12345678901234567890.12", 12345678901234567000.0),
    ("DATE", "2024-02-29", "2024-02-29"),
    ("", 7, 7),
    ("JSON", '{"a": 1}', '{"a": 1}'),
    ("TEXT", None, None),
]


def test_every_kind_of_value_is_published_as_it_is_stored(db: SqliteFile, at: Desk) -> None:
    columns = ", ".join(f"c{place} {kind}" for place, (kind, _, _) in enumerate(VALUES))
    db.execute(f"CREATE TABLE t (id INTEGER PRIMARY KEY, {columns})")
    insert = f"INSERT INTO t VALUES ({', '.join('?' * (len(VALUES) + 1))})"
    with db.connect() as connection:
        connection.execute(insert, (1, *(value for _, value, _ in VALUES)))
    at.add("t")
    with db.connect() as connection:
        connection.execute(insert, (2, *(value for _, value, _ in VALUES)))
    at.wait_past(db.last())

    expected = {f"c{place}": value for place, (_, _, value) in enumerate(VALUES)}

    assert at.changes("shop.main.t") == [
        ("r", None, {"id": 1, **expected}),
        ("c", None, {"id": 2, **expected}),
    ]


def test_text_that_is_not_utf8_is_published_with_replacement_characters(
    db: SqliteFile, at: Desk
) -> None:
    db.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, x TEXT)")
    at.add("t")
    db.execute("INSERT INTO t VALUES (1, CAST(x'41ff' AS TEXT))")
    at.wait_past(db.last())

    assert at.changes("shop.main.t") == [("c", None, {"id": 1, "x": "A\ufffd"})]


def test_tables_of_every_shape(db: SqliteFile, at: Desk) -> None:
    db.execute(
        "CREATE TABLE nokey (a, b)",
        "INSERT INTO nokey VALUES (1, 1), (1, 1)",
        "CREATE TABLE pair (a TEXT, b INT, PRIMARY KEY (b, a)) WITHOUT ROWID",
        "INSERT INTO pair VALUES ('x', 1), ('y', 2)",
        "CREATE TABLE made (id INTEGER PRIMARY KEY, a INT, b INT AS (a + 1), c INT AS (a) STORED)",
        "INSERT INTO made(a) VALUES (1)",
        "CREATE TABLE strict (id INTEGER PRIMARY KEY, a ANY) STRICT",
        'CREATE TABLE "odd ""name""" ("rowid" TEXT PRIMARY KEY, "select" INT)',
        'INSERT INTO "odd ""name""" VALUES (1, 1)',
        "CREATE VIRTUAL TABLE words USING fts5(text)",
        "CREATE VIEW seen AS SELECT * FROM nokey",
    )
    at.add()
    db.execute(
        "DELETE FROM nokey WHERE rowid = 1",
        "UPDATE pair SET b = 3 WHERE b = 1",
        "INSERT INTO made(a) VALUES (5)",
        "INSERT INTO strict VALUES (1, x'00')",
        'UPDATE "odd ""name""" SET "select" = 2',
    )
    at.wait_past(db.last())

    assert at.changes("shop.main.nokey")[2:] == [("d", {"a": 1, "b": 1}, None)]
    assert at.changes("shop.main.pair") == [
        ("r", None, {"a": "x", "b": 1}),
        ("r", None, {"a": "y", "b": 2}),
        ("d", {"a": "x", "b": 1}, None),
        ("c", None, {"a": "x", "b": 3}),
    ]
    assert at.changes("shop.main.made")[1] == ("c", None, {"id": 2, "a": 5, "b": 6, "c": 5})
    assert at.changes("shop.main.strict") == [("c", None, {"id": 1, "a": "AA=="})]
    assert at.changes("shop.main.odd__name_")[-1][2] == {"rowid": "1", "select": 2}
    assert not [each for each in at.broker.topics("shop*") if "words" in each.name]


@pytest.mark.parametrize("recursive", [False, True])
def test_rows_that_a_replace_deletes_are_deleted(db: SqliteFile, at: Desk, recursive: bool) -> None:
    db.execute(
        "CREATE TABLE users (id INTEGER PRIMARY KEY, email TEXT UNIQUE, name TEXT UNIQUE)",
        "CREATE TABLE nokey (a UNIQUE, b)",
    )
    at.add("users", "nokey")
    with db.connect() as connection:
        connection.execute(f"PRAGMA recursive_triggers = {int(recursive)}")
        for each in (
            "INSERT INTO users VALUES (1, 'a', 'A'), (2, 'b', 'B'), (3, 'c', 'C')",
            "REPLACE INTO users VALUES (9, 'a', 'B')",
            "INSERT OR IGNORE INTO users VALUES (8, 'a', 'Z')",
            "UPDATE OR REPLACE users SET email = 'c' WHERE id = 9",
            "INSERT INTO users VALUES (10, 'c', 'X') ON CONFLICT (email) DO UPDATE SET name = 'Y'",
            "INSERT INTO nokey VALUES (1, 1)",
            "REPLACE INTO nokey VALUES (1, 2)",
        ):
            connection.execute(each)
    at.wait_past(db.last())

    rows = at.table("shop.main.users")

    assert rows == db.rows("users")
    assert rows.keys() == {b'{"id":9}'}
    assert at.changes("shop.main.nokey") == [
        ("c", None, {"a": 1, "b": 1}),
        ("d", {"a": 1, "b": 1}, None),
        ("c", None, {"a": 1, "b": 2}),
    ]


def test_columns_are_added_renamed_and_dropped(db: SqliteFile, at: Desk) -> None:
    db.execute(
        "CREATE TABLE t (id INTEGER PRIMARY KEY, a INT, b INT)",
        "INSERT INTO t VALUES (1, 1, 1), (2, 2, 2)",
    )
    at.add("t")
    with db.connect() as connection:
        # In one transaction, so the connector can only see it all at once.
        for each in (
            "BEGIN",
            "ALTER TABLE t ADD COLUMN c INT DEFAULT 7",
            "INSERT INTO t VALUES (3, 3, 3, 8)",
            "ALTER TABLE t RENAME COLUMN a TO z",
            "COMMIT",
        ):
            connection.execute(each)
    at.wait_past(db.last())
    wait_until(lambda: len(at.values("shop")) == 2, "no schema change")
    with pytest.raises(sqlite3.OperationalError, match="_mainstem:shop:t"):
        db.execute("ALTER TABLE t DROP COLUMN b")
    with db.connect() as connection:
        connection.execute("BEGIN")
        for kind in "cud":
            connection.execute(f'DROP TRIGGER "_mainstem:shop:t:{kind}"')
        connection.execute("ALTER TABLE t DROP COLUMN b")
        connection.execute("DELETE FROM t WHERE id = 1")
        connection.execute("COMMIT")
    wait_until(lambda: len(at.values("shop")) == 3, "no schema change")
    db.execute("INSERT INTO t VALUES (4, 4, 4)")
    at.wait_past(db.last())

    changes = at.changes("shop.main.t")
    names = [
        [column["name"] for column in each["tableChanges"][0]["table"]["columns"]]
        for each in at.values("shop")
    ]

    assert changes[2:4] == [
        ("c", None, {"id": 3, "a": 3, "b": 3}),
        ("r", None, {"id": 3, "z": 3, "b": 3, "c": 8}),
    ]
    assert changes[4:] == [
        ("t", None, None),
        ("r", None, {"id": 2, "z": 2, "c": 7}),
        ("r", None, {"id": 3, "z": 3, "c": 8}),
        ("c", None, {"id": 4, "z": 4, "c": 4}),
    ]
    assert names == [["id", "a", "b"], ["id", "z", "b", "c"], ["id", "z", "c"]]


def test_a_table_that_was_made_anew_is_read_again_also_if_the_connector_was_away(
    db: SqliteFile, at: Desk
) -> None:
    db.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, a INT)", "INSERT INTO t VALUES (1, 1)")
    at.add("t")
    at.connectors.pause("shop")
    with db.connect() as connection:
        for each in (
            "BEGIN",
            "CREATE TABLE other (id INTEGER PRIMARY KEY, a TEXT, b INT)",
            "INSERT INTO other SELECT id, a, 5 FROM t",
            "DROP TABLE t",
            "ALTER TABLE other RENAME TO t",
            "INSERT INTO t VALUES (2, 'x', 6)",
            "COMMIT",
        ):
            connection.execute(each)
    at.connectors.resume("shop")
    at.wait_for("following")
    at.wait_past(db.last())

    assert at.table("shop.main.t") == db.rows("t")
    assert at.changes("shop.main.t")[1] == ("t", None, None)


def test_new_tables_that_match_a_pattern_are_captured(db: SqliteFile, at: Desk) -> None:
    db.execute(TABLE.format(t="a"))
    at.add("*", exclude=("secret*",))
    db.execute(TABLE.format(t="b"), TABLE.format(t="secret"), "INSERT INTO b VALUES (1, 1, '', '')")
    at.connectors.snapshot("shop", [])
    wait_until(lambda: "shop.main.b" in {each.name for each in at.broker.topics()}, "no topic")
    db.execute("UPDATE b SET v = 2", "ALTER TABLE b RENAME TO c", "UPDATE c SET v = 3")
    at.connectors.snapshot("shop", [])
    wait_until(lambda: "shop.main.c" in {each.name for each in at.broker.topics()}, "no topic")
    at.wait_past(db.last())

    assert at.table("shop.main.c") == db.rows("c")
    assert "shop.main.secret" not in {each.name for each in at.broker.topics()}


def test_published_changes_are_trimmed(db: SqliteFile, at: Desk) -> None:
    db.execute(TABLE.format(t="t"))
    at.add("t")
    with db.connect() as connection:
        connection.execute("BEGIN")
        for number in range(500):
            connection.execute(f"INSERT INTO t VALUES ({number}, 1, '', '')")
        connection.execute("COMMIT")

    def kept() -> int:
        return int(db.execute("SELECT count(*) FROM _mainstem_changes_shop")[0][0])

    wait_until(lambda: kept() == 1, lambda: f"{kept()} changes are kept")
    at.connectors.pause("shop")
    db.execute("UPDATE t SET v = 2")
    at.connectors.resume("shop")
    at.wait_past(db.last())

    assert at.table("shop.main.t") == db.rows("t")


def _restored(db: SqliteFile) -> None:
    db.execute(
        "DELETE FROM _mainstem_changes_shop WHERE seq > 1",
        "UPDATE sqlite_sequence SET seq = 1 WHERE name = '_mainstem_changes_shop'",
        "UPDATE t SET v = 8",
        "UPDATE t SET v = 9",
    )


def _another(db: SqliteFile) -> None:
    db.execute("UPDATE _mainstem_tables_shop SET definition = 'x' WHERE version = 0")


def _deleted(db: SqliteFile) -> None:
    db.execute("UPDATE t SET v = 8", "UPDATE t SET v = 9")
    db.execute(
        "DELETE FROM _mainstem_changes_shop WHERE seq = (SELECT max(seq) - 1 FROM t, "
        "_mainstem_changes_shop)"
    )


def _dropped(db: SqliteFile) -> None:
    db.execute("DROP TABLE t")


def _gone(db: SqliteFile) -> None:
    db.path.unlink()


@pytest.mark.parametrize(
    ("harm", "said"),
    [
        (_restored, "went back in time.*restart shop --snapshot"),
        (_another, "it is another one.*restart shop --snapshot"),
        (_deleted, "changes 4 to 4 are missing.*restart shop --snapshot"),
        (_dropped, "there is no table main.t; correct --tables"),
        (_gone, "there is no file"),
    ],
)
def test_what_would_lose_changes_stops_the_connector_and_says_what_to_do(
    db: SqliteFile, at: Desk, harm: Any, said: str
) -> None:
    db.execute(TABLE.format(t="t"), "INSERT INTO t VALUES (1, 1, '', '')")
    at.add("t")
    for number in (2, 3, 4):
        db.execute(f"UPDATE t SET v = {number}")
    at.wait_past(db.last())
    at.connectors.pause("shop")

    harm(db)
    at.connectors.resume("shop")

    assert re.search(said, at.wait_for("failed").report.trouble)
    at.connectors.remove("shop", keep=True)
    SqliteFile(db.path)
    _clean(db)


def test_after_lost_changes_the_topic_is_emptied_in_every_partition_and_read_again(
    db: SqliteFile, at: Desk
) -> None:
    rows = ", ".join(f"({number}, 1, '', '')" for number in range(40))
    db.execute(TABLE.format(t="t"), f"INSERT INTO t VALUES {rows}")
    at.add("t", partitions=3)
    db.execute("UPDATE t SET v = 2")
    at.wait_past(db.last())
    at.connectors.pause("shop")
    _another(db)
    db.execute("DELETE FROM t WHERE id < 30")
    at.connectors.resume("shop")
    at.wait_for("failed")

    at.connectors.restart("shop", snapshot=True)
    at.wait_for("following")
    db.execute("UPDATE t SET v = 3 WHERE id = 30")
    at.wait_past(db.last())

    partitions = [read_all(at.broker, "shop.main.t", each) for each in range(3)]
    found: dict[bytes, Any] = {}
    for events in partitions:
        values = [json.loads(each.value or b"") for each in events]
        emptied = [each["op"] for each in values].index("t")
        # Until then the events are those of Debezium, which knows no epoch.
        assert not any("epoch" in each["source"] for each in values[:emptied])
        assert len({each["source"]["epoch"] for each in values[emptied:]}) == 1
        found |= Mirror().apply_all(events).rows
    assert found == db.rows("t")


def test_a_connector_that_is_added_anew_empties_its_topics_first(db: SqliteFile, at: Desk) -> None:
    db.execute(TABLE.format(t="t"), "INSERT INTO t VALUES (1, 1, '', ''), (2, 1, '', '')")
    at.add("t")
    at.connectors.remove("shop")
    db.execute("DELETE FROM t WHERE id = 1")

    at.add("t")
    at.connectors.restart("shop", snapshot=True)
    at.wait_for("following")

    assert at.table("shop.main.t") == db.rows("t")
    epochs = [each["source"].get("epoch", 0) for each in at.values("shop.main.t")]
    assert epochs == sorted(epochs)
    assert len(set(epochs)) == 3


def _clean(db: SqliteFile) -> None:
    for kind, name in db.execute(
        "SELECT type, name FROM sqlite_master WHERE name LIKE '_mainstem%' ORDER BY type DESC"
    ):
        db.execute(f'DROP {kind} IF EXISTS "{name}"')


def test_recording_ends_when_too_much_is_kept(db: SqliteFile, at: Desk) -> None:
    db.execute(TABLE.format(t="t"))
    at.add("t", max_slot_bytes=10_000)
    at.connectors.pause("shop")
    db.execute("INSERT INTO t VALUES (1, 1, '', hex(zeroblob(20000)))")

    assert "more than max_slot_bytes" in at.wait_for("failed").report.trouble
    assert not db.execute("SELECT name FROM sqlite_master WHERE name LIKE '_mainstem%'")


def test_a_value_that_the_schema_does_not_allow_stops_a_connector_with_schemas(
    db: SqliteFile, at: Desk
) -> None:
    db.execute(
        "CREATE TABLE t (id INTEGER PRIMARY KEY, n INT, d DECIMAL)", "INSERT INTO t VALUES (1,2,3)"
    )
    at.add("t", format=Format.JSON_SCHEMA)
    fields = at.values("shop.main.t")[0]["schema"]["fields"]
    db.execute("INSERT INTO t VALUES (2, 'two', 3)")

    error = at.wait_for("failed").report.trouble

    assert [each["type"] for each in fields[1]["fields"]] == ["int64", "int64", "double"]
    assert "column main.t.n: holds TEXT 'two', which is no int64" in error


@pytest.mark.parametrize(
    "url", ["sqlite://", "sqlite:///", "sqlite://host/x", "sqlite:///x?mode=ro"]
)
def test_urls_that_name_no_file_are_refused(at: Desk, db: SqliteFile, url: str) -> None:
    with pytest.raises(InvalidSetting, match="sqlite:///path/to/file"):
        at.add("t", url=url)


def test_files_that_are_no_database_are_refused(at: Desk, db: SqliteFile, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no database " * 100)

    with pytest.raises(SourceRefused, match="file is not a database"):
        at.add("t", url=f"sqlite://{tmp_path / 'text'}")
    with pytest.raises(SourceRefused, match="there is no file"):
        at.add("t", url=f"sqlite://{tmp_path / 'nothing'}")
    with pytest.raises(SourceRefused, match=r"there is no table main\.t"):
        at.add("t")
