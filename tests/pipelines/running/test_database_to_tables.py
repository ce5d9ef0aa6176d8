"""From a real PostgreSQL by its connector and a pipeline into tables that equal the database's."""

from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent

import pytest
from pyspark.sql import SparkSession
from tests.connectors.database import Database, database
from tests.connectors.postgres.test_postgres import FAST, Desk
from tests.connectors.workload import Writer, create
from tests.in_process_server import server
from tests.pipelines.sample_events import bounded
from tests.processes import wait_until

from mainstem import pipelines as p
from mainstem.connectors.secrets import Secrets

SHOP = """
    from mainstem import pipelines as p

    CHANGES = p.changes("shop.public.a", schema="id int, v int, note string, big string")
    now = p.apply_changes(CHANGES, key="id", sink=p.delta("t/now"))
    found = p.apply_changes(CHANGES, key="id", sink=p.search("t/index", text="note"))
"""


@pytest.fixture(scope="module")
def db() -> Iterator[Database]:
    with database() as found:
        yield found


def rows_of(pipeline: p.Pipeline, table: int) -> list[tuple[object, ...]]:
    rows = pipeline.tables[table].sink.read()
    assert rows is not None
    return sorted(tuple(row.values()) for row in rows.to_pylist())


def test_tables_equal_the_database_after_random_transactions_and_its_kill(
    spark: SparkSession, db: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("shop.py").write_text(dedent(SHOP))
    pipeline = p.load(Path("shop.py"))
    create(db, "a")
    with server(None) as running:
        desk = Desk(running.node.broker, db, Secrets(tmp_path, {}))
        try:
            for kills in (0, 1):
                with Writer(db, ("a",), kills + 7, ddl=False) as writer:
                    wait_until(lambda: writer.commits > 50, "no commits")
                    if kills:
                        db.kill()
                        db.start()
                    else:
                        desk.add("public.a", partitions=2, **FAST)
                    wait_until(lambda: writer.commits > 300, "no commits")
                assert not writer.errors
                desk.catch_up()
                found = bounded(spark, pipeline, str(running.kafka))

                wanted = sorted(db.execute("SELECT id, v, note, big FROM a"))
                assert {name: each.bad for name, each in found.items()} == {"now": 0, "found": 0}
                assert rows_of(pipeline, 0) == wanted
                assert rows_of(pipeline, 1) == wanted
            desk.connectors.remove("shop")
        finally:
            desk.connectors.close()
