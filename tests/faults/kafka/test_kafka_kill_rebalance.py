"""kill -9 while a group rebalances: it comes back, and every event is finished once."""

import contextlib
import random
import threading
from collections import Counter
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition
from tests.faults.kafka.test_kafka_kill_commits import FORGETS_CURSORS
from tests.faults.killable_server import Mortal, Tally, die_often, fill, reader, until
from tests.long_runs import LONG

from mainstem.broker.broker import Broker

PARTITIONS = 4
MEMBERS = 3
EVENTS = 20_000 if LONG else 300
Place = tuple[int, int]
"""A partition and an offset."""


def nothing(source: Consumer, places: list[TopicPartition]) -> None:
    """Be told of an assignment, and let it be."""


def begin_at_zero(address: str) -> None:
    """Give the group cursors, so that no member ever has to ask where a partition begins.

    librdkafka may get the answer to that after it has lost the partition and got it again, and
    begins at the beginning then, whatever is committed.
    """
    source = reader(address, "crowd")
    places = [TopicPartition("t", partition, 0) for partition in range(PARTITIONS)]
    source.commit(offsets=places, asynchronous=False)
    source.close()


class Crowd:
    """A group whose members come and go while they work: every event is processed and committed."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._onlooker = reader(address, "crowd")
        self.processed: set[Place] = set()
        self.committed: Counter[Place] = Counter()
        """What was acknowledged as finished, and how often."""
        self.wrong: list[str] = []
        self.done = Tally()
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._work, args=(n,)) for n in range(MEMBERS)]
        for thread in self._threads:
            thread.start()

    def finish(self) -> None:
        """Work until the group's cursors are at the end."""
        until(self._is_finished)
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def look(self, broker: Broker) -> None:
        """See whether a server that has died knows where the group was."""
        for partition in range(PARTITIONS):
            known = max((at for where, at in self.committed if where == partition), default=-1)
            cursor = broker.cursor("crowd", "t", partition)
            if cursor is None or cursor.offset <= known:
                self.wrong.append(f"{partition}: {cursor}, but {known} was finished")

    def _is_finished(self) -> bool:
        places = [TopicPartition("t", partition) for partition in range(PARTITIONS)]
        with contextlib.suppress(KafkaException):
            found = self._onlooker.committed(places, timeout=1)
            return bool(sum(max(place.offset, 0) for place in found) == EVENTS)
        return False

    def _work(self, number: int) -> None:
        rng = random.Random(number)
        while not self._stop.is_set():
            source = reader(self._address, "crowd")
            # With these, an assignment only changes in poll: never between poll and commit.
            source.subscribe(["t"], on_assign=nothing, on_revoke=nothing, on_lost=nothing)
            for _ in range(rng.randint(20, 150)):
                self._one(source)
            source.close()

    def _one(self, source: Consumer) -> None:
        message = source.poll(0.1)
        if message is None or message.error() or self._stop.is_set():
            return
        place = (message.partition() or 0, message.offset() or 0)
        self.processed.add(place)
        with contextlib.suppress(KafkaException):
            source.commit(message=message, asynchronous=False)
            self.committed[place] += 1
            self.done.add()


def rebalance_through_kills(path: Path, flaw: str = "") -> list[str]:
    with Mortal(path, flaw=flaw) as server:
        fill(server.address, EVENTS, PARTITIONS)
        begin_at_zero(server.address)
        crowd = Crowd(server.address)
        try:
            die_often(server, crowd.done, crowd.look, seed=4, kills=3, most=60)
        finally:
            crowd.finish()
        twice = [place for place, times in crowd.committed.items() if times > 1]
        wrong = crowd.wrong + [f"{place} was finished twice" for place in twice]
        if len(crowd.processed) < EVENTS:
            wrong.append(f"only {len(crowd.processed)} events were processed")
        return wrong


@pytest.mark.timeout(0 if LONG else 120)
def test_a_group_comes_back_and_finishes_every_event_once(tmp_path: Path) -> None:
    assert rebalance_through_kills(tmp_path / "data") == []


def test_it_would_be_noticed_if_the_group_forgot_where_it_was(tmp_path: Path) -> None:
    assert rebalance_through_kills(tmp_path / "data", FORGETS_CURSORS) != []
