"""stomp.py, unmodified: queues, topics and transactions, beside Kafka clients and our own."""

import queue
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import msgspec
import pytest
import stomp  # type: ignore[import-untyped]
from confluent_kafka import AcknowledgeType, Consumer, Producer, ShareConsumer
from tests.in_process_server import server
from tests.loop_thread import PATIENCE_S

import mainstem
from mainstem.core.topic_settings import Durability
from mainstem.node.config import Config
from mainstem.node.server import Running

CONFIG = Config().listening(stomp="127.0.0.1:0")
VERSIONS = {
    "1.0": stomp.StompConnection10,
    "1.1": stomp.StompConnection11,
    "1.2": stomp.StompConnection12,
}


class Told(NamedTuple):
    """A frame as stomp.py hands it out."""

    command: str
    headers: dict[str, str]
    body: str | bytes

    @property
    def ack(self) -> str:
        """What ACK names."""
        return self.headers.get("ack", self.headers["message-id"])


class Client(stomp.ConnectionListener):  # type: ignore[misc]
    """A connection of stomp.py, and what it was told."""

    def __init__(self, address: tuple[str, int], version: str, **options: object) -> None:
        self.told: queue.Queue[Told] = queue.Queue()
        self.connection = VERSIONS[version]([address], reconnect_attempts_max=1, **options)
        self.connection.set_listener("", self)
        self.connection.connect("ann", "secret", wait=True)
        self.version = version

    def on_message(self, frame: stomp.utils.Frame) -> None:
        self.told.put(Told("MESSAGE", frame.headers, frame.body))

    def on_receipt(self, frame: stomp.utils.Frame) -> None:
        self.told.put(Told("RECEIPT", frame.headers, frame.body))

    def on_error(self, frame: stomp.utils.Frame) -> None:
        self.told.put(Told("ERROR", frame.headers, frame.body))

    def on_disconnected(self) -> None:
        self.told.put(Told("the end", {}, ""))

    def next(self, command: str = "MESSAGE") -> Told:
        """Return the next frame, which has to be of this kind."""
        found = self.told.get(timeout=PATIENCE_S)
        assert found.command == command, found
        return found

    def subscribe(
        self, destination: str, ack: str = "auto", named: str = "s", **headers: str
    ) -> None:
        """Subscribe, and wait until that is so."""
        self.connection.subscribe(
            destination, id=named, ack=ack, headers=headers | {"receipt": "subscribed"}
        )
        assert self.next("RECEIPT").headers["receipt-id"] == "subscribed"

    def send(self, destination: str, body: str | bytes, **headers: str) -> None:
        """Send, and wait until it is durable."""
        self.connection.send(destination, body, headers=headers, receipt="sent")
        assert self.next("RECEIPT").headers["receipt-id"] == "sent"

    def ack(self, message: Told) -> None:
        if self.version == "1.1":
            self.connection.ack(message.ack, "s", receipt="acked")
        else:
            self.connection.ack(message.ack, receipt="acked")
        assert self.next("RECEIPT").headers["receipt-id"] == "acked"


@contextmanager
def client(running: Running, version: str = "1.2", **options: object) -> Iterator[Client]:
    found = Client(running.addresses["stomp"].pair, version, **options)
    try:
        yield found
    finally:
        if found.connection.is_connected():
            found.connection.disconnect()


@pytest.fixture(scope="module")
def config() -> Config:
    return CONFIG


@pytest.mark.parametrize("version", VERSIONS)
def test_a_message_is_sent_received_and_acknowledged(running: Running, version: str) -> None:
    name = f"/queue/round-{version}"
    with client(running, version) as one:
        one.subscribe(name, "client-individual")
        one.connection.send(name, "grüße", headers={"colour": "red"}, receipt="sent")
        told = [one.told.get(timeout=PATIENCE_S) for _ in range(2)]
        message = next(each for each in told if each.command == "MESSAGE")
        one.ack(message)

    assert {each.command for each in told} == {"MESSAGE", "RECEIPT"}
    assert (message.body, message.headers["colour"]) == ("grüße", "red")
    assert message.headers["redelivered"] == "false"
    state = running.node.broker.queues.show(f"round-{version}", f"round-{version}")
    assert sum(each.unsettled for each in state.windows) == 0


def test_ipv6_is_served(tmp_path_factory: pytest.TempPathFactory) -> None:
    config = CONFIG.listening(stomp="[::1]:0")
    with server(tmp_path_factory.mktemp("data"), config=config) as running:
        assert str(running.addresses["stomp"]).startswith("[::1]:")
        with client(running) as one:
            one.subscribe("/queue/six")
            one.connection.send("/queue/six", "hello")

            assert one.next().body == "hello"


@pytest.mark.parametrize("version", ["1.1", "1.2"])
def test_headers_with_every_character_come_back(running: Running, version: str) -> None:
    value = "a:b\\c\nd" + ("\re" if version == "1.2" else "")
    with client(running, version) as one:
        one.subscribe("/queue/escapes")
        one.connection.send("/queue/escapes", "x", headers={"odd": value})

        assert one.next().headers["odd"] == value


def test_bytes_with_nul_come_back(running: Running) -> None:
    with client(running, auto_decode=False) as one:
        one.subscribe("/queue/bytes")
        one.connection.send("/queue/bytes", bytes(range(256)) * 1000)

        assert one.next().body == bytes(range(256)) * 1000


def test_who_goes_without_ack_gives_its_messages_back(running: Running) -> None:
    with client(running) as sender:
        sender.send("/queue/back", "1")
        with client(running) as first:
            first.subscribe("/queue/back", "client")
            assert first.next().headers["redelivered"] == "false"
        with client(running) as second:
            second.subscribe("/queue/back", "client")

            assert second.next().headers["redelivered"] == "true"


def test_a_transaction_is_seen_when_it_commits(running: Running) -> None:
    with client(running) as one, client(running) as other:
        other.subscribe("/queue/tx")
        for deed in (one.connection.abort, one.connection.commit):
            transaction = one.connection.begin()
            one.connection.send("/queue/tx", deed.__name__, transaction=transaction)
            deed(transaction, receipt="done")
            one.next("RECEIPT")

        assert other.next().body == "commit"


def test_delayed_messages_come_when_they_are_due(running: Running) -> None:
    name = "/queue/delayed"
    with client(running) as one:
        one.subscribe(name)
        began = time.monotonic()
        for body, delay in (("never", 10**9), ("second", 300), ("first", 0)):
            one.connection.send(name, body, headers={"AMQ_SCHEDULED_DELAY": delay})
        one.connection.begin("tx")
        one.connection.send(name, "third", headers={"AMQ_SCHEDULED_DELAY": 400}, transaction="tx")
        one.connection.commit("tx")
        received = [one.next() for _ in range(3)]

    assert [each.body for each in received] == ["first", "second", "third"]
    assert time.monotonic() - began >= 0.4
    assert all("AMQ_SCHEDULED_DELAY" not in each.headers for each in received)


def test_topics_fan_out_and_durable_subscriptions_wait(running: Running) -> None:
    with client(running) as sender, client(running) as first, client(running) as second:
        first.subscribe("/topic/fan")
        second.subscribe("/topic/fan", named="audit", durable="true")
        sender.send("/topic/fan", "1")
        assert first.next().body == second.next().body == "1"
        second.connection.disconnect()
        sender.send("/topic/fan", "2")

        with client(running) as third:
            third.subscribe("/topic/fan", named="audit", durable="true")
            assert third.next().body == "2"


def test_replies_come_to_who_asked(running: Running) -> None:
    with client(running) as asking, client(running) as answering:
        answering.subscribe("/queue/questions")
        asking.send("/queue/questions", "how?", **{"reply-to": "/temp-queue/mine"})
        answering.send(answering.next().headers["reply-to"], "so")

        answer = asking.next()

    assert (answer.body, answer.headers["subscription"]) == ("so", "/temp-queue/mine")


def test_what_is_refused_is_said_and_ends_the_connection(running: Running) -> None:
    with client(running) as one:
        one.connection.subscribe("/queue/a", id="s", headers={"selector": "a = 1"})

        error = one.next("ERROR")

        assert "selector" in str(error.body)
        assert one.next("the end")


def test_heart_beats_keep_a_quiet_connection(running: Running) -> None:
    with client(running, heartbeats=(500, 500)) as one:
        one.subscribe("/queue/quiet")
        # Twice the time after which a peer that says nothing is given up.
        with pytest.raises(queue.Empty):
            one.told.get(timeout=2.0)
        one.send("/queue/other", "x")


def test_a_peer_that_misses_its_heart_beats_is_told_and_cut_off(running: Running) -> None:
    with socket.create_connection(running.addresses["stomp"].pair, PATIENCE_S) as peer:
        peer.sendall(b"CONNECT\naccept-version:1.2\nhost:/\nheart-beat:100,0\n\n\0")
        said = b""
        while data := peer.recv(4096):
            said += data

    assert said.startswith(b"CONNECTED\n")
    assert b"\nmessage:Heart-beat missed\n" in said


# Beside others


def test_what_stomp_sends_is_where_kafka_and_our_client_see_it(running: Running) -> None:
    with client(running) as one:
        one.subscribe("/queue/seen")
        one.connection.send("/queue/seen", "hello", headers={"mainstem-key": "k1", "colour": "red"})
        message = one.next()

    consumer = Consumer(
        {
            "bootstrap.servers": str(running.kafka),
            "group.id": "reader",
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe(["seen"])
    read = consumer.poll(PATIENCE_S)
    consumer.close()
    with mainstem.connect(str(running.kafka)) as stem:
        event = stem.subscribe("seen").poll(PATIENCE_S)

    assert read is not None
    assert event is not None
    assert message.headers["mainstem-position"] == f"{read.partition()}:{read.offset()}"
    assert event.position == (read.partition(), read.offset())
    assert event.value == read.value() == b"hello"
    assert event.key == read.key() == b"k1"
    assert event.headers == tuple(read.headers() or ()) == (("colour", b"red"),)


def test_what_kafka_produces_reaches_a_queue_of_stomp(running: Running) -> None:
    with client(running) as one:
        one.subscribe("/queue/produced")
        producer = Producer({"bootstrap.servers": str(running.kafka)})
        producer.produce("produced", b"hi", key=b"k", headers={"h": b"v"})
        producer.flush(PATIENCE_S)

        message = one.next()

    assert (message.body, message.headers["mainstem-key"], message.headers["h"]) == ("hi", "k", "v")


def test_stomp_and_kafka_share_a_queue_each_event_once(running: Running) -> None:
    with client(running) as sender, client(running) as one:
        one.subscribe("/queue/shared", "client-individual", **{"prefetch-count": "5"})
        sharer = ShareConsumer(
            {
                "bootstrap.servers": str(running.kafka),
                "group.id": "shared",
                "share.acknowledgement.mode": "explicit",
            }
        )
        sharer.subscribe(["shared"])
        sharer.poll(0.1)
        for number in range(200):
            sender.connection.send("/queue/shared", str(number))
        by_stomp, by_kafka = list[int](), list[int]()
        until = time.monotonic() + PATIENCE_S
        while len(by_stomp) + len(by_kafka) < 200 and time.monotonic() < until:
            while not one.told.empty():
                message = one.next()
                by_stomp.append(int(str(message.body)))
                one.connection.ack(message.ack)
            for read in sharer.poll(0.05):
                by_kafka.append(int(read.value() or b""))
                sharer.acknowledge(read, AcknowledgeType.ACCEPT)
            sharer.commit_sync(PATIENCE_S)
        sharer.close()
        # Its receipt says that the last ACK is durable, too.
        one.send("/queue/after", "x")

    assert sorted(by_stomp + by_kafka) == list(range(200))
    assert by_stomp
    assert by_kafka
    state = running.node.broker.queues.show("shared", "shared")
    assert sum(each.unsettled for each in state.windows) == 0


def test_a_server_that_stops_says_so(tmp_path_factory: pytest.TempPathFactory) -> None:
    config = msgspec.structs.replace(CONFIG, durability=Durability.MEMORY)
    with server(tmp_path_factory.mktemp("data"), config=config) as running:
        one = Client(running.addresses["stomp"].pair, "1.2")
        one.subscribe("/queue/a")

    assert one.next("ERROR").headers["message"] == "Server is stopping"
