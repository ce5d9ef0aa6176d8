"""Spark's JVM and its Python workers on this machine talk over Unix domain sockets."""

import os
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from mainstem.pipelines.spark import worker_sockets

DIRECTORY = "spark.python.unix.domain.socket.dir"


@pytest.fixture
def _anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget the directory of this process, and where temporary ones are."""
    directory = worker_sockets._directory.__wrapped__
    monkeypatch.setattr(worker_sockets, "_directory", directory)
    monkeypatch.setattr(tempfile, "tempdir", None)


def test_a_python_worker_has_no_tcp_socket_to_the_jvm(spark: SparkSession) -> None:
    if not worker_sockets.socket_settings():
        pytest.skip("the paths of this machine's temporary files are too long")

    def families(_: object) -> Iterator[str]:
        # Runs in the worker.
        for file in Path("/proc/self/fd").iterdir():
            try:
                with socket.socket(fileno=os.dup(int(file.name))) as found:
                    yield found.family.name
            except OSError:
                continue

    found = spark.sparkContext.range(1, numSlices=1).mapPartitions(families).collect()

    assert set(found) == {"AF_UNIX"}


def test_only_this_user_can_reach_the_sockets() -> None:
    directory = worker_sockets.socket_settings().get(DIRECTORY)

    assert directory is None or stat.S_IMODE(Path(directory).stat().st_mode) == 0o700


@pytest.mark.usefixtures("_anew")
def test_where_paths_would_be_too_long_spark_keeps_to_tcp(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = tmp_path / ("x" * 60)
    long.mkdir()
    monkeypatch.setenv("TMPDIR", str(long))

    assert worker_sockets.socket_settings() == {}
    assert list(long.iterdir()) == []


DROPPED = """
import socket, sys
from mainstem.pipelines.spark.worker_daemon import worker
ours, theirs = socket.socketpair()
theirs.close()
sys.exit(worker(ours, True))
"""


def test_a_worker_that_spark_dropped_ends_without_a_stack_trace() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", DROPPED],
        env=os.environ | {"PYTHON_DAEMON_KILL_WORKER_ON_FLUSH_FAILURE": "1"},
        capture_output=True,
        timeout=60,
        check=False,
    )

    assert (ended.returncode, ended.stderr) == (1, b"")
