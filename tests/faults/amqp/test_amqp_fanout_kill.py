"""A large message for many queues over kill -9 and a full disk: in all queues or in none."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pika  # type: ignore[import-untyped]
import pytest
from pika.exceptions import AMQPError  # type: ignore[import-untyped]
from tests.faults.killable_server import DIES_IN_WRITE, Mortal
from tests.foreign_clients.amqp.pika_client import channel_of, waiting
from tests.heads.amqp091.raw_peers import PERSISTENT, Peer
from tests.heads.amqp091.raw_peers import publish as frames
from tests.long_runs import seeds
from tests.tmpfs import mounted_tmpfs

from mainstem.heads.amqp091 import methods

QUEUES = [f"q{number}" for number in range(12)]
BODY = b"x" * 1_000_000
"""The copies are more than 8 MiB in total, up to which messages were atomic once."""
WRITES = 1 + 1 + 2 * (len(QUEUES) - 1)
"""The entry of the write-ahead log, the first copy, and the two parts of each other copy."""


def publish(server: Mortal, body: bytes = BODY) -> bool:
    """Publish one message to all queues; return whether it was confirmed."""
    said = pika.BasicProperties(delivery_mode=2)
    with suppress(AMQPError), channel_of(server.amqp) as channel:
        for name in QUEUES:
            channel.queue_declare(name, durable=True)
            channel.queue_bind(name, "amq.fanout")
        channel.confirm_delivery()
        channel.basic_publish("amq.fanout", "", body, said)
        return True
    return False


def counts(server: Mortal) -> list[int]:
    with channel_of(server.amqp) as channel:
        return [waiting(channel, name) for name in QUEUES]


@pytest.mark.parametrize("nth", seeds(0, 3, WRITES))
def test_a_server_that_dies_in_the_midst_of_it_has_it_in_all_queues_or_in_none(
    tmp_path: Path, nth: int
) -> None:
    crash = DIES_IN_WRITE.format(
        module="mainstem.broker.publishing.atomic",
        owner="AtomicPublish",
        method="publish_all",
        call=1,
        nth=nth * 7 % WRITES,
    )
    with Mortal(tmp_path / "data", amqp=True, crash=crash) as server:
        confirmed = publish(server)
        server.wait()
        server.start()

        found = counts(server)
        assert found in ([0] * len(QUEUES), [1] * len(QUEUES))
        assert not confirmed or found[0]
        assert publish(server, b"after")
        assert counts(server) == [each + 1 for each in found]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    with mounted_tmpfs(tmp_path / "disk", "14m", "a disk that is really full") as path:
        yield path


def test_a_disk_that_is_too_small_for_all_copies_gets_none(small_disk: Path) -> None:
    with Mortal(small_disk / "data", amqp=True) as server:
        assert publish(server, b"fits")
        with Peer("{}:{}".format(*server.amqp)).connect(1) as blocked:
            blocked.send(frames("", BODY + BODY, PERSISTENT, exchange="amq.fanout"))
            _, told = blocked.next()
            assert isinstance(told, methods.ConnectionBlocked)

            assert counts(server) == [1] * len(QUEUES)
            # What it had reserved is given back: others find space.
            with channel_of(server.amqp) as other:
                other.queue_declare("other", durable=True)
                other.confirm_delivery()
                other.basic_publish("", "other", b"y" * 500_000)
        server.restart()
        assert counts(server) == [1] * len(QUEUES)
