"""The load: ``load.c`` compiled and run, and a Celery worker."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.amqp.systems import System, address
from bench.kafka.processes import end
from bench.kafka.systems import PATIENCE_S, ROOT

SOURCE = Path(__file__).with_name("load.c")
TURN_PATIENCE_S = 900
_WORKER = ("worker", "--pool", "solo", "--without-gossip", "--without-mingle", "--loglevel", "INFO")


class Client:
    """The compiled client; every job is a process of its own."""

    def __init__(self, directory: Path) -> None:
        self._program = directory / "load"
        built = [os.environ.get("CC", "cc"), "-O2", "-o", str(self._program), str(SOURCE)]
        subprocess.run([*built, "-lrabbitmq"], check=True)

    def run(self, system: System, *job: object) -> dict[str, float]:
        """Do a job; return what the client printed."""
        words = [str(self._program), str(system.port), *map(str, job)]
        return _printed(words)


def send_tasks(system: System, count: int, file: Path) -> float:
    """Publish Celery tasks, and wait for the last one; return the seconds it took."""
    words = [sys.executable, "-m", "bench.amqp.tasks", str(count), str(file)]
    return _printed(words, os.environ | {"BENCH_BROKER": address(system)})["seconds"]


@contextmanager
def worker(system: System, output: Path) -> Iterator[None]:
    """Start a Celery worker that runs tasks in its own process."""
    words = [sys.executable, "-m", "celery", "-A", "bench.amqp.tasks", *_WORKER]
    with output.open("w") as written:
        process = subprocess.Popen(
            words,
            cwd=ROOT,
            env=os.environ | {"BENCH_BROKER": address(system)},
            stdout=written,
            stderr=subprocess.STDOUT,
        )
    try:
        yield
    finally:
        end(process, PATIENCE_S)


def _printed(words: list[str], environment: dict[str, str] | None = None) -> dict[str, float]:
    output = subprocess.check_output(words, cwd=ROOT, env=environment, timeout=TURN_PATIENCE_S)
    found: dict[str, float] = json.loads(output)
    return found
