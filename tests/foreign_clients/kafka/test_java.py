"""kafka-clients 4.3.0 (Java), unmodified."""

import pytest
from tests.foreign_clients.java_client import NEEDED, Java, compiled

pytestmark = [*NEEDED, pytest.mark.client("Java client", "4.3")]
PLAIN = "enable.idempotence=false"


@pytest.fixture(scope="module")
def java(kafka: str, tmp_path_factory: pytest.TempPathFactory) -> Java:
    """Compile the program; returns a function that runs it to its end."""
    return compiled("Drive", tmp_path_factory.mktemp("classes"), kafka)


def events(count: int) -> list[str]:
    return sorted(f"event k{number} v{number} 1" for number in range(count))


@pytest.mark.shows("produce")
@pytest.mark.shows("consume")
@pytest.mark.shows("compression", "gzip", "snappy", "lz4", "zstd")
@pytest.mark.shows("groups", "committed offsets")
@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_what_is_produced_is_consumed_in_every_compression(java: Java, codec: str) -> None:
    topic = f"java.{codec}"
    settings = f"{PLAIN},compression.type={codec},linger.ms=20,group.id={topic}"

    produced, *found, committed = java("roundtrip", settings, topic, "500")

    assert produced == "produced 500"
    assert sorted(found) == events(500)
    assert committed == "committed 500"


@pytest.mark.shows("produce", "acks 0, 1 and all")
@pytest.mark.parametrize("acks", ["0", "1"])
def test_every_way_of_acknowledging(java: Java, acks: str) -> None:
    topic = f"java.acks.{acks}"

    _, *found, _ = java("roundtrip", f"{PLAIN},acks={acks},group.id={topic}", topic, "100")

    assert sorted(found) == events(100)


@pytest.mark.shows("produce", "idempotent")
def test_a_producer_by_its_defaults_is_idempotent(java: Java) -> None:
    _, *found, _ = java("roundtrip", "group.id=java.default", "java.default", "500")

    assert sorted(found) == events(500)


ASSIGNORS = ["RangeAssignor", "RoundRobinAssignor", "StickyAssignor", "CooperativeStickyAssignor"]


@pytest.mark.shows("groups", "rebalance: range, roundrobin, sticky, cooperative-sticky")
@pytest.mark.parametrize("assignor", ASSIGNORS)
def test_members_share_the_partitions_and_take_over(java: Java, assignor: str) -> None:
    topic = f"java.{assignor}"
    strategy = f"org.apache.kafka.clients.consumer.{assignor}"
    settings = f"group.id={topic},partition.assignment.strategy={strategy}"

    found = java("rebalance", f"{settings},heartbeat.interval.ms=200", topic)

    assert found == ["produced 10", "shared", "alone with 4"]


@pytest.mark.shows(
    "administration",
    "topics",
    "partitions",
    "topic configs",
    "groups",
    "description of the cluster",
)
@pytest.mark.shows(
    "administration", "delete records", "offsets by time", "log sizes", "group offsets"
)
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
        "resources true",
        "groups true",
        "cursors true 0",
        "listed false",
    ]
