"""A pipeline of every kind of table, run here or where Spark runs, and Spark's own processes.

The Python of a Connect server has all packages but ours: what it uses of it is what was sent to it.
"""

import functools
import json
import os
import re
import signal
import subprocess
import sys
import sysconfig
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import chdir, contextmanager
from pathlib import Path
from textwrap import dedent

import pyspark
import pytest
from pyspark.sql import SparkSession
from tests.in_process_server import serving
from tests.pipelines.sample_events import ignore

import mainstem
from mainstem import pipelines as p
from mainstem.pipelines.running.pipeline_run import run
from mainstem.pipelines.running.table_run import Request
from mainstem.pipelines.spark.spark_home import home_without_zip

PATIENCE_S = 120
MARKS = [
    pytest.mark.peers,
    pytest.mark.timeout(1500),
    pytest.mark.usefixtures("own_scratch"),
]
"""Of tests that run the pipeline where Spark runs."""
EIGHT_MS = 1_794_729_600_000
SPARK_HOME = Path(pyspark.__file__).parent
SPARK_CLASS = SPARK_HOME / "bin" / "spark-class"
SHOP = """
    import naming
    from pyspark.sql import functions as F
    from mainstem import pipelines as p

    ORDERS = "id string not null, user string, amount decimal(12,2), at timestamp"

    @p.table(source="orders", schema=ORDERS, watermark=("at", "10 minutes"),
             sink=p.delta("tables/revenue", key="minute"))
    def revenue(orders):
        minute = F.window("at", "10 minutes").alias("minute")
        return orders.groupBy(minute).agg(F.sum("amount").alias("revenue"))

    @p.table(source="orders", schema=ORDERS, sink=p.parquet("tables/large"))
    def large(orders):
        loud = F.udf(naming.loud, "string")
        return orders.where("amount > 20").select("id", loud("user").alias("user"), "amount")

    @p.table(source="large", sink=p.sqlite("base.db", "users", key="user"), output="update")
    def users(large):
        return large.groupBy("user").agg(F.sum("amount").alias("amount"))

    notes = p.sql("select id, amount from orders where amount <= 20", source="orders",
                  schema=ORDERS, sink=p.topic("notes", key="id"))
"""
NAMING = """
    def loud(name):
        return name.upper() + "!"
"""
SINKS = {
    "revenue": p.delta("tables/revenue"),
    "large": p.parquet("tables/large"),
    "users": p.sqlite("base.db", "users"),
}
Tables = Mapping[str, list[str]]


def write_files(directory: Path) -> Path:
    """Write the pipeline file, and the module that it imports from beside it."""
    file = directory / "shop.py"
    file.write_text(dedent(SHOP))
    (directory / "naming.py").write_text(dedent(NAMING))
    return file


@contextmanager
def shop_served() -> Iterator[str]:
    """Serve the same events to every run, a bad one among them."""
    with serving(None) as address:
        with mainstem.connect(address) as stem:
            stem.topics.create("orders", partitions=2)
            stem.topics.create("notes", partitions=1)
            for partition in (0, 1):
                stem.publish_many("orders", map(order, range(60)), partition=partition)
            stem.publish("orders", b"nonsense")
        yield address


def order(number: int) -> mainstem.Event:
    """Make one of the orders of an hour."""
    document = {
        "id": f"o{number}",
        "user": f"u{number % 4}",
        "amount": f"{number * 37 % 50}.25",
        "at": f"2026-11-15T08:{number:02}:00Z",
    }
    return mainstem.Event(json.dumps(document).encode(), timestamp_ms=EIGHT_MS + number * 60_000)


@functools.cache
def tables_of_local(spark: SparkSession) -> Tables:
    """Run the pipeline in the session of all tests, once for those that compare with it."""
    with tempfile.TemporaryDirectory() as scratch, chdir(scratch), shop_served() as address:
        pipeline = p.load(write_files(Path(scratch)))
        run(spark, pipeline, Request(address, Path("state")), ignore, threading.Event())
        return tables(Path(scratch), address)


def tables(directory: Path, address: str) -> Tables:
    """Return what a run left: the rows of all tables, the events of topics."""
    found = {}
    with chdir(directory):
        for name, sink in SINKS.items():
            rows = sink.read()
            assert rows is not None, name
            found[name] = sorted(map(repr, rows.to_pylist()))
    with mainstem.connect(address) as stem:
        for topic in ("notes", "shop.dead"):
            events = stem.subscribe(topic, follow=False)
            found[topic] = sorted(repr((each.key, each.value)) for each in events)
    return found


def run_elsewhere(directory: Path, address: str, *where: str, **environment: str) -> list[object]:
    """Run the pipeline by the command up to where the topic ends; return what it told."""
    command = [sys.executable, "-m", "mainstem", "--at", address, "pipeline", "run", "shop.py"]
    ran = subprocess.run(
        [*command, "--batch", *where],
        cwd=directory,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return [json.loads(line) for line in ran.stdout.splitlines()]


def python_without_us(directory: Path) -> Path:
    """Make a Python that has every package of this one but ours, which ``.pth`` files lead to."""
    program = directory / "python-elsewhere"
    packages = sysconfig.get_path("purelib")
    program.write_text(
        f'#!/bin/sh\nPYTHONPATH="$PYTHONPATH:{packages}" exec "{sys.executable}" -S "$@"\n',
        encoding="utf-8",
    )
    program.chmod(0o755)
    tried = [str(program), "-c", "import pyarrow, mainstem"]
    ours = subprocess.run(tried, env=clean_environment(), capture_output=True, check=False)
    assert b"No module named 'mainstem'" in ours.stderr, ours.stderr
    return program


def clean_environment() -> dict[str, str]:
    """Return the environment without what would lead a Python to our package."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


@contextmanager
def started(
    directory: Path, main: str, *arguments: str, until: str, **environment: str
) -> Iterator[str]:
    """Start a process of Spark's; gives the first group of what it says when it is ready."""
    environment = {
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_LOG_DIR": str(directory),
        "SPARK_HOME": str(home_without_zip()),
        **environment,
    }
    with subprocess.Popen(
        [str(SPARK_CLASS), main, *arguments],
        cwd=directory,
        env=clean_environment() | environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            yield _told(process, until)
        finally:
            # With the executors, which are processes of their own.
            os.killpg(process.pid, signal.SIGKILL)


def _told(process: "subprocess.Popen[str]", until: str) -> str:
    """Read what a process says, to the end, so that it never waits for a reader."""
    found: list[str] = []
    said: list[str] = []
    ready = threading.Event()

    def read() -> None:
        assert process.stderr is not None
        for line in process.stderr:
            said.append(line)
            match = re.search(until, line)
            if match and not found:
                found.append(match[match.lastindex or 0])
                ready.set()
        ready.set()

    threading.Thread(target=read, daemon=True).start()
    assert ready.wait(PATIENCE_S), "".join(said)
    assert found, "".join(said)
    return found[0]
