"""kafka-clients 4.3.0 (Java), unmodified; .ci/run brings the jars."""

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
JARS = sorted((ROOT / ".cache" / "java").glob("*.jar"))
SOURCE = Path(__file__).parent / "java" / "Drive.java"
PATIENCE_S = 120

pytestmark = [
    pytest.mark.peers,
    pytest.mark.skipif(not JARS, reason="kafka-clients is not in .cache/java: run .ci/run"),
    pytest.mark.skipif(
        shutil.which("javac") is None, reason="javac is missing: apt-get install default-jdk"
    ),
]

Java = Callable[..., list[str]]
PLAIN = "enable.idempotence=false"


@pytest.fixture(scope="module")
def java(kafka: str, tmp_path_factory: pytest.TempPathFactory) -> Java:
    """Compile the program; returns a function that runs it to its end."""
    classes = tmp_path_factory.mktemp("classes")
    path = ":".join(map(str, JARS))
    subprocess.run(["javac", "-cp", path, "-d", str(classes), str(SOURCE)], check=True)

    command = ["java", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-cp", f"{classes}:{path}"]

    def run(verb: str, settings: str, *arguments: str) -> list[str]:
        done = subprocess.run(
            [*command, "Drive", kafka, verb, settings, *arguments],
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    return run


def events(count: int) -> list[str]:
    return sorted(f"event k{number} v{number} 1" for number in range(count))


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_what_is_produced_is_consumed_in_every_compression(java: Java, codec: str) -> None:
    topic = f"java.{codec}"
    settings = f"{PLAIN},compression.type={codec},linger.ms=20,group.id={topic}"

    produced, *found, committed = java("roundtrip", settings, topic, "500")

    assert produced == "produced 500"
    assert sorted(found) == events(500)
    assert committed == "committed 500"


@pytest.mark.parametrize("acks", ["0", "1"])
def test_every_way_of_acknowledging(java: Java, acks: str) -> None:
    topic = f"java.acks.{acks}"

    _, *found, _ = java("roundtrip", f"{PLAIN},acks={acks},group.id={topic}", topic, "100")

    assert sorted(found) == events(100)


def test_a_producer_by_its_defaults_is_idempotent(java: Java) -> None:
    _, *found, _ = java("roundtrip", "group.id=java.default", "java.default", "500")

    assert sorted(found) == events(500)


ASSIGNORS = ["RangeAssignor", "RoundRobinAssignor", "StickyAssignor", "CooperativeStickyAssignor"]


@pytest.mark.parametrize("assignor", ASSIGNORS)
def test_members_share_the_partitions_and_take_over(java: Java, assignor: str) -> None:
    topic = f"java.{assignor}"
    strategy = f"org.apache.kafka.clients.consumer.{assignor}"
    settings = f"group.id={topic},partition.assignment.strategy={strategy}"

    found = java("rebalance", f"{settings},heartbeat.interval.ms=200", topic)

    assert found == ["produced 10", "shared", "alone with 4"]


def test_topics_and_groups_are_administered(java: Java) -> None:
    java("roundtrip", f"{PLAIN},group.id=java.gzip", "java.gzip", "1")

    assert java("admin", "", "java.admin") == [
        "nodes 1",
        "partitions 3",
        "retention 70000",
        "listed true",
        "produced 10",
        "EarliestSpec true",
        "LatestSpec true",
        "MaxTimestampSpec true",
        "stored true",
        "start 1",
        "groups true",
        "listed false",
    ]
