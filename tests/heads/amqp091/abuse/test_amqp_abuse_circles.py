"""AMQP topologies with cycles or exponential fanout."""

import time

import pytest
from tests.heads.amqp091.abuse.attacks import MIB, TUNE_OK, cut_off, seen
from tests.heads.amqp091.raw_peers import (
    Peer,
    Said,
    publish,
)
from tests.heads.amqp091.talking import START_OK, connecting
from tests.heads.server_process import Process

from mainstem.heads.amqp091 import methods
from mainstem.heads.amqp091.methods import Bare
from mainstem.heads.amqp091.properties import (
    Properties,
    decode_properties,
    encode_properties,
)


def test_exchanges_bound_in_a_circle_route_once(peer: Peer) -> None:
    peer.declare("circle")
    names = ["circle.0", "circle.1", "circle.2"]
    for each in names:
        peer.ask(methods.ExchangeDeclare(exchange=each, type="fanout"))
    for source, destination in zip(names, [*names[1:], names[0]], strict=True):
        peer.ask(methods.ExchangeBind(source=source, destination=destination))
        peer.ask(methods.QueueBind(queue="circle", exchange=source))
    peer.ask(methods.ExchangeBind(source="circle.0", destination="circle.0"))

    peer.send(publish("", b"once", exchange="circle.0"))

    assert seen(peer, "circle") == 1


def test_alternate_exchanges_in_a_circle_lead_nowhere(peer: Peer) -> None:
    for name, other in (("alternate.0", "alternate.1"), ("alternate.1", "alternate.0")):
        arguments = {"alternate-exchange": other}
        peer.ask(methods.ExchangeDeclare(exchange=name, arguments=arguments))

    peer.send(publish("", b"", exchange="alternate.0", mandatory=True))

    assert isinstance(peer.next()[1], methods.BasicReturn)


@pytest.mark.parametrize("through", ["itself", "another"])
def test_dead_letters_in_a_circle_come_to_an_end(server: Process, peer: Peer, through: str) -> None:
    first, second = f"cycle.{through}.1", f"cycle.{through}.2"
    targets = {first: first} if through == "itself" else {first: second, second: first}
    for queue, target in targets.items():
        peer.declare(queue, message_ttl=1, dead_letter_exchange="", dead_letter_routing_key=target)
    peer.send(publish(first, b"round and round") * 100)
    while seen(peer, first) + (seen(peer, second) if second in targets else 0):
        time.sleep(0.01)
    before = server.cpu_s()
    time.sleep(0.3)
    assert server.cpu_s() - before < 0.3


WILDCARDS = {
    "many #": ["#." * 120 + "x"],
    "many # and words": [".".join(["#", "a"] * 60)],
    "words in all orders": [
        ".".join(f"#.{'ab'[number * 2_654_435_761 >> at & 1]}" for at in range(60))
        for number in range(1, 1_001)
    ],
    "many * and #": [".".join(["#", "*"] * at) for at in range(1, 60)],
}


@pytest.mark.parametrize("which", WILDCARDS)
def test_wildcards_do_not_blow_up(peer: Peer, which: str) -> None:
    peer.ask(methods.ExchangeDeclare(exchange=which, type="topic"))
    peer.declare("wild")
    for each in WILDCARDS[which]:
        peer.say(methods.QueueBind(queue="wild", exchange=which, routing_key=each, nowait=True))
    seen(peer, "wild")

    keys = [".".join("ab"[number * 40_503 >> at & 1] for at in range(120)) for number in range(100)]
    peer.send(b"".join(publish(key, exchange=which) for key in keys))

    told = peer.ask(methods.ExchangeDelete(exchange=which))
    assert told is Bare.EXCHANGE_DELETE_OK or is_refused(told)


def is_refused(told: Said) -> bool:
    """Tell whether a message was refused, as its key would take too long."""
    return isinstance(told, methods.ChannelClose) and "too many bindings" in told.reply_text


def test_who_does_not_read_replies_is_cut_off(server: Process, address: str, peer: Peer) -> None:
    with Peer(address, receive_buffer=4096).connect(1) as asking, cut_off(server, asking):
        asking.ask(methods.BasicConsume(queue="amq.rabbitmq.reply-to", no_ack=True))
        peer.declare("asked")
        reply_to = encode_properties(Properties(reply_to="amq.rabbitmq.reply-to"))
        asking.send(publish("asked", b"?", reply_to))
        peer.ask(methods.BasicConsume(queue="asked", no_ack=True))
        assert isinstance(peer.next()[1], methods.BasicDeliver)
        header, _ = peer.next()[1], peer.next()
        assert isinstance(header, bytes)
        name = decode_properties(header[12:]).reply_to
        assert name is not None
        for _ in range(100):
            peer.send(publish(name, bytes(MIB)))
        seen(peer, "asked")


def test_a_client_that_stops_is_cut_off(server: Process, address: str) -> None:
    with Peer(address) as peer, cut_off(server, peer):
        peer.send(connecting(START_OK, TUNE_OK(0, 0, 1), methods.ConnectionOpen()))
        for _ in range(3):
            peer.next()

        with pytest.raises(EOFError):
            peer.next()
