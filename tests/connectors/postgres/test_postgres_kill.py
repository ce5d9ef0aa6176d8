"""Server and database are killed (kill -9) at any moment: each change is there exactly once."""

import random
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition
from tests.connectors.database import Database
from tests.connectors.mirror import Mirror
from tests.connectors.postgres.equality import assert_equal, rows_of
from tests.connectors.workload import Writer, create
from tests.faults.killable_server import PATIENCE_S, Mortal
from tests.long_runs import seeds
from tests.processes import wait_until

from mainstem.cli.admin_port import ServerAdmin
from mainstem.connectors.settings import ConnectorSettings
from mainstem.core.errors import MainstemError
from mainstem.core.event import Event
from mainstem.node.connector_operations import ADD, SHOW, AddConnector, Added, ConnectorInfo


def events_of(address: str, topic: str) -> list[Event]:
    """Return every event of a topic with one partition, as a Kafka client reads it."""
    settings = {"bootstrap.servers": address, "group.id": "reader", "enable.auto.commit": False}
    consumer = Consumer(settings)
    try:
        at = TopicPartition(topic, 0, 0)
        consumer.assign([at])
        _, tail = consumer.get_watermark_offsets(at, PATIENCE_S)
        found: list[Event] = []
        while not found or found[-1].offset < tail - 1:
            message = consumer.poll(PATIENCE_S)
            assert message is not None
            assert message.error() is None
            offset = message.offset()
            assert offset is not None
            found.append(Event(message.value(), message.key(), (), 0, topic, 0, offset))
        return found
    finally:
        consumer.close()


def has_reached(server: Mortal, target: int) -> bool:
    try:
        state = ServerAdmin(server.address).read(SHOW, {"name": "shop"}, ConnectorInfo)
    except MainstemError:
        return False
    return bool(state.position) and state.position[0] >= target and not state.pending


@pytest.mark.parametrize("seed", seeds(1, 2, 100))
def test_after_kills_topics_equal_tables(db: Database, tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    names = (f"a{seed}", f"b{seed}")
    create(db, *names)
    # So many that the snapshot is not over when the server dies for the first time.
    for name in names:
        db.execute(f"INSERT INTO {name} SELECT i, 1, 'n', 'x' FROM generate_series(100, 30000) i")
    tables = tuple(f"public.{name}" for name in names)
    settings = ConnectorSettings(name="shop", url=db.url, tables=tables, heartbeat_ms=100)

    with Mortal(tmp_path / "data") as server:
        with Writer(db, names, seed) as writer:
            wait_until(lambda: writer.commits > 10, "no commits")
            ServerAdmin(server.address).change(ADD, AddConnector(settings), Added)
            for life in range(6):
                # The first ones die in the snapshot.
                more = rng.randrange(1 + 60 * life)
                done = writer.commits
                wait_until(lambda: writer.commits >= done + more, "no commits")  # noqa: B023
                if rng.random() < 0.4:
                    db.kill()
                    db.start()
                if rng.random() < 0.8:
                    server.kill()
                    server.start()
        assert not writer.errors
        ((text,),) = db.execute("SELECT pg_logical_emit_message(true, 'test', '')::text")
        high, low = text.split("/")
        target = int(high, 16) << 32 | int(low, 16)
        wait_until(lambda: has_reached(server, target), lambda: f"not caught up: {server.said}")

        for name in names:
            mirror = Mirror().apply_all(events_of(server.address, f"shop.public.{name}"))
            assert_equal(mirror, rows_of(db, name))

    db.execute("SELECT pg_terminate_backend(active_pid, 5000) FROM pg_replication_slots")
    db.execute("SELECT pg_drop_replication_slot('mainstem_shop')", "DROP PUBLICATION mainstem_shop")
