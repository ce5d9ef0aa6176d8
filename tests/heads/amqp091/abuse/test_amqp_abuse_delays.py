"""Very many delayed AMQP messages that are all due at once."""

import time
from collections.abc import Iterator

import pytest
from tests.heads.admin.web import get
from tests.heads.amqp091.abuse.attacks import confirmed, eventually
from tests.heads.amqp091.raw_peers import Peer, publish
from tests.heads.server_process import Process, until
from tests.long_runs import LONG

from mainstem.heads.amqp091 import methods
from mainstem.heads.amqp091.fields import Long
from mainstem.heads.amqp091.properties import Properties, encode_properties

COUNT = 1_000_000 if LONG else 20_000
AT_ONCE = 1_000
AHEAD_S = COUNT / 2_000
"""Longer than it takes to publish them all."""


def delayed(number: int, due: float) -> bytes:
    delay_ms = Long(max(1, int((due - time.time()) * 1000)))
    said = encode_properties(Properties(headers={"x-delay": delay_ms}))
    return publish("", b"%d" % number, said, exchange="later")


@pytest.fixture
def patient(address: str) -> Iterator[Peer]:
    """A client without heartbeats, that waits for hours."""
    with Peer(address) as found:
        found.connect(1, heartbeat_s=0)
        found.socket.settimeout(None)
        yield found


def declare_delayed(peer: Peer, exchange: str) -> None:
    """Declare a fanout exchange whose messages may be delayed."""
    arguments = {"x-delayed-type": "fanout"}
    peer.ask(
        methods.ExchangeDeclare(exchange=exchange, type="x-delayed-message", arguments=arguments)
    )


@pytest.mark.timeout(0 if LONG else 240)
def test_a_million_delayed_messages_that_are_due_at_once_hold_up_nobody(
    server: Process, patient: Peer
) -> None:
    declare_delayed(patient, "later")
    patient.ask(methods.QueueDeclare(queue="due", durable=True))
    patient.ask(methods.QueueBind(queue="due", exchange="later"))
    patient.ask(methods.ConfirmSelect())
    due = time.time() + AHEAD_S
    for first in range(0, COUNT, AT_ONCE):
        patient.send(b"".join(delayed(at, due) for at in range(first, first + AT_ONCE)))
        confirmed(patient, first + AT_ONCE)
    assert time.time() < due, "publishing took longer than their delay"

    # The fixtures see that a healthy client is answered meanwhile, and that memory does not grow.
    patient.ask(methods.BasicConsume(queue="due", no_ack=True))
    found = bytearray(COUNT)
    for _ in range(COUNT):
        _, body = patient.message()
        found[int(body)] += 1

    assert found == b"\1" * COUNT
    assert time.time() >= due - 1
    assert server.metric("mainstem_delayed_events") == 0
    assert get(server.admin, "/readyz").status == 200
    patient.ask(methods.QueueDelete(queue="due"))


def test_delayed_messages_of_an_exchange_that_is_gone_are_dropped(
    server: Process, peer: Peer
) -> None:
    declare_delayed(peer, "gone")
    peer.ask(methods.ConfirmSelect())
    said = encode_properties(Properties(headers={"x-delay": 500}))
    peer.send(publish("", b"x", said, exchange="gone") * AT_ONCE)
    confirmed(peer, AT_ONCE)
    peer.ask(methods.ExchangeDelete(exchange="gone"))
    peer.declare("after")
    peer.send(publish("after", b"y"))

    until(lambda: server.metric("mainstem_delayed_events") == 0, lambda: time.sleep(0.05))
    assert eventually(peer, "after") == b"y"
