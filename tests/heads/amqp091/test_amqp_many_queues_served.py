"""A server with many AMQP queues: what opening, idling and a message for a thousand queues cost.

Costs are CPU time of the server's process. With ``--long`` they are judged, by the best of several
times, as a busy machine makes CPU time longer, too.
"""

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.heads.amqp091.raw_peers import PERSISTENT, Peer, publish
from tests.heads.server_process import Process
from tests.long_runs import LONG

from mainstem.heads.amqp091 import methods

QUEUES = 10_000 if LONG else 1_000
BOUND = 1_000
"""Queues that are bound to one exchange."""
MESSAGES = 20
OPENINGS = 3
IDLE_S = 20
OPEN_S = 1.0
PUBLISH_S = 0.05
IDLE_SHARE = 0.02
"""How much of a processor a server with many idle queues may use; an empty one hardly uses any."""
Property = Callable[[str, object], None]


def serving(path: Path) -> Process:
    return Process(path, amqp__listen="127.0.0.1:0")


def waiting(peer: Peer, number: int) -> int:
    declared = peer.ask(methods.QueueDeclare(queue=f"q{number}", passive=True))
    assert isinstance(declared, methods.QueueDeclareOk)
    return declared.message_count


def declare_all(peer: Peer) -> None:
    for number in range(QUEUES):
        peer.say(methods.QueueDeclare(queue=f"q{number}", durable=True, nowait=True))
        if number < BOUND:
            peer.say(methods.QueueBind(queue=f"q{number}", exchange="amq.fanout", nowait=True))
    assert waiting(peer, QUEUES - 1) == 0


def publish_to_all(server: Process, peer: Peer) -> list[float]:
    """Publish to all bound queues, one message after the other; return the CPU time of each."""
    peer.ask(methods.ConfirmSelect())
    found = []
    for tag in range(1, MESSAGES + 1):
        before = server.cpu_s()
        peer.send(publish("", b"x" * 100, PERSISTENT, exchange="amq.fanout"))
        assert peer.next()[1] == methods.BasicAck(tag)
        found.append(server.cpu_s() - before)
    return found


@pytest.mark.timeout(0 if LONG else 300)
def test_many_queues_are_opened_and_published_to_at_little_cost(
    tmp_path: Path, record_property: Property
) -> None:
    with serving(tmp_path / "empty") as server:
        empty_s = server.cpu_s()
        server.close()
    with serving(tmp_path / "data") as server:
        with Peer(server.addresses["amqp"]).connect(1) as peer:
            declare_all(peer)
            spent = publish_to_all(server, peer)
            assert [waiting(peer, number) for number in range(BOUND)] == [MESSAGES] * BOUND
        server.close()

    opened = []
    for _ in range(OPENINGS):
        with serving(tmp_path / "data") as server:
            opened.append(server.cpu_s() - empty_s)
            with Peer(server.addresses["amqp"]).connect(1) as peer:
                assert waiting(peer, 0) == waiting(peer, BOUND - 1) == MESSAGES
                assert waiting(peer, QUEUES - 1) == (MESSAGES if QUEUES == BOUND else 0)
            server.close()

    record_property("queues", QUEUES)
    record_property("open_seconds", round(min(opened), 2))
    record_property("publish_milliseconds", round(min(spent) * 1000))
    assert not LONG or min(opened) < OPEN_S
    assert not LONG or min(spent) < PUBLISH_S


@pytest.mark.skipif(not LONG, reason="measured for a while: ./test --long")
@pytest.mark.timeout(0)
def test_idle_queues_cost_next_to_nothing(tmp_path: Path, record_property: Property) -> None:
    with serving(tmp_path) as server:
        with Peer(server.addresses["amqp"]).connect(1) as peer:
            declare_all(peer)
        before = server.cpu_s()
        time.sleep(IDLE_S)
        share = (server.cpu_s() - before) / IDLE_S

    record_property("idle_share", round(share, 4))
    assert share < IDLE_SHARE
