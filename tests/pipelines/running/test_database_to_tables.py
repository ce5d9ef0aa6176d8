"""Tables that follow a real PostgreSQL are compared with it, whatever the types of columns."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent

import pytest
from pyspark.sql import SparkSession
from tests.connectors.database import Database, database
from tests.connectors.postgres.desk import PostgresDesk
from tests.in_process_server import server
from tests.pipelines.sample_events import bounded

from mainstem import pipelines as p
from mainstem.cli.root import run as run_command
from mainstem.connectors.secrets import Secrets
from mainstem.pipelines.errors import RunRefused
from mainstem.pipelines.running.source_comparison import compare_with_source


@pytest.fixture(scope="module")
def db() -> Iterator[Database]:
    with database() as found:
        yield found


TYPES = {
    "truth": ("boolean", "true", "boolean"),
    "small": ("smallint", "-7", "smallint"),
    "amount": ("numeric(12,2)", "1234.50", "decimal(12,2)"),
    "real4": ("real", "1.1", "float"),
    "real8": ("double precision", "0.1", "double"),
    "fixed": ("char(4)", "'ab'", "string"),
    "at": ("timestamp", "'2024-02-29 12:00:00.123456'", "timestamp"),
    "zoned": ("timestamptz", "'2024-02-29 12:00:00.1+01'", "timestamp"),
    "day": ("date", "'2024-02-29'", "date"),
    "bytes": ("bytea", r"'\x00ff10'", "binary"),
    "document": ("jsonb", """'{"b":[1,2]}'""", "string"),
    "ident": ("uuid", "'123e4567-e89b-12d3-a456-426614174000'", "string"),
    "tags": ("text[]", "'{a,b}'", "array<string>"),
}
TYPED = f"""
    from mainstem import pipelines as p

    COLUMNS = "id int, {", ".join(f"{name} {kind}" for name, (_, _, kind) in TYPES.items())}"
    CHANGES = p.changes("shop.public.typed", schema=COLUMNS)
    lake = p.apply_changes(CHANGES, key="id", sink=p.delta("t/lake"))
    file = p.apply_changes(CHANGES, key="id", sink=p.sqlite("t/base.db", "typed"))
    index = p.apply_changes(CHANGES, key="id", sink=p.search("t/index", text="ident"))
    past = p.apply_changes(CHANGES, key="id", sink=p.delta("t/past"), scd=2)
"""


def test_tables_and_copies_are_compared_with_the_source_whatever_the_types(
    spark: SparkSession,
    db: Database,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("shop.py").write_text(dedent(TYPED))
    pipeline = p.load(Path("shop.py"))
    columns = ", ".join(f"{name} {kind}" for name, (kind, _, _) in TYPES.items())
    values = ", ".join(value for _, value, _ in TYPES.values())
    db.execute(
        f"CREATE TABLE typed (id int PRIMARY KEY, {columns})",
        *(f"INSERT INTO typed VALUES ({number}, {values})" for number in (1, 2, 3)),
        "INSERT INTO typed (id) VALUES (4)",
    )
    with server(None) as running:
        desk = PostgresDesk(running.node.broker, db, Secrets(tmp_path, {}))
        try:
            desk.add("public.typed")
            db.execute("UPDATE typed SET small = 8 WHERE id = 3")
            desk.catch_up()
            found = bounded(spark, pipeline, str(running.kafka), into="copy")
            desk.connectors.remove("shop")
        finally:
            desk.connectors.close()

    assert {each.bad for each in found.values()} == {0}
    for each in compare_with_source(pipeline, db.url, "copy"):
        assert each.equal, each
    with pytest.raises(RunRefused, match="was never written"):
        compare_with_source(pipeline, db.url)

    # Nobody follows these changes.
    db.execute("INSERT INTO typed (id) VALUES (9)", "DELETE FROM typed WHERE id = 2")
    for name, (_, value, _) in TYPES.items():
        db.execute(f"UPDATE typed SET {name} = NULL WHERE id = 1")
        for each in compare_with_source(pipeline, db.url, "copy"):
            assert (each.rows, each.different, each.missing, each.extra) == (4, 1, 1, 1), name
        db.execute(f"UPDATE typed SET {name} = {value} WHERE id = 1")
    capsys.readouterr()
    command = ("pipeline", "diff", "shop.py", "copy", "--source", db.url, "--format", "json")
    assert run_command(command) == 1
    told = json.loads(capsys.readouterr().out)
    assert [each["table"] for each in told[-4:]] == [
        f"{name}.copy" for name in ("lake", "file", "index", "past")
    ]
    assert {each["missing"] for each in told[-4:]} == {1}

    # A difference that goes away is none.
    def change(_: float) -> None:
        db.execute("DELETE FROM typed WHERE id = 9", *insert_again)

    insert_again = [f"INSERT INTO typed VALUES (2, {values}) ON CONFLICT DO NOTHING"]
    with monkeypatch.context() as patched:
        patched.setattr(time, "sleep", change)
        for each in compare_with_source(pipeline, db.url, "copy", wait_s=60):
            assert each.equal, each
    db.execute("ALTER TABLE typed DROP COLUMN tags")
    with pytest.raises(RunRefused, match="has no column 'tags'"):
        compare_with_source(pipeline, db.url, "copy")
