"""A mirror, an index, a cache and a history equal a PostgreSQL after kills of servers and sinks.

``test_derived_after_kills.py`` does more, with all databases, and kills Spark, too.
"""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.pipelines.running.derived import derived
from tests.pipelines.running.followed import postgres
from tests.pipelines.sample_events import bounded

from mainstem import pipelines as p
from mainstem.pipelines.running.source_comparison import compare_with_source


@pytest.mark.timeout(900)
def test_all_that_is_derived_equals_postgresql_after_kills_of_servers_and_sinks(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with postgres() as followed, derived(followed, tmp_path) as everything:
        with followed.writing(1, emptying=False) as wait:
            wait(10)
            everything.add_connector()
            # In the middle of the snapshot.
            everything.kill_server()
            wait(50)
            everything.wait_for_snapshot()
            wait(50)
            followed.kill()
            wait(50)
        everything.catch_up()
        pipeline = p.load(everything.file)
        with everything.sinks_killed_in_a_batch():
            bounded(spark, pipeline, everything.server.address, only="cached mirror")

        with followed.writing(2) as wait:
            wait(50)
            everything.kill_server()
            wait(50)
        everything.catch_up()
        bounded(spark, pipeline, everything.server.address)
        everything.check_equal()
        compared = compare_with_source(pipeline, followed.url)
        assert [each.equal for each in compared] == [True] * 5
