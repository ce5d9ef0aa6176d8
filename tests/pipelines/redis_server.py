"""A real Redis for a while: Debian's redis-server."""

import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from redis import Redis
from redis.exceptions import ConnectionError as NotReady
from tests.faults.killable_server import free_port

STARTS_IN_S = 30


class RedisServer:
    """The server: a directory and a port that stay, and one life after the other."""

    def __init__(self, program: str, directory: Path) -> None:
        self._port = free_port()
        self.url = f"redis://127.0.0.1:{self._port}/0"
        place = ["--bind", "127.0.0.1", "--port", str(self._port), "--dir", str(directory)]
        self._command = [program, *place, "--save", "", "--appendonly", "yes"]
        self.start()

    def start(self) -> None:
        """Begin another life; returns when it answers."""
        self._process = subprocess.Popen(self._command, stdout=subprocess.DEVNULL)
        until = time.monotonic() + STARTS_IN_S
        with Redis("127.0.0.1", self._port, protocol=2) as base:
            while True:
                try:
                    base.ping()
                except NotReady:
                    assert time.monotonic() < until, "redis-server does not answer"
                else:
                    return

    def kill(self) -> None:
        """End this life by kill -9."""
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        """End in good order."""
        self._process.terminate()
        self._process.wait()


@contextmanager
def killable_redis(directory: Path) -> Iterator[RedisServer]:
    """Start one that keeps what it was told also when killed. Skips if there is none."""
    program = shutil.which("redis-server")
    if program is None:
        pytest.skip("there is no redis-server (Debian: redis-server; .ci/run installs it)")
    found = RedisServer(program, directory)
    try:
        yield found
    finally:
        found.stop()


@contextmanager
def redis_server(directory: Path) -> Iterator[str]:
    """Start one in a directory on a free port; yields its URL. Skips if there is none."""
    with killable_redis(directory) as found:
        yield found.url
