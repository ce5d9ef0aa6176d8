"""A mirror equals its table again after a connector did not capture the table for a while."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.connectors.two_tables import NAMES, Captured, captured
from tests.pipelines.sample_events import bounded

from mainstem import pipelines as p


def mirrors(it: Captured) -> p.Pipeline:
    Path("mirrors.py").write_text(
        "from mainstem import pipelines as p\n"
        f'A = p.changes("{it.topic("a")}", schema="id int, v int, note string, big string")\n'
        'lake = p.apply_changes(A, key="id", sink=p.delta("lake"))\n'
        'file = p.apply_changes(A, key="id", sink=p.sqlite("file.db", "a"))\n'
    )
    return p.load(Path("mirrors.py"))


@pytest.mark.parametrize("name", NAMES)
def test_mirrors_equal_a_table_that_was_taken_out_and_put_back(
    name: str, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with captured(name, tmp_path) as it:
        it.add(partitions=2)
        pipeline = mirrors(it)
        for tables in ("ab", "b", "ab"):
            it.capture(tables)
            if tables == "b":
                it.change_both()
            it.catch_up()
            bounded(spark, pipeline, it.at.kafka)

        right = sorted(map(repr, it.rows("a").values()))
        for table in pipeline.tables:
            found = table.sink.read()
            assert found is not None
            assert sorted(map(repr, found.to_pylist())) == right
