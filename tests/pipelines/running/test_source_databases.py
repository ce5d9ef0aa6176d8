"""Tables are compared with the MariaDB or the SQLite that they follow, for every kind of column."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from pyspark.sql import SparkSession
from tests.connectors.mariadb.databases import PASSWORD, mariadb
from tests.connectors.sqlite.databases import SqliteFile
from tests.in_process_server import server
from tests.pipelines.sample_events import bounded
from tests.processes import wait_until

from mainstem import pipelines as p
from mainstem.connectors import complete
from mainstem.connectors.running.runtime import Connectors
from mainstem.connectors.secrets import Secrets
from mainstem.connectors.settings import ConnectorSettings
from mainstem.node.node import time_of_day_ms
from mainstem.pipelines.errors import RunRefused
from mainstem.pipelines.running.source_comparison import compare_with_source
from mainstem.pipelines.running.source_rows import database_rows

Types = dict[str, tuple[str, str, str]]
"""By column: its type in the database, a value, and the type in Spark."""
MARIADB: Types = {
    "flag": ("boolean", "1", "int"),
    "small": ("smallint", "-7", "int"),
    "large": ("bigint", "9223372036854775807", "bigint"),
    "money": ("decimal(12,2)", "-12.50", "decimal(12,2)"),
    "single": ("float", "0.1", "float"),
    "dbl": ("double", "0.1", "double"),
    "txt": ("varchar(20)", "'a é 日'", "string"),
    "kind": ("enum('a','b')", "'b'", "string"),
    "day": ("date", "'2024-02-29'", "date"),
    "at6": ("datetime(6)", "'2024-02-29 12:00:00.123456'", "timestamp"),
    "ts": ("timestamp(6) NULL", "'2024-02-29 12:00:00.123456'", "timestamp"),
    "clock": ("time(6)", "'-12:30:00.5'", "bigint"),
    "bits": ("bit(12)", "b'101000000001'", "binary"),
    "bit1": ("bit(1)", "b'1'", "boolean"),
    "bytes": ("varbinary(9)", "x'00ff10'", "binary"),
    "doc": ("json", """'{"b": 1, "a": [1, null]}'""", "string"),
    "ident": ("uuid", "'123e4567-e89b-12d3-a456-426614174000'", "string"),
}
SQLITE: Types = {
    "flag": ("BOOLEAN", "1", "int"),
    "whole": ("INTEGER", "9223372036854775807", "bigint"),
    "money": ("DECIMAL(12,2)", "-12.5", "double"),
    "dbl": ("REAL", "0.1", "double"),
    "txt": ("TEXT", "'a é 日'", "string"),
    "day": ("DATE", "'2024-02-29'", "string"),
    "at": ("DATETIME", "'2024-02-29 12:00:00.123456'", "timestamp"),
    "bytes": ("BLOB", "x'00ff10'", "binary"),
    "doc": ("JSON", """'{"b": 1, "a": [1, null]}'""", "string"),
    "plain": ("", "'x'", "string"),
}
SECRET = "MAINSTEM_SECRET_A"


class Place(NamedTuple):
    """A database, and the types of its columns."""

    db: Any
    url: str
    schema: str
    types: Types


@pytest.fixture(params=["mariadb", "sqlite"])
def place(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Place]:
    if request.param == "sqlite":
        db = SqliteFile(tmp_path / "shop.db")
        yield Place(db, db.url, "main", SQLITE)
        return
    monkeypatch.setenv("MYSQL_PWD", PASSWORD)
    with mariadb() as found:
        yield Place(found, found.url, "shop", MARIADB)


def shop(place: Place) -> p.Pipeline:
    columns = ", ".join(f"{name} {kind}" for name, (_, _, kind) in place.types.items())
    topic = f"shop.{place.schema}.typed"
    Path("shop.py").write_text(
        "from mainstem import pipelines as p\n"
        f'TYPED = p.changes("{topic}", schema="id int, {columns}")\n'
        'lake = p.apply_changes(TYPED, key="id", sink=p.delta("t/lake"))\n'
        'file = p.apply_changes(TYPED, key="id", sink=p.sqlite("t/file.db", "typed"))\n'
    )
    return p.load(Path("shop.py"))


def capture_and_run(spark: SparkSession, place: Place, pipeline: p.Pipeline) -> int:
    """Capture the table, follow one insert, and run the pipeline; return how many are bad."""
    values = ", ".join(value for _, value, _ in place.types.values())
    settings = ConnectorSettings(
        name="shop",
        url=place.url,
        tables=(f"{place.schema}.typed",),
        password_env=SECRET,
        heartbeat_ms=100,
    )
    with server(None) as running:
        secrets = Secrets(Path(), {SECRET: PASSWORD})
        connectors = Connectors(
            running.node.broker, secrets, "test", lambda: time_of_day_ms() * 1_000_000
        )
        try:
            connectors.add(complete(settings))
            wait_until(
                lambda: connectors.show("shop").report.phase == "following",
                lambda: str(connectors.show("shop")),
            )
            read = connectors.show("shop").report.published
            place.db.execute(f"INSERT INTO typed VALUES (4, {values})")
            wait_until(
                lambda: connectors.show("shop").report.published > read,
                lambda: str(connectors.show("shop")),
            )
            found = bounded(spark, pipeline, str(running.kafka))
            connectors.remove("shop")
        finally:
            connectors.close()
    return sum(each.bad for each in found.values())


def test_a_table_of_every_type_is_compared_with_its_database(
    spark: SparkSession, place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    pipeline = shop(place)
    columns = ", ".join(f"{name} {kind}" for name, (kind, _, _) in place.types.items())
    values = ", ".join(value for _, value, _ in place.types.values())
    db = place.db
    db.execute(
        f"CREATE TABLE typed (id int PRIMARY KEY, {columns})",
        *(f"INSERT INTO typed VALUES ({number}, {values})" for number in (1, 2)),
        "INSERT INTO typed (id) VALUES (3)",
    )
    assert capture_and_run(spark, place, pipeline) == 0

    for each in compare_with_source(pipeline, place.url):
        assert each.equal, each

    # Nobody follows these changes.
    db.execute("INSERT INTO typed (id) VALUES (9)", "DELETE FROM typed WHERE id = 2")
    for name, (_, value, _) in place.types.items():
        db.execute(f"UPDATE typed SET {name} = NULL WHERE id = 1")
        for each in compare_with_source(pipeline, place.url):
            assert (each.rows, each.different, each.missing, each.extra) == (4, 1, 1, 1), name
        db.execute(f"UPDATE typed SET {name} = {value} WHERE id = 1")
    db.execute("ALTER TABLE typed DROP COLUMN doc")
    with pytest.raises(RunRefused, match="has no column 'doc'"):
        compare_with_source(pipeline, place.url)
    db.execute("DROP TABLE typed")
    with pytest.raises(RunRefused, match="does not exist"):
        compare_with_source(pipeline, place.url)


@pytest.mark.parametrize(
    "url", ["mariadb://127.0.0.1:1/shop", "sqlite:///nowhere/shop.db", "postgres://127.0.0.1:1/x"]
)
def test_a_database_that_cannot_be_read_is_refused_by_name(url: str) -> None:
    with pytest.raises(RunRefused, match="cannot be read"):
        database_rows("shop.main.orders", ["id"], url)
