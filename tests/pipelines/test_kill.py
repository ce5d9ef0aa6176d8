"""kill -9 of driver and JVM at each step of a batch, and of the server, changes no table."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.long import LONG
from tests.serving import serving

import mainstem
from mainstem import pipelines as p

pytestmark = [
    pytest.mark.skipif(not LONG, reason="takes half an hour: ./test --long"),
    pytest.mark.timeout(1800),
]

DYING = Path(__file__).with_name("dying.py")
COUNT = 400
WHOLE = [(n, n * n) for n in range(COUNT)]


def publish(address: str, numbers: range) -> None:
    with mainstem.connect(address) as stem:
        stem.topics.create("numbers", partitions=1, exist_ok=True)
        stem.publish_many("numbers", (mainstem.Event(b'{"n": %d}' % n) for n in numbers))


def command(address: str, *arguments: str) -> list[str]:
    program = [sys.executable, "-m", "mainstem.cli", "--at", address, "pipeline", "run"]
    return [*program, str(DYING), "--master", "local[2]", *arguments]


def run_until_killed(address: str, directory: Path, **environment: str) -> int:
    """Run up to the end of the topic, 100 events a batch; return how the process ended."""
    ran = subprocess.run(
        command(address, "--batch", "--max-rows", "100"),
        cwd=directory,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode in (0, -signal.SIGKILL), ran.stderr
    return ran.returncode


def rows(directory: Path) -> list[tuple[int, int]]:
    found = p.sqlite(str(directory / "base.db"), "numbers").read()
    assert found is not None
    return sorted((row["n"], row["square"]) for row in found.to_pylist())


def test_a_run_that_is_killed_at_every_step_gives_the_whole_table(tmp_path: Path) -> None:
    with serving(None) as address:
        publish(address, range(COUNT))
        for step in ("before:0", "middle:0", "after:0", "middle:1", "after:1", "before:2"):
            assert run_until_killed(address, tmp_path, DIE=step) == -signal.SIGKILL, step

        assert run_until_killed(address, tmp_path) == 0

        assert rows(tmp_path) == WHOLE


def test_without_the_guard_the_same_kill_doubles_rows(tmp_path: Path) -> None:
    with serving(None) as address:
        publish(address, range(COUNT))
        assert run_until_killed(address, tmp_path, DIE="after:1", GUARD="off") == -signal.SIGKILL

        assert run_until_killed(address, tmp_path, GUARD="off") == 0

        assert len(rows(tmp_path)) == COUNT + 100


def test_a_stream_goes_on_when_its_server_was_killed(tmp_path: Path) -> None:
    port = free_port()
    with server(tmp_path / "data", port) as (address, process):
        publish(address, range(200))
        with subprocess.Popen(
            command(address, "--stream"), cwd=tmp_path, stdout=subprocess.PIPE, text=True
        ) as stream:
            try:
                assert stream.stdout is not None
                assert json.loads(stream.stdout.readline())["events_total"] == 200
                process.kill()
                process.wait()
                with server(tmp_path / "data", port) as (again, _):
                    publish(again, range(200, COUNT))
                    for line in stream.stdout:
                        if json.loads(line)["events_total"] == COUNT:
                            break
                    stream.terminate()
                    assert stream.wait(120) == 0
            finally:
                stream.kill()

    assert rows(tmp_path) == WHOLE


@contextmanager
def server(directory: Path, port: int) -> Iterator[tuple[str, "subprocess.Popen[str]"]]:
    serve = [sys.executable, "-m", "mainstem.cli", "serve", str(directory)]
    with subprocess.Popen(
        [*serve, "--kafka", f"127.0.0.1:{port}", "--admin", "127.0.0.1:0"],
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stderr is not None
            while "stop" not in process.stderr.readline():
                assert process.poll() is None
            yield f"127.0.0.1:{port}", process
        finally:
            process.kill()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        port: int = found.getsockname()[1]
    return port
