"""kill -9 while an idempotent producer is at work: nothing is lost, and nothing is doubled."""

from pathlib import Path

import pytest
from confluent_kafka import KafkaError, Message, Producer
from tests.broker.brokers import read_all, values
from tests.faults.killable_server import (
    PATIENCE_S,
    QUICK,
    Mortal,
    Repeated,
    Tally,
    create,
    die_often,
    read,
)
from tests.long_runs import LONG

from mainstem.broker.broker import Broker

PARTITIONS = 3
MAX_AHEAD = 200
KILLS = 4

FORGETS_PRODUCERS = """
from mainstem.broker.producers import producers
producers.Producers._load = lambda self, at, place: producers.Sequences(place)
"""


class Line:
    """A producer that numbers its events, and never has too many unacknowledged."""

    def __init__(self, address: str, **config: str | int) -> None:
        self._producer = Producer(
            {
                "bootstrap.servers": address,
                "enable.idempotence": True,
                "acks": "all",
                "linger.ms": 0,
                "batch.num.messages": 20,
                "message.timeout.ms": 1000 * PATIENCE_S,
                **QUICK,
                **config,
            }
        )
        self.acknowledged: list[list[int]] = [[] for _ in range(PARTITIONS)]
        self.errors: list[str] = []
        self.produced = 0
        self.done = Tally()
        self._work = Repeated(self._produce)

    def finish(self) -> None:
        """Stop, once everything is acknowledged or refused."""
        self._work.finish()
        assert self._producer.flush(PATIENCE_S) == 0

    def look(self, broker: Broker) -> None:
        """See whether a server that has died keeps all that it acknowledged."""
        for partition, known in enumerate(self.acknowledged):
            numbers = [int(value or b"") for value in values(read_all(broker, "t", partition))]
            lost = set(known) - set(numbers)
            if lost or len(set(numbers)) != len(numbers):
                doubled = len(numbers) - len(set(numbers))
                self.errors.append(f"{partition}: {len(lost)} lost, {doubled} doubled")

    def _produce(self) -> None:
        if self.produced - self.done.count > MAX_AHEAD:
            self._producer.poll(0.01)
            return
        number, self.produced = self.produced, self.produced + 1
        place = number % PARTITIONS
        self._producer.produce("t", b"%d" % number, partition=place, on_delivery=self._report)
        self._producer.poll(0)

    def _report(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            self.acknowledged[message.partition() or 0].append(int(message.value() or b""))
        else:
            self.errors.append(str(error))
        self.done.add()


def verdict(server: Mortal, line: Line) -> list[str]:
    """Return what is wrong with what the server holds."""
    wrong = line.errors[:3]
    for partition in range(PARTITIONS):
        found = [int(value) for value in read(server.address, "t", partition)]
        if found != list(range(partition, line.produced, PARTITIONS)):
            wrong.append(f"{partition}: {len(found)} events, not as they were produced")
    return wrong


def produce_through_kills(path: Path, durability: str, seed: int, flaw: str = "") -> list[str]:
    with Mortal(path, flaw=flaw) as server:
        create(server.address, "t", PARTITIONS, mainstem_durability=durability)
        line = Line(server.address)
        try:
            die_often(server, line.done, line.look, seed=seed, kills=KILLS, most=900)
        finally:
            line.finish()
        return verdict(server, line)


@pytest.mark.parametrize("durability", ["fsync", "disk"])
@pytest.mark.timeout(0 if LONG else 120)
def test_an_idempotent_producer_loses_and_doubles_nothing(tmp_path: Path, durability: str) -> None:
    assert produce_through_kills(tmp_path, durability, seed=1) == []


def test_it_would_be_noticed_if_producers_were_forgotten(tmp_path: Path) -> None:
    # Only a batch that was kept and not acknowledged when the server died is sent again.
    assert any(
        produce_through_kills(tmp_path / str(seed), "fsync", seed, FORGETS_PRODUCERS)
        for seed in range(20)
    )
