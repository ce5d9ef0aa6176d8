"""kill -9 in the middle of transactions: each is seen wholly and once, or not at all."""

import contextlib
import random
import threading
from pathlib import Path

import pytest
from confluent_kafka import KafkaException, Message, Producer, TopicPartition
from tests.broker.transactions.transactional_producers import committed
from tests.faults.killable_server import (
    PATIENCE_S,
    QUICK,
    Mortal,
    Tally,
    create,
    die_often,
    fill,
    read,
    reader,
)
from tests.long_runs import LONG

from mainstem.broker.broker import Broker

INPUTS = 2
OUTPUTS = 3
EVENTS = 8_000 if LONG else 150
KILLS = 4
STEP_S = 5
"""After this the client is given up, which now and then waits for nothing after a restart."""

SHOWS_WHAT_WAS_ABORTED = """
from mainstem.broker.transactions.records import TransactionFold
TransactionFold.aborted = lambda self, *_: []
"""


class Works:
    """Turns inputs into outputs, one transaction after the other, through whatever happens.

    Each input becomes an event in every output partition. Some transactions are given up on
    purpose, and what they would have done is done by a later one.
    """

    def __init__(self, address: str, seed: int) -> None:
        self._address = address
        self._rng = random.Random(seed)
        self._attempt = 0
        self._at = [0] * INPUTS
        self.done = Tally()
        self.wrong: list[str] = []
        self._source = reader(address, "works")
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def finish(self) -> None:
        """Work until every input is done."""
        self._thread.join(PATIENCE_S * (60 if LONG else 1))
        self._stop.set()
        self._thread.join()
        self._source.close()

    def look(self, broker: Broker) -> None:
        """See whether what readers of a server that has died are shown is whole."""
        found = [committed(broker, partition) for partition in range(OUTPUTS)]
        if not all(each == found[0] for each in found):
            self.wrong.append(f"seen in part: {[len(each) for each in found]}")
        if any((value or b"").endswith(b"aborted") for each in found for value in each):
            self.wrong.append("what was aborted is seen")

    def _run(self) -> None:
        while sum(self._at) < EVENTS and not self._stop.is_set():
            with contextlib.suppress(KafkaException):
                self._work()

    def _work(self) -> None:
        """Begin anew, as after a failure, and go on until the next one."""
        sender = transactor(self._address, "works")
        self._rewind()
        while sum(self._at) < EVENTS and not self._stop.is_set():
            taken = self._source.consume(self._rng.randint(1, 4), 1)
            if taken and not any(message.error() for message in taken):
                self._transact(sender, taken)

    def _rewind(self) -> None:
        """Go back to where the last committed transaction ended."""
        places = [TopicPartition("in", partition) for partition in range(INPUTS)]
        found = self._source.committed(places, timeout=STEP_S)
        self._at = [max(place.offset, 0) for place in found]
        self._source.assign([TopicPartition("in", n, at) for n, at in enumerate(self._at)])

    def _transact(self, sender: Producer, taken: list[Message]) -> None:
        self._attempt += 1
        commits = self._rng.random() < 0.7
        sender.begin_transaction()
        after = list(self._at)
        for message in taken:
            number = (message.value() or b"").decode()
            for partition in range(OUTPUTS):
                value = f"{number} {self._attempt} {'committed' if commits else 'aborted'}"
                sender.produce("t", value, partition=partition)
            after[message.partition() or 0] = (message.offset() or 0) + 1
        places = [TopicPartition("in", n, at) for n, at in enumerate(after)]
        group = self._source.consumer_group_metadata()
        sender.send_offsets_to_transaction(places, group, STEP_S)
        if commits:
            sender.commit_transaction(STEP_S)
            self._at = after
        else:
            sender.abort_transaction(STEP_S)
            self._rewind()
        self.done.add()


def transactor(address: str, name: str) -> Producer:
    """Return a producer that can begin a transaction."""
    config = {"transactional.id": name, "linger.ms": 0, "transaction.timeout.ms": 60_000, **QUICK}
    sender = Producer({"bootstrap.servers": address, **config})
    sender.init_transactions(STEP_S)
    return sender


def transact_through_kills(path: Path, kills: int, flaw: str = "") -> list[str]:
    with Mortal(path, flaw=flaw) as server:
        fill(server.address, EVENTS, INPUTS, topic="in")
        create(server.address, "t", OUTPUTS)
        works = Works(server.address, seed=5)
        try:
            die_often(server, works.done, works.look, seed=6, kills=kills, most=12)
        finally:
            works.finish()
        for partition in range(OUTPUTS):
            found = [value.split() for value in read(server.address, "t", partition)]
            if sorted(int(number) for number, *_ in found) != list(range(EVENTS)):
                works.wrong.append(f"{len(found)} events in {partition}")
            if any(outcome != b"committed" for *_, outcome in found):
                works.wrong.append(f"what was aborted is seen in {partition}")
        return works.wrong


@pytest.mark.timeout(0 if LONG else 120)
def test_committed_transactions_are_seen_wholly_and_once(tmp_path: Path) -> None:
    assert transact_through_kills(tmp_path / "data", KILLS) == []


def test_it_would_be_noticed_if_aborted_ones_were_seen(tmp_path: Path) -> None:
    assert transact_through_kills(tmp_path / "data", 1, SHOWS_WHAT_WAS_ABORTED) != []
