"""AMQP peers that ask for too much, do not read, and do not acknowledge."""

import contextlib

import pytest
from tests.heads.amqp091.abuse.attacks import (
    MIB,
    a_message,
    closed,
    confirmed,
    cut_off,
    eventually,
    flood,
    publish_many,
    refused,
    seen,
)
from tests.heads.amqp091.raw_peers import (
    PART_BYTES,
    PERSISTENT,
    Peer,
    publish,
)
from tests.heads.server_process import Process
from tests.long_runs import LONG

from mainstem.heads.amqp091 import methods
from mainstem.heads.amqp091.adapter.queues.queues import MAX_UNSETTLED
from mainstem.heads.amqp091.codec import (
    BODY,
    HEAD,
    method_frame,
)
from mainstem.heads.amqp091.errors import ReplyCode
from mainstem.heads.amqp091.methods import Bare


@pytest.mark.parametrize("no_ack", [True, False], ids=["no_ack", "ack"])
def test_who_does_not_read_is_sent_little(address: str, peer: Peer, *, no_ack: bool) -> None:
    queue = f"unread.{no_ack}"
    peer.declare(queue)
    with contextlib.ExitStack() as stack:
        for _ in range(4):
            slow = stack.enter_context(Peer(address, receive_buffer=4096)).connect(1)
            slow.ask(methods.BasicConsume(queue=queue, no_ack=no_ack))
        publish_many(peer, queue, 100, MIB - 1024)


def test_what_is_never_acknowledged_is_not_kept_in_memory(address: str, peer: Peer) -> None:
    peer.declare("never.acked")
    with Peer(address).connect(1) as reader:
        reader.ask(methods.BasicConsume(queue="never.acked"))
        for _ in range(5):
            publish_many(peer, "never.acked", 20, MIB - 1024)
            for _ in range(20):
                assert len(reader.message()[1]) == MIB - 1024


def test_prefetch_0_on_many_messages_costs_little(address: str, peer: Peer) -> None:
    peer.declare("prefetch.0")
    messages = publish("prefetch.0", b"x") * 1000
    for _ in range(10_000 if LONG else 120):
        peer.send(messages)
        seen(peer, "prefetch.0")
    # It is busy reading for seconds, and sends nothing meanwhile.
    with Peer(address).connect(1, heartbeat_s=0) as reader:
        reader.ask(methods.BasicQos())
        reader.ask(methods.BasicConsume(queue="prefetch.0"))
        for tag in range(1, MAX_UNSETTLED + 1):
            assert reader.message()[0].delivery_tag == tag
        # The next answer shows that nothing else was sent.
        assert reader.ask(methods.BasicQos()) is Bare.BASIC_QOS_OK
        reader.say(methods.BasicAck(delivery_tag=MAX_UNSETTLED, multiple=True))
        assert reader.message()[0].delivery_tag == MAX_UNSETTLED + 1


def test_who_reads_no_answers_is_read_no_more(address: str) -> None:
    with Peer(address, receive_buffer=4096).connect(1) as peer:
        flood(peer, method_frame(1, methods.QueueDeclare(queue="kept", passive=True)) * 10_000)


def test_who_reads_no_returned_messages_is_read_no_more(address: str) -> None:
    with Peer(address, receive_buffer=4096).connect(1) as peer:
        flood(peer, publish("nowhere", bytes(100_000), mandatory=True) * 10)


def test_who_reads_no_messages_that_it_gets_is_given_no_more(address: str, peer: Peer) -> None:
    peer.ask(methods.QueueDeclare(queue="gotten", durable=True))
    publish_many(peer, "gotten", 100, MIB - 1024)
    with Peer(address, receive_buffer=4096).connect(1) as greedy:
        # The first waits for the message before it to be durable, and all others behind it.
        get = method_frame(1, methods.BasicGet(queue="gotten"))
        flood(greedy, publish("gotten", b"x", PERSISTENT) + get * 1000)


@pytest.mark.parametrize("resets", [True, False])
def test_crowds_that_are_in_the_middle_of_a_message_cost_little(
    address: str, *, resets: bool
) -> None:
    begun = a_message(16 * MIB, *[bytes(PART_BYTES)] * 8)
    with contextlib.ExitStack() as stack:
        for _ in range(100):
            peer = stack.enter_context(Peer(address)).connect(1)
            peer.socket.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                peer.socket.send(begun + HEAD.pack(BODY, 1, PART_BYTES))
            if resets:
                peer.reset()


def test_many_begun_messages_of_one_connection_cost_little(server: Process, address: str) -> None:
    with Peer(address).connect(*range(1, 201)) as peer, cut_off(server, peer):
        for channel in range(1, 201):
            begun = a_message(MIB, *[bytes(PART_BYTES)] * 7, channel=channel)
            with contextlib.suppress(OSError):
                peer.send(begun)

        assert closed(peer) == ReplyCode.RESOURCE_ERROR


@pytest.mark.parametrize("confirms", [True, False])
def test_publishing_at_full_speed_does_not_fill_the_memory(peer: Peer, *, confirms: bool) -> None:
    queue = f"fast.{confirms}"
    peer.ask(methods.QueueDeclare(queue=queue, durable=True))
    if confirms:
        peer.ask(methods.ConfirmSelect())
    message = publish(queue, bytes(MIB), PERSISTENT)
    for _ in range(200):
        peer.send(message)
    if confirms:
        confirmed(peer, 200)
    else:
        seen(peer, queue)


def test_transactions_left_open_hold_little(server: Process, peer: Peer) -> None:
    peer.declare("open")
    peer.ask(Bare.TX_SELECT)
    message = publish("open", bytes(MIB))
    with contextlib.suppress(OSError):
        for _ in range(200):
            peer.send(message)

    assert refused(peer) == ReplyCode.PRECONDITION_FAILED


@pytest.mark.parametrize("which", ["unknown", "twice", "of another channel", "none", "all before"])
def test_an_ack_of_what_is_not_out_closes_the_channel(peer: Peer, which: str) -> None:
    peer.ask(methods.ChannelOpen(), channel=2)
    peer.ask(methods.QueueDeclare(queue="acked"))
    peer.ask(methods.QueuePurge(queue="acked"))
    peer.send(publish("acked", b"x"))
    peer.say(methods.BasicGet(queue="acked"))
    tag = peer.message()[0].delivery_tag
    wrong = {"unknown": tag + 1, "none": 0, "all before": tag + 1}.get(which, tag)
    if which == "twice":
        peer.say(methods.BasicAck(tag))
    channel = 2 if which == "of another channel" else 1

    peer.say(methods.BasicAck(wrong, which == "all before"), channel=channel)

    assert refused(peer, channel) == ReplyCode.PRECONDITION_FAILED
    # What was with the channel is in its queue again.
    left = peer.ask(methods.QueuePurge(queue="acked"), channel=3 - channel)
    assert left == methods.QueuePurgeOk(int(which in ("unknown", "none", "all before")))


def test_messages_requeued_again_and_again_do_no_harm(peer: Peer) -> None:
    peer.declare("requeued")
    peer.send(publish("requeued", b"again"))
    peer.ask(methods.BasicConsume(queue="requeued"))
    for before in range(2_000):
        delivery, body = peer.message()
        assert (delivery.redelivered, body) == (before > 0, b"again")
        peer.say(methods.BasicNack(delivery.delivery_tag, False, True))


def test_a_poison_message_is_given_up(peer: Peer) -> None:
    peer.declare("poisoned.dead")
    peer.declare(
        "poisoned",
        delivery_limit=5,
        dead_letter_exchange="",
        dead_letter_routing_key="poisoned.dead",
    )
    peer.send(publish("poisoned", b"poison"))
    peer.ask(methods.BasicConsume(queue="poisoned"))
    for _ in range(6):
        delivery, _ = peer.message()
        peer.say(methods.BasicReject(delivery.delivery_tag, True))

    assert eventually(peer, "poisoned.dead") == b"poison"
