"""What is sent to Spark Connect needs nothing of ours to be installed where it arrives."""

import sys
import threading
from pathlib import Path
from typing import cast

import pytest
from pyspark import cloudpickle
from pyspark.sql import SparkSession
from tests.pipelines.sample_events import ignore
from tests.pipelines.spark.shop_pipeline import clean_environment, python_without_us
from tests.processes import output_of

from mainstem import pipelines as p
from mainstem.pipelines.errors import PipelineFailed, RunRefused
from mainstem.pipelines.format.source import MainstemSource
from mainstem.pipelines.running.batch_writer import STOPPED, BatchWriter
from mainstem.pipelines.running.pipeline_run import run
from mainstem.pipelines.running.table_run import Request
from mainstem.pipelines.spark.connect import remote_source, remote_writer
from mainstem.pipelines.spark.executor_package import pack

PLANNING = """
import sys
from pyspark import cloudpickle
source = cloudpickle.load(open("sent", "rb"))
made = source({"subscribe": "orders"})
assert "mainstem" not in sys.modules
assert made.name() == "mainstem" and made.schema().startswith("key binary"), made.schema()
reader = made.streamReader(None)
cloudpickle.dump(reader, open("on", "wb"))
"""
TASK = """
import sys
from pyspark import cloudpickle
assert "mainstem" not in sys.modules
reader = cloudpickle.load(open("on", "rb"))
print(type(reader).__module__, reader.getDefaultReadLimit().max_rows)
"""


def ran(python: Path, directory: Path, script: str) -> str:
    return output_of([str(python), "-c", script], cwd=directory, env=clean_environment()).strip()


def test_a_source_is_planned_and_read_where_our_package_is_only_a_file(tmp_path: Path) -> None:
    python = python_without_us(tmp_path)
    pack(tmp_path / "package.zip")
    sent = remote_source(MainstemSource, tmp_path / "package.zip")
    (tmp_path / "sent").write_bytes(cloudpickle.dumps(sent))  # type: ignore[no-untyped-call]

    ran(python, tmp_path, PLANNING)

    assert ran(python, tmp_path, TASK) == "mainstem.pipelines.format.stream_reader 500000"


def test_batches_are_turned_away_where_they_are_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    pack(tmp_path / "package.zip")
    sink, stop_file = p.sqlite("base.db", "orders"), tmp_path / "stopping"
    writing = BatchWriter(sink, "shop.orders.1", stop_file, tmp_path / "truncated.json")
    write = remote_writer(writing, tmp_path / "package.zip")
    (tmp_path / "stopping").touch()

    with pytest.raises(PipelineFailed, match=STOPPED):
        cloudpickle.loads(cloudpickle.dumps(write))(None, 0)  # type: ignore[no-untyped-call]


def test_a_console_that_is_not_here_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARK_CONNECT_MODE_ENABLED", "1")
    file = tmp_path / "shop.py"
    file.write_text(
        "from mainstem import pipelines as p\n"
        "orders = p.sql('select 1', source='orders', format='raw', sink=p.console())\n"
    )
    request = Request("127.0.0.1:1", tmp_path / "state")

    with pytest.raises(RunRefused, match="table 'orders' has a console sink"):
        run(cast("SparkSession", None), p.load(file), request, ignore, threading.Event())
