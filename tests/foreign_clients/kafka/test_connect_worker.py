"""A Kafka Connect worker 4.3 (distributed), unmodified, with its file source and file sink."""

from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType
from tests.faults.killable_server import Mortal
from tests.foreign_clients.kafka_connect import NEEDED, PATIENCE_S, TOPICS, Worker, until, worker

pytestmark = [*NEEDED, pytest.mark.timeout(600)]

FILE = "org.apache.kafka.connect.file.FileStream"


def lines(first: int, last: int) -> str:
    return "".join(f"line {number}\n" for number in range(first, last))


def copied(file: Path) -> str:
    return file.read_text() if file.exists() else ""


def position_of_source(found: Worker) -> int:
    """How many bytes of its file the source has written down as read."""
    match found.get("/connectors/source/offsets"):
        case {"offsets": [{"offset": {"position": int(position)}}]}:
            return position
    return 0


def cursor_of_sink(found: Worker) -> int:
    """How many events the sink has written down as copied."""
    match found.get("/connectors/sink/offsets"):
        case {"offsets": [{"offset": {"kafka_offset": int(offset)}}]}:
            return offset
    return 0


def states(found: Worker, connector: str) -> list[str]:
    """The states of a connector and its tasks."""
    match found.get(f"/connectors/{connector}/status"):
        case {"connector": {"state": str(state)}, "tasks": [{"state": str(task)}]}:
            return [state, task]
    return []


def policies(admin: AdminClient) -> dict[str, str]:
    """The cleanup policies of the topics in which the worker keeps what it must not forget."""
    wanted = [ConfigResource(ResourceType.TOPIC, name) for name in TOPICS.values()]
    described = admin.describe_configs(wanted).items()
    return {
        resource.name: future.result(PATIENCE_S)["cleanup.policy"].value
        for resource, future in described
    }


def test_a_worker_copies_a_file_through_a_topic_and_goes_on_after_a_restart(
    kafka: str, tmp_path: Path
) -> None:
    source, sink = tmp_path / "in.txt", tmp_path / "out.txt"
    admin = AdminClient({"bootstrap.servers": kafka})
    admin.create_topics([NewTopic("lines", 1)])["lines"].result(PATIENCE_S)
    source.write_text(lines(0, 100))
    reads = {"connector.class": f"{FILE}SourceConnector", "file": str(source), "topic": "lines"}
    writes = {"connector.class": f"{FILE}SinkConnector", "file": str(sink), "topics": "lines"}

    with worker(kafka, tmp_path) as first:
        until(lambda: first.put("/connectors/source/config", reads) is not None)
        until(lambda: first.put("/connectors/sink/config", writes) is not None)
        until(lambda: copied(sink) == lines(0, 100))
        until(lambda: position_of_source(first) == len(lines(0, 100)))
        until(lambda: cursor_of_sink(first) == 100)

    assert policies(admin) == dict.fromkeys(TOPICS.values(), "compact")

    with source.open("a") as more:
        more.write(lines(100, 200))
    with worker(kafka, tmp_path) as second:
        until(lambda: cursor_of_sink(second) == 200)
        until(lambda: states(second, "source") == ["RUNNING", "RUNNING"])
        until(lambda: states(second, "sink") == ["RUNNING", "RUNNING"])

    assert copied(sink) == lines(0, 200)


def published(address: str) -> int:
    """How many lines are in the topic."""
    consumer = Consumer({"bootstrap.servers": address, "group.id": "looks"})
    try:
        return int(consumer.get_watermark_offsets(TopicPartition("lines", 0), PATIENCE_S)[1])
    finally:
        consumer.close()


def test_a_worker_goes_on_when_the_server_was_killed_and_came_back(tmp_path: Path) -> None:
    source = tmp_path / "in.txt"
    source.write_text(lines(0, 100))
    reads = {"connector.class": f"{FILE}SourceConnector", "file": str(source), "topic": "lines"}

    with Mortal(tmp_path / "served") as server, worker(server.address, tmp_path) as found:
        admin = AdminClient({"bootstrap.servers": server.address})
        admin.create_topics([NewTopic("lines", 1)])["lines"].result(PATIENCE_S)
        until(lambda: found.put("/connectors/source/config", reads) is not None)
        until(lambda: published(server.address) == 100)
        until(lambda: states(found, "source") == ["RUNNING", "RUNNING"])

        server.restart()
        with source.open("a") as more:
            more.write(lines(100, 200))

        # A worker that nobody knows any more leaves its connectors alone for 300 s.
        until(lambda: published(server.address) == 200)
        assert states(found, "source") == ["RUNNING", "RUNNING"]
