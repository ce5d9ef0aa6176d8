"""The systems under test: each a process with an address, which Kafka clients connect to.

Another system is another class with the same methods (``nats.py`` has one that speaks no Kafka),
and its turn in ``measuring.py`` or ``peers.py``.
"""

import re
import subprocess
import sys
import time
from base64 import b64decode
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from bench.apache_kafka import ApacheKafka
from bench.kafka.processes import Usage, end
from confluent_kafka import KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

PATIENCE_S = 60
ANY_PORT = "127.0.0.1:0"
_LISTENS = re.compile(r"bootstrap\.servers=(127\.0\.0\.1:\d+)")
ROOT = Path(__file__).parents[2]
COMMAND = Path(sys.executable).with_name("mainstem")


class Listening(Protocol):
    """A process that clients connect to."""

    address: str
    pid: int


class System(Protocol):
    """What is measured."""

    @property
    def name(self) -> str:
        """What the tables call it."""

    @property
    def server(self) -> Listening:
        """Its process, once it is started."""

    def start(self) -> None:
        """Start the process, and wait until it listens."""

    def stop(self) -> None:
        """End it."""

    def create(self, topic: str, partitions: int) -> None:
        """Make a topic to produce to."""

    def delete(self, topic: str) -> None:
        """Take it away again."""


def usage(system: System) -> Usage:
    """Return CPU time and memory of a system's process so far."""
    return Usage.of(system.server.pid)


class Mainstem:
    """``mainstem serve`` with topics of one durability; may share another one's server."""

    def __init__(
        self,
        directory: Path,
        durability: str,
        *,
        served_by: "Mainstem | None" = None,
        command: Path = COMMAND,
    ) -> None:
        self.name = f"mainstem, {durability}"
        self._directory = directory
        self._durability = durability
        self._shares = served_by is not None
        self.server: Server = served_by.server if served_by else _mainstem(directory, command)

    def start(self) -> None:
        """Start the process, and wait until it listens."""
        if not self._shares:
            self.server.start()
        self._admin = AdminClient({"bootstrap.servers": self.server.address, "log_level": 2})

    def stop(self) -> None:
        """End it."""
        if not self._shares:
            self.server.stop()

    def create(self, topic: str, partitions: int) -> None:
        """Make a topic to produce to."""
        settings = {"mainstem.durability": self._durability}
        wanted = NewTopic(topic, num_partitions=partitions, config=settings)
        self._admin.create_topics([wanted])[topic].result(PATIENCE_S)

    def delete(self, topic: str) -> None:
        """Take it away again."""
        self._admin.delete_topics([topic])[topic].result(PATIENCE_S)

    def count(self, topic: str, partitions: int) -> int:
        """Return how many events a topic holds."""
        return _count(self._admin, topic, partitions)

    def segments(self, topic: str, partitions: int) -> list[Path]:
        """Return the directories with the segments of a topic's partitions."""
        asked = self._admin.describe_topics(TopicCollection([topic]))
        topic_id = b64decode(f"{asked[topic].result(PATIENCE_S).topic_id}==", altchars=b"-_").hex()
        partitions_of = self._directory / "partitions"
        return [partitions_of / f"{topic_id}-{number}" for number in range(partitions)]


def _mainstem(directory: Path, command: Path) -> "Server":
    given = ["--kafka", ANY_PORT, "--admin", ANY_PORT]
    output = directory.with_suffix(".out")
    return Server([str(command), "serve", str(directory), *given], output)


class Kafka:
    """Apache Kafka with the options of its own start script; each topic synced, or not.

    With ``flush.messages=1`` it syncs before it acknowledges, as mainstem does by default.
    """

    OPTIONS = (
        "-server",
        "-Xms1g",
        "-Xmx1g",
        "-XX:+UseG1GC",
        "-XX:MaxGCPauseMillis=20",
        "-XX:InitiatingHeapOccupancyPercent=35",
        "-XX:+ExplicitGCInvokesConcurrent",
        "-XX:MaxInlineLevel=15",
        "-Djava.awt.headless=true",
    )

    def __init__(self, server: ApacheKafka, *, synced: bool) -> None:
        self.name = "Apache Kafka, synced" if synced else "Apache Kafka"
        self.server = server
        # What is deleted goes at once, not a minute later in the middle of something else.
        self._settings = {"file.delete.delay.ms": "0"}
        if synced:
            self._settings["flush.messages"] = "1"

    def start(self) -> None:
        """Connect to the server, which runs already."""
        self._admin = AdminClient({"bootstrap.servers": self.server.address, "log_level": 2})

    def stop(self) -> None:
        """Do nothing: the server is shared."""

    def create(self, topic: str, partitions: int) -> None:
        """Make a topic to produce to."""
        wanted = NewTopic(topic, num_partitions=partitions, config=self._settings)
        self._admin.create_topics([wanted])[topic].result(PATIENCE_S)

    def delete(self, topic: str) -> None:
        """Take it away again, and wait until it is gone."""
        self._admin.delete_topics([topic])[topic].result(PATIENCE_S)
        until = time.monotonic() + PATIENCE_S
        while topic in self._admin.list_topics(timeout=PATIENCE_S).topics:
            if time.monotonic() > until:
                raise SystemExit(f"{self.name} does not delete {topic}")
            time.sleep(0.01)

    def count(self, topic: str, partitions: int) -> int:
        """Return how many events a topic holds."""
        return _count(self._admin, topic, partitions)


_EARLY = (
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.UNKNOWN_LEADER_EPOCH,
    KafkaError._NOENT,
)
"""A topic that was just made may have no leader yet, or one that does not know it."""


def _count(admin: AdminClient, topic: str, partitions: int) -> int:
    latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
    asked = {TopicPartition(topic, each): latest for each in range(partitions)}
    until = time.monotonic() + PATIENCE_S
    while True:
        found = admin.list_offsets(asked, request_timeout=PATIENCE_S).values()
        try:
            return sum(int(each.result(PATIENCE_S).offset) for each in found)
        except KafkaException as error:
            if error.args[0].code() not in _EARLY or time.monotonic() > until:
                raise
            time.sleep(0.01)


class Sink:
    """The raw limit of producing, of latency, or of reading a topic that another system wrote."""

    def __init__(self, file: Path, *given: str, name: str = "raw") -> None:
        self.name = name
        self.server = Server(
            [sys.executable, "-m", "bench.kafka.sink", str(file), *given], file.with_suffix(".out")
        )

    def start(self) -> None:
        """Start the process, and wait until it listens."""
        self.server.start()

    def stop(self) -> None:
        """End it."""
        self.server.stop()

    def create(self, topic: str, partitions: int) -> None:
        """Do nothing: it takes any topic."""

    def delete(self, topic: str) -> None:
        """Do nothing: it forgets everything with its connection."""


class Server:
    """A process that says where it listens, as ours do: ``bootstrap.servers=HOST:PORT``."""

    def __init__(
        self, command: Sequence[str], output: Path, listens: re.Pattern[str] = _LISTENS
    ) -> None:
        self._command = command
        self._output = output
        self._listens = listens
        self.address = ""
        self.pid = 0

    def start(self) -> None:
        """Start it, and wait until it says so."""
        with self._output.open("w") as output:
            self._process = subprocess.Popen(
                self._command, cwd=ROOT, stdout=output, stderr=subprocess.STDOUT
            )
        self.pid = self._process.pid
        until = time.monotonic() + PATIENCE_S
        while True:
            said = self._output.read_text()
            found = self._listens.search(said)
            if found and said.endswith("\n"):
                break
            if self._process.poll() is not None or time.monotonic() > until:
                self._process.kill()
                raise SystemExit(f"{' '.join(self._command)} did not start: {said}")
            time.sleep(0.001)
        self.address = found[1]

    def stop(self) -> None:
        """End it."""
        end(self._process, PATIENCE_S)
