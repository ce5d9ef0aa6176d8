"""confluent-kafka (librdkafka), unmodified, when the server is killed and comes back."""

import re
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from tests.faults.killable_server import QUICK, Mortal
from tests.foreign_clients.kafka.polling import PATIENCE_S, until
from tests.heads.admin.web import get

from mainstem.node.data_directory import holder_of

pytestmark = pytest.mark.client("confluent-kafka", "2.16")
PARTITIONS = 4
HEARTBEATS = re.compile(r'^mainstem_kafka_requests_total{api="Heartbeat"} (.*)$', re.MULTILINE)


class Reader:
    """A consumer of the classic protocol: what it has read, and what was assigned and revoked."""

    def __init__(self, address: str, **settings: str) -> None:
        self.consumer = Consumer(
            {
                **QUICK,
                "bootstrap.servers": address,
                "group.id": "g",
                "group.protocol": "classic",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": "false",
                "heartbeat.interval.ms": 200,
            }
            | {name.replace("_", "."): value for name, value in settings.items()}
        )
        self.values: list[int] = []
        self.changes: list[str] = []
        self.consumer.subscribe(
            ["t"],
            on_assign=lambda *_: self.changes.append("assigned"),
            on_revoke=lambda *_: self.changes.append("revoked"),
            on_lost=lambda *_: self.changes.append("lost"),
        )

    def __str__(self) -> str:
        return f"{self.changes}, {len(self.values)} read"

    def poll(self) -> None:
        message = self.consumer.poll(0.05)
        if message is not None and message.error() is None:
            self.values.append(int(message.value() or b"-1"))


def publish(address: str, values: range) -> None:
    producer = Producer({**QUICK, "bootstrap.servers": address})
    for value in values:
        producer.produce("t", str(value), partition=value % PARTITIONS)
    assert producer.flush(PATIENCE_S) == 0


def heartbeats(served: Path) -> float:
    """Return how many the server of a directory has had."""
    holder = holder_of(served)
    assert holder is not None
    assert holder.admin is not None
    found = HEARTBEATS.search(get(holder.admin, "/metrics").text)
    return float(found[1]) if found else 0.0


@pytest.mark.shows("groups", "members survive a restart of the server")
@pytest.mark.parametrize("static", [False, True])
def test_members_of_a_classic_group_stay_over_a_kill_of_the_server(
    tmp_path: Path, static: bool
) -> None:
    with Mortal(tmp_path) as server, ExitStack() as stack:
        admin = AdminClient({**QUICK, "bootstrap.servers": server.address})
        admin.create_topics([NewTopic("t", PARTITIONS, 1)])["t"].result(PATIENCE_S)
        readers = []
        for number in range(2):
            settings = {"group_instance_id": f"reader-{number}"} if static else {}
            readers.append(Reader(server.address, **settings))
            stack.callback(readers[-1].consumer.close)
        until(lambda: all(len(each.consumer.assignment()) == 2 for each in readers), *readers)
        publish(server.address, range(50))
        until(lambda: sum(len(each.values) for each in readers) == 50, *readers)
        ids = [each.consumer.memberid() for each in readers]
        for each in readers:
            each.changes.clear()

        server.restart()
        publish(server.address, range(50, 100))
        until(lambda: sum(len(each.values) for each in readers) >= 100, *readers)
        # By a heartbeat a member is told that it is to join again.
        until(lambda: heartbeats(tmp_path) >= 6, *readers)
        for each in readers:
            each.consumer.commit(asynchronous=False)

        assert [each.changes for each in readers] == [[], []]
        assert [each.consumer.memberid() for each in readers] == ids
        assert sorted(value for each in readers for value in each.values) == [*range(100)]
        places = [TopicPartition("t", number) for number in range(PARTITIONS)]
        assert [at.offset for at in readers[0].consumer.committed(places)] == [25] * PARTITIONS
