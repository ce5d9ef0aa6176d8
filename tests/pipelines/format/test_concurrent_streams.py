"""Streams of one data source that start at the same time do not break it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource
from tests.in_process_server import serving
from tests.long_runs import LONG
from tests.pipelines.format.fresh_session import size_and_keys, variables
from tests.pipelines.format.test_in_spark import run
from tests.pipelines.format.topics import Topic

from mainstem.pipelines.format import register
from mainstem.pipelines.format.registration import register_source
from mainstem.pipelines.format.source import MainstemSource
from mainstem.pipelines.planning.table_source import TableSource
from mainstem.pipelines.spark.connect import RemoteSources

SESSIONS = int(os.environ.get("MAINSTEM_FRESH_SESSIONS", "200" if LONG else "12"))
"""Each is a JVM of its own. That threads may share the map is shown in one session by the tests
below; fresh sessions are to find another race, a dozen in .ci/run and 200 with ``--long``."""
SAFE = "java.util.concurrent.ConcurrentHashMap"
BY_STREAMS = {"SPARK_LOCAL_DIRS", "SPARK_BUFFER_SIZE", "SPARK_PYTHON_RUNTIME"}
"""What every stream puts into the map when it starts."""


@pytest.mark.parametrize("source", [MainstemSource, TableSource])
def test_a_registered_source_has_a_map_that_threads_may_write_at_once(
    spark: SparkSession, source: type[DataSource]
) -> None:
    register_source(spark, source)

    assert variables(spark, source.name()).getClass().getName() == SAFE


def test_a_stream_puts_its_variables_into_the_map_of_the_registered_source(
    spark: SparkSession, tmp_path: Path
) -> None:
    register(spark)
    assert not size_and_keys(spark)[1] & BY_STREAMS

    with serving(None) as address:
        topic = Topic(address, "some", 1)
        topic.fill(["v"], 0)
        rows = spark.readStream.format("mainstem").option("address", address).load(topic.name)
        run(rows.writeStream.format("noop"), tmp_path / "checkpoint")

    assert size_and_keys(spark)[1] >= BY_STREAMS


def test_each_stream_over_spark_connect_has_a_source_of_its_own(
    spark: SparkSession, tmp_path: Path
) -> None:
    sent = RemoteSources(spark, tmp_path / "package.zip")

    first, second = sent.format_of(MainstemSource), sent.format_of(MainstemSource)

    variables(spark, first).put("only", "here")
    assert not variables(spark, second).containsKey("only")


@pytest.mark.peers
@pytest.mark.minutes
@pytest.mark.timeout(SESSIONS * 300)
@pytest.mark.usefixtures("own_scratch")
def test_the_first_streams_of_fresh_sessions_start_at_once(tmp_path: Path) -> None:
    with serving(None) as address:
        topic = Topic(address, "some", 1)
        topic.fill(["v"], 0)
        for number in range(SESSIONS):
            directory = tmp_path / f"session{number}"
            directory.mkdir()
            ran = subprocess.run(
                [
                    *(sys.executable, "-m", "tests.pipelines.format.fresh_session"),
                    *(address, topic.name, str(directory)),
                ],
                capture_output=True,
                text=True,
                check=False,
            )
            shutil.rmtree(directory)
            sys.stdout.write(f"session {number + 1} of {SESSIONS}: {ran.stdout}")
            sys.stdout.flush()

            assert ran.returncode == 0, ran.stdout + ran.stderr
