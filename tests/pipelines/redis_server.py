"""A real Redis for a while: Debian's redis-server."""

import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from redis import Redis
from redis.exceptions import ConnectionError as NotReady

STARTS_IN_S = 30


@contextmanager
def redis_server(directory: Path) -> Iterator[str]:
    """Start one in a directory on a free port; yields its URL. Skips if there is none."""
    program = shutil.which("redis-server")
    if program is None:
        pytest.skip("there is no redis-server (Debian: redis-server; .ci/run installs it)")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    command = [program, "--bind", "127.0.0.1", "--port", str(port), "--dir", str(directory)]
    process = subprocess.Popen([*command, "--save", ""], stdout=subprocess.DEVNULL)
    try:
        _wait_until_ready(port)
        yield f"redis://127.0.0.1:{port}/0"
    finally:
        process.terminate()
        process.wait()


def _wait_until_ready(port: int) -> None:
    until = time.monotonic() + STARTS_IN_S
    with Redis("127.0.0.1", port, protocol=2) as base:
        while True:
            try:
                base.ping()
            except NotReady:
                assert time.monotonic() < until, "redis-server does not answer"
            else:
                return
