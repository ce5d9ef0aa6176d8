"""Crowds of AMQP connections, channels, queues, consumers and keys."""

import contextlib
import time

from tests.heads.admin.web import get
from tests.heads.amqp091.abuse.attacks import (
    TUNE_OK,
    closed,
    cut_off,
    refused,
    seen,
)
from tests.heads.amqp091.raw_peers import (
    Peer,
    publish,
)
from tests.heads.amqp091.talking import START_OK, connecting
from tests.heads.server_process import Process
from tests.long_runs import LONG

from mainstem.heads.amqp091 import methods
from mainstem.heads.amqp091.codec import (
    method_frame,
)
from mainstem.heads.amqp091.errors import ReplyCode
from mainstem.heads.amqp091.methods import Bare

CROWD = 10_000 if LONG else 1_000


def test_a_crowd_of_idle_connections_costs_little(address: str) -> None:
    # The healthy client is one of those that the server admits.
    with contextlib.ExitStack() as stack:
        for _ in range(CROWD - 10):
            stack.enter_context(Peer(address)).connect(1)


def test_a_crowd_of_channels_costs_little(address: str) -> None:
    numbers = range(1, 1_001)
    with contextlib.ExitStack() as stack:
        for _ in range(CROWD // len(numbers)):
            peer = stack.enter_context(Peer(address)).connect()
            peer.send(b"".join(method_frame(each, methods.ChannelOpen()) for each in numbers))
            for number in numbers:
                assert peer.next() == (number, methods.ChannelOpenOk())


def test_more_channels_than_were_agreed_are_refused(server: Process, peer: Peer) -> None:
    opened = b"".join(method_frame(each, methods.ChannelOpen()) for each in range(2, 2_050))
    with cut_off(server, peer):
        peer.send(opened)

        assert closed(peer) == ReplyCode.NOT_ALLOWED


def test_a_crowd_of_queues_and_bindings_costs_little(peer: Peer) -> None:
    peer.ask(methods.ExchangeDeclare(exchange="crowd", type="fanout"))
    names = [f"crowd.{number}" for number in range(CROWD)]
    for each in names:
        peer.say(
            methods.QueueDeclare(queue=each, durable=True, nowait=True),
            methods.QueueBind(queue=each, exchange="crowd", nowait=True),
        )
    peer.send(publish("", b"to all", exchange="crowd"))
    assert seen(peer, names[-1]) == 1
    # One message becomes many.
    peer.send(publish("", bytes(100_000), exchange="crowd"))
    assert seen(peer, names[-1]) == 2
    peer.send(publish("", b"x", exchange="crowd") * 20)
    assert seen(peer, names[0]) == 22
    for each in names:
        peer.say(methods.QueueDelete(queue=each, nowait=True))
    assert peer.ask(methods.ExchangeDelete(exchange="crowd", if_unused=True)) is (
        Bare.EXCHANGE_DELETE_OK
    )


def test_a_thousand_exclusive_queues_go_with_their_connection(address: str, peer: Peer) -> None:
    with Peer(address).connect(1) as owner:
        for number in range(1_000):
            owner.say(methods.QueueDeclare(queue=f"own.{number}", exclusive=True, nowait=True))
        assert seen(owner, "own.999") == 0
    while True:
        peer.say(methods.QueueDeclare(queue="own.999", passive=True))
        why = refused(peer)
        peer.say(Bare.CHANNEL_CLOSE_OK)
        peer.ask(methods.ChannelOpen())
        if why == ReplyCode.NOT_FOUND:
            break
        assert why == ReplyCode.RESOURCE_LOCKED


def test_more_consumers_than_are_allowed_close_the_connection(server: Process, peer: Peer) -> None:
    peer.declare("consumed")
    with cut_off(server, peer):
        peer.send(method_frame(1, methods.BasicConsume(queue="consumed")) * 1_001)
        told = [peer.next()[1] for _ in range(1_000)]

        assert all(isinstance(each, methods.BasicConsumeOk) for each in told)
        assert closed(peer) == ReplyCode.NOT_ALLOWED


def test_a_consumer_with_a_priority_that_is_none_is_refused(peer: Peer) -> None:
    peer.declare("consumed")
    peer.say(methods.BasicConsume(queue="consumed", arguments={"x-priority": "high"}))

    assert refused(peer) == ReplyCode.PRECONDITION_FAILED


def test_ten_thousand_routing_keys_cost_little(peer: Peer) -> None:
    peer.declare("keys")
    peer.ask(methods.QueueBind(queue="keys", exchange="amq.topic", routing_key="#"))
    for number in range(100):
        peer.send(
            b"".join(
                publish(f"{number * 100 + each:0250}", exchange="amq.topic") for each in range(100)
            )
        )
    assert seen(peer, "keys") == 10_000


def test_two_hundred_virtual_hosts_cost_little(address: str) -> None:
    for number in range(200):
        opened = connecting(START_OK, TUNE_OK(), methods.ConnectionOpen(f"vhost {number}"))
        with Peer(address) as peer:
            peer.send(opened + method_frame(1, methods.ChannelOpen()))
            peer.send(method_frame(1, methods.ExchangeDeclare(exchange="e")))
            while peer.next()[1] is not Bare.EXCHANGE_DECLARE_OK:
                pass


def test_channels_that_come_and_go_cost_nothing(peer: Peer) -> None:
    both = (method_frame(2, methods.ChannelOpen()), method_frame(2, methods.ChannelClose()))
    for _ in range(50):
        peer.send(b"".join(both) * 100)
        for _ in range(100):
            assert peer.next() == (2, methods.ChannelOpenOk())
            assert peer.next() == (2, Bare.CHANNEL_CLOSE_OK)


def test_consumers_that_come_and_go_cost_nothing(peer: Peer) -> None:
    peer.declare("flapping")
    for number in range(1_000):
        tag = f"consumer {number}"
        peer.ask(methods.BasicConsume(queue="flapping", consumer_tag=tag))
        assert peer.ask(methods.BasicCancel(tag)) == methods.BasicCancelOk(tag)


def test_queues_and_bindings_that_come_and_go_leave_nothing(server: Process, peer: Peer) -> None:
    before = len(get(server.admin, "/metrics").text.splitlines())
    for number in range(200):
        name = f"random.{number * 2_654_435_761:x}"
        peer.declare(name)
        peer.ask(methods.QueueBind(queue=name, exchange="amq.topic", routing_key=f"{number}.#"))
        assert peer.ask(methods.QueueDelete(queue=name)) == methods.QueueDeleteOk(0)

    # No metric has the names that clients make up.
    assert len(get(server.admin, "/metrics").text.splitlines()) == before


def test_messages_for_made_up_names_make_no_queues(peer: Peer) -> None:
    peer.send(b"".join(publish(f"made.up.{number}") for number in range(5_000)))
    peer.say(methods.QueueDeclare(queue="made.up.4999", passive=True))

    assert refused(peer) == ReplyCode.NOT_FOUND


def test_five_thousand_messages_that_expire_at_once_become_dead_letters(peer: Peer) -> None:
    peer.declare("expired")
    peer.declare(
        "expiring", message_ttl=1_000, dead_letter_exchange="", dead_letter_routing_key="expired"
    )
    for _ in range(5):
        peer.send(publish("expiring", b"x") * 1_000)

    while seen(peer, "expired") < 5_000:
        time.sleep(0.05)
