"""Networks and machines of AMQP clients that fail, and connections that come and go."""

import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.heads.amqp091.abuse.attacks import TUNE_OK, a_message, confirmed
from tests.heads.amqp091.raw_peers import PERSISTENT, Peer, publish
from tests.heads.amqp091.talking import HANDSHAKE, START_OK, connecting
from tests.heads.kafka.packet_loss import lose_a_fifth, vanish
from tests.heads.server_process import Process, until

from mainstem.heads.amqp091 import methods
from mainstem.heads.amqp091.codec import BODY, HEAD
from mainstem.heads.amqp091.methods import Bare

MESSAGE = publish("cut", b"a body", PERSISTENT)
OPEN = 'mainstem_connections{head="amqp"}'


def begin_a_message(peer: Peer) -> None:
    peer.send(a_message(1_000_000, bytes(1000)) + HEAD.pack(BODY, 1, 100_000))


def consume(peer: Peer) -> None:
    peer.ask(methods.BasicConsume(queue="kept", no_ack=False))


def leave_a_transaction_open(peer: Peer) -> None:
    peer.ask(Bare.TX_SELECT)
    peer.send(publish("kept", b"never committed"))


@pytest.mark.parametrize("habit", [begin_a_message, consume, leave_a_transaction_open])
def test_a_machine_that_has_gone_is_given_up_by_its_heartbeat(
    server: Process, address: str, habit: Callable[[Peer], None]
) -> None:
    with Peer(address) as gone:
        gone.send(connecting(START_OK, TUNE_OK(0, 0, 1), methods.ConnectionOpen()))
        for _ in range(3):
            gone.next()
        gone.ask(methods.ChannelOpen())
        habit(gone)
        before = server.metric(OPEN)

        vanish(gone.socket)

        until(lambda: server.metric(OPEN) < before, lambda: None)


@pytest.mark.parametrize("size", range(1, len(MESSAGE), 7))
def test_who_goes_in_the_middle_of_a_message_has_published_nothing(
    peer: Peer, address: str, size: int
) -> None:
    peer.declare("cut")
    for resets in (True, False):
        with Peer(address).connect(1) as cut:
            cut.send(MESSAGE[:size])
            cut.reset() if resets else cut.socket.shutdown(socket.SHUT_WR)

    assert peer.ask(methods.QueuePurge(queue="cut")) == methods.QueuePurgeOk(0)


def test_a_message_that_comes_byte_by_byte_is_a_message(peer: Peer) -> None:
    peer.declare("slow")
    for byte in publish("slow", b"a body"):
        peer.send(bytes((byte,)))

    assert peer.get("slow") == b"a body"


def test_two_thousand_connects_keep_nobody_out(address: str) -> None:
    for number in range(2_000):
        with Peer(address) as peer:
            if number % 10 == 0:
                peer.connect(1)
            elif number % 3 == 0:
                peer.send(HANDSHAKE[: number % len(HANDSHAKE)])
            peer.reset()


def test_a_network_that_loses_a_fifth_loses_and_doubles_nothing(tmp_path: Path) -> None:
    bodies = [b"%d" % number for number in range(100)]
    with (
        Process(tmp_path, loses_a_fifth=True, amqp__listen="127.0.0.1:0") as process,
        Peer(process.addresses["amqp"]) as peer,
    ):
        lose_a_fifth(peer.socket)
        peer.connect(1)
        peer.ask(methods.QueueDeclare(queue="lossy", durable=True))
        peer.ask(methods.ConfirmSelect())
        for body in bodies:
            peer.send(publish("lossy", body, PERSISTENT))
        confirmed(peer, len(bodies))
        peer.ask(methods.BasicConsume(queue="lossy", no_ack=True))
        taken = [peer.message() for _ in bodies]

    assert [body for _, body in taken] == bodies
    assert not any(delivery.redelivered for delivery, _ in taken)
