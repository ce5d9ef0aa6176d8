"""Apache Kafka: one node, its own controller, in a process of ours.

    mvn -f .ci/peers.xml dependency:copy-dependencies -DoutputDirectory=.cache/kafka

brings its jars from Maven, as .ci/run does.
"""

import shutil
import socket
import subprocess
from collections.abc import Sequence
from pathlib import Path

from bench.kafka.processes import end
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

ROOT = Path(__file__).parents[1]
JARS = ROOT / ".cache" / "kafka"
PATIENCE_S = 120
# How long it takes to start must not depend on when the client tries again.
_EAGER: dict[str, str | int | float | bool] = {
    "log_level": 0,
    "reconnect.backoff.ms": 20,
    "reconnect.backoff.max.ms": 20,
}
_CLUSTER = "bWFpbnN0ZW0ta2Fma2EtMQ"
_SETTINGS = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://127.0.0.1:{broker},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{broker}
log.dirs={data}
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
num.partitions=4
"""


def missing() -> str:
    """Return what keeps it from being started, and what to do; empty if nothing does."""
    if not list(JARS.glob("kafka_*.jar")):
        return "Apache Kafka is not in .cache/kafka: run .ci/run where Maven can be reached"
    if shutil.which("java") is None:
        return "java is missing: apt-get install default-jdk-headless"
    return ""


class ApacheKafka:
    """A server; its data and settings are in ``directory``, ``more`` are settings of its file."""

    def __init__(
        self,
        directory: Path,
        options: Sequence[str] = ("-Xms512m", "-Xmx512m"),
        *,
        more: Sequence[str] = (),
    ) -> None:
        self._directory = directory
        self._more = more
        self._java = ["java", *options, "-cp", f"{JARS}/*"]
        self._settings = directory / "server.properties"
        self.address = ""
        self.pid = 0

    @staticmethod
    def version() -> str:
        """Return the version of the jars."""
        (jar,) = JARS.glob("kafka_*.jar")
        return jar.stem.rpartition("-")[2]

    def format(self) -> None:
        """Make its directory, which ``start`` does if it was not done before."""
        broker, controller = _free_port(), _free_port()
        self._directory.mkdir(parents=True, exist_ok=True)
        data = self._directory / "data"
        settings = _SETTINGS.format(broker=broker, controller=controller, data=data)
        self._settings.write_text(settings + "".join(f"{line}\n" for line in self._more))
        formatted = [*self._java, "kafka.tools.StorageTool", "format", "-t", _CLUSTER, "-c"]
        subprocess.run([*formatted, str(self._settings)], check=True, capture_output=True)
        self.address = f"127.0.0.1:{broker}"

    def start(self) -> None:
        """Start the process, and wait until it answers."""
        if not self.address:
            self.format()
        output = self._directory / "output"
        with output.open("w") as said:
            self._process = subprocess.Popen(
                [*self._java, "kafka.Kafka", str(self._settings)], stdout=said, stderr=said
            )
        self.pid = self._process.pid
        try:
            AdminClient(_EAGER | {"bootstrap.servers": self.address}).list_topics(
                timeout=PATIENCE_S
            )
        except KafkaException as error:
            self.stop()
            raise SystemExit(
                f"Apache Kafka did not start ({error}): {output.read_text()}"
            ) from None

    def stop(self) -> None:
        """End it."""
        end(self._process, PATIENCE_S)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port
