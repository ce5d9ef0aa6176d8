"""A Kafka Connect worker (4.3.0, distributed), started and asked; .ci/run brings the jars."""

import json
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

import pytest
from tests.faults.killable_server import free_port

ROOT = Path(__file__).parents[2]
JARS = sorted((ROOT / ".cache" / "connect").glob("*.jar"))
PATIENCE_S = 120

NEEDED = [
    pytest.mark.peers,
    pytest.mark.skipif(not JARS, reason="Kafka Connect is not in .cache/connect: run .ci/run"),
    pytest.mark.skipif(
        shutil.which("java") is None, reason="java is missing: apt-get install default-jdk"
    ),
]

TOPICS = {"config": "connect.configs", "offset": "connect.offsets", "status": "connect.status"}
"""Where a worker keeps what it must not forget, by what it is."""


def until(condition: Callable[[], bool]) -> None:
    """Ask until it is so, and leave the processor to others in between."""
    end, pause = time.monotonic() + PATIENCE_S, threading.Event()
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        pause.wait(0.1)


class Worker:
    """A running worker, asked through its REST interface."""

    def __init__(self, port: int) -> None:
        self._address = f"http://127.0.0.1:{port}"

    def get(self, path: str) -> object:
        """Return what is there; None while the worker cannot tell, or is not yet there."""
        return self._ask(Request(self._address + path))

    def put(self, path: str, settings: Mapping[str, str]) -> object:
        """Put something there; None while the worker cannot take it."""
        body = json.dumps(settings).encode()
        head = {"Content-Type": "application/json"}
        return self._ask(Request(self._address + path, body, head, method="PUT"))

    def _ask(self, request: Request) -> object:
        try:
            with urlopen(request, timeout=PATIENCE_S) as answer:
                return json.load(answer)
        except HTTPError as error:
            # 404: of that nothing is known yet; 409: the members of the group are being arranged.
            if error.code in {404, 409, 503}:
                return None
            raise AssertionError(error.read()) from error
        except (URLError, ConnectionError):
            return None


@contextmanager
def worker(address: str, directory: Path) -> Iterator[Worker]:
    """Run a worker until the block ends; it is told to stop, and stops by itself."""
    port = free_port()
    settings = {
        "bootstrap.servers": address,
        "group.id": "connect",
        "key.converter": "org.apache.kafka.connect.storage.StringConverter",
        "value.converter": "org.apache.kafka.connect.storage.StringConverter",
        "listeners": f"http://127.0.0.1:{port}",
        "offset.flush.interval.ms": "500",
        "plugin.discovery": "service_load",
        "task.shutdown.graceful.timeout.ms": "60000",
    }
    for kind, topic in TOPICS.items():
        settings[f"{kind}.storage.topic"] = topic
        settings[f"{kind}.storage.replication.factor"] = "1"
    file = directory / "worker.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    java = ["java", "-Xmx256m", "-cp", ":".join(map(str, JARS))]
    main = "org.apache.kafka.connect.cli.ConnectDistributed"
    with (directory / "worker.log").open("ab") as log:
        process = subprocess.Popen([*java, main, str(file)], stdout=log, stderr=log)
    try:
        yield Worker(port)
        process.terminate()
        process.wait(PATIENCE_S)
    finally:
        process.kill()
        process.wait()
