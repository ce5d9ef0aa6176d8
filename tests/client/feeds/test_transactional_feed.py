"""A feed of a topic with transactions: a late join from a snapshot, and numbers after kill -9."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from tests.client.feeds.test_lossy_multicast import free_port
from tests.heads.moldudp64.feed_head import new_group
from tests.heads.server_process import Process

import mainstem
from mainstem.feeds import MulticastFeed, Patience

WAIT_S = 60


def words(first: int, end: int) -> list[bytes]:
    return [b"message %d" % each for each in range(first, end)]


class Feed:
    """A directory with a topic, and the settings of a server that publishes it."""

    def __init__(self, path: Path) -> None:
        self.path, self.group, self.requests = path, new_group(), f"127.0.0.1:{free_port()}"
        with mainstem.open(path) as stem:
            stem.topics.create("trades", partitions=1)

    def server(self) -> Process:
        return Process(
            self.path,
            moldudp64__listen=self.requests,
            moldudp64__feeds=f"S1=trades/0@{self.group}",
            moldudp64__heartbeat_ms=100,
        )

    def receiver(self, start: int = 1) -> MulticastFeed:
        patience = Patience(give_up_ms=None)
        return MulticastFeed(
            self.group, requests=self.requests, session="S1", start=start, patience=patience
        )


@pytest.fixture
def feed(tmp_path: Path) -> Feed:
    return Feed(tmp_path / "data")


def publish(server: Process, first: int, end: int) -> None:
    """Commit a transaction of three messages each, and abort one between any two."""
    producer = Producer(
        {"bootstrap.servers": server.address, "transactional.id": "t", "log_level": 0}
    )
    producer.init_transactions(WAIT_S)
    for at in range(first, end, 3):
        for values, finish in (
            (words(at, min(at + 3, end)), producer.commit_transaction),
            ([b"aborted"], producer.abort_transaction),
        ):
            producer.begin_transaction()
            for each in values:
                producer.produce("trades", each)
            producer.flush(WAIT_S)
            finish(WAIT_S)


def take(feed: MulticastFeed, count: int) -> Iterator[tuple[int, bytes]]:
    for _ in range(count):
        message = feed.poll(WAIT_S)
        assert message is not None
        yield message.sequence, message.data


def numbered(values: list[bytes], first: int = 1) -> list[tuple[int, bytes]]:
    return list(enumerate(values, first))


def test_numbers_of_transactional_messages_survive_kills(feed: Feed) -> None:
    with feed.receiver() as steady:
        heard = list[tuple[int, bytes]]()
        for part in range(3):
            with feed.server() as server:
                publish(server, 60 * part, 60 * (part + 1))
                heard += take(steady, 60 if part < 2 else 30)
                if part == 0:
                    # It stores a mark; the later ones are killed -9 long after that mark.
                    server.close()
        with feed.server(), feed.receiver() as late:
            heard += take(steady, 30)
            again = list(take(late, 180))

    assert heard == numbered(words(0, 180))
    assert again == heard


def test_who_joins_from_a_snapshot_has_every_event_once(feed: Feed) -> None:
    with feed.server() as server:
        publish(server, 0, 90)
        # The snapshot: what has been read up to some event, and the offset behind it.
        consumer = Consumer(
            {
                "bootstrap.servers": server.address,
                "group.id": "snapshot",
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
            }
        )
        consumer.subscribe(["trades"])
        snapshot = list(consumed(consumer, 40))
        offset = snapshot[-1][0] + 1
        consumer.close()
        number = sequence_at(server, offset)
        assert offset > number == 41
        with feed.receiver(number) as late:
            publish(server, 90, 120)
            later = list(take(late, 80))
        listened = listen(feed, number, 80)

    assert [value for _, value in snapshot] == words(0, 40)
    assert later == numbered(words(40, 120), number)
    assert listened == later


def consumed(consumer: Consumer, count: int) -> Iterator[tuple[int, bytes]]:
    for _ in range(count):
        message = consumer.poll(WAIT_S)
        assert message is not None
        offset, value = message.offset(), message.value()
        assert offset is not None
        assert isinstance(value, bytes)
        yield offset, value


def mainstem_prints(*arguments: str) -> list[dict[str, object]]:
    ran = subprocess.run(
        [sys.executable, "-m", "mainstem", *arguments],
        check=True,
        capture_output=True,
        text=True,
        timeout=WAIT_S,
    )
    return [json.loads(line) for line in ran.stdout.splitlines()]


def sequence_at(server: Process, offset: int) -> int:
    """Return the sequence number that the command says."""
    (found,) = mainstem_prints("feed", "sequence", "S1", str(offset), "--at", server.address)
    return int(str(found["sequence"]))


def listen(feed: Feed, start: int, count: int) -> list[tuple[int, bytes]]:
    """Return what ``mainstem feed listen`` prints."""
    found = mainstem_prints(
        *("feed", "listen", feed.group, "--requests", feed.requests),
        *("--from", str(start), "--count", str(count)),
    )
    return [(int(str(each["sequence"])), str(each["data"]).encode()) for each in found]
