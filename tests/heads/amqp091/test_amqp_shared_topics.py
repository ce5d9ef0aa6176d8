"""Queues on topics of other protocols, whose events AMQP must not delete."""

import pytest
from tests.broker.brokers import read_all, values
from tests.heads.amqp091.raw_peers import frames_in, publish
from tests.heads.amqp091.talking import HANDSHAKE
from tests.heads.started import TOPIC, started
from tests.heads.transport.echo import run

from mainstem.broker.broker import Broker
from mainstem.core.event import Event
from mainstem.heads.amqp091 import HEAD, methods
from mainstem.heads.amqp091.codec import method_frame
from mainstem.heads.amqp091.errors import ReplyCode
from mainstem.heads.amqp091.methods import Method

Declare = methods.QueueDeclare
KINDS: dict[str, Method] = {
    "durable": Declare(queue=TOPIC, durable=True),
    "transient": Declare(queue=TOPIC),
}
OWN: dict[str, tuple[Method, ReplyCode]] = {
    "exclusive": (Declare(queue=TOPIC, exclusive=True), ReplyCode.RESOURCE_LOCKED),
    "auto-delete": (Declare(queue=TOPIC, auto_delete=True), ReplyCode.PRECONDITION_FAILED),
    "x-expires": (
        Declare(queue=TOPIC, durable=True, arguments={"x-expires": 1}),
        ReplyCode.PRECONDITION_FAILED,
    ),
}
CONSUME = methods.BasicConsume(queue=TOPIC, consumer_tag="c")
DELETE = methods.QueueDelete(queue=TOPIC)


def said(*asked: Method) -> bytes:
    frames = (method_frame(1, each) for each in (methods.ChannelOpen(), *asked))
    return HANDSHAKE + b"".join(frames)


async def restarted(broker: Broker) -> None:
    """Start the head once more on what is there."""
    async with started(HEAD, broker=broker):
        pass


def kept(broker: Broker) -> bool:
    """Tell whether the topic has the event of the other protocol."""
    return bool(broker.topics(TOPIC)) and values(read_all(broker, TOPIC))[:1] == [b"theirs"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("asked", [(), (CONSUME,), (DELETE,)], ids=["", "consume", "delete"])
def test_a_queue_that_another_protocol_has_made_keeps_its_events(
    kind: str, asked: tuple[Method, ...]
) -> None:
    async def scenario() -> None:
        async with started(HEAD) as server:
            server.broker.publish(TOPIC, [Event(b"theirs")])
            told = frames_in(await server.talk(said(KINDS[kind], *asked) + publish(TOPIC, b"ours")))
            assert methods.QueueDeclareOk(TOPIC, 1) in [each for _, each in told]
            assert kept(server.broker)
        await restarted(server.broker)
        assert kept(server.broker)

    run("uvloop", scenario)


@pytest.mark.parametrize(("declare", "code"), OWN.values(), ids=OWN)
def test_a_queue_that_another_protocol_has_made_cannot_be_had_for_oneself(
    declare: Method, code: ReplyCode
) -> None:
    async def scenario() -> None:
        async with started(HEAD) as server:
            server.broker.publish(TOPIC, [Event(b"theirs")])
            told = [each for _, each in frames_in(await server.talk(said(declare)))]
            (closed,) = [each for each in told if isinstance(each, methods.ChannelClose)]
            assert closed.reply_code == code
            assert server.broker.queues.settings(TOPIC, TOPIC) is not None
        await restarted(server.broker)
        assert kept(server.broker)

    run("uvloop", scenario)


@pytest.mark.parametrize("kind", [*KINDS, *OWN])
def test_a_topic_that_is_no_queue_is_refused_and_keeps_its_events(kind: str) -> None:
    declare = KINDS[kind] if kind in KINDS else OWN[kind][0]

    async def scenario() -> None:
        async with started(HEAD) as server:
            server.broker.publish(TOPIC, [Event(b"theirs")])
            server.broker.queues.delete(TOPIC, TOPIC)
            told = [each for _, each in frames_in(await server.talk(said(declare)))]
            (closed,) = [each for each in told if isinstance(each, methods.ChannelClose)]
            assert closed.reply_code == ReplyCode.PRECONDITION_FAILED
            assert "x-mainstem-topic" in closed.reply_text
            assert kept(server.broker)
        await restarted(server.broker)
        assert kept(server.broker)

    run("uvloop", scenario)


@pytest.mark.parametrize("restarts", [True, False])
def test_a_queue_of_our_own_goes_with_its_topic(*, restarts: bool) -> None:
    declare = said(Declare(queue="own", durable=True))
    delete = said(methods.QueueDelete(queue="own"))

    async def scenario() -> None:
        async with started(HEAD) as server:
            await server.talk(declare)
            assert server.broker.topics("own")
            if not restarts:
                await server.talk(delete)
        if restarts:
            async with started(HEAD, broker=server.broker) as again:
                await again.talk(delete)
        assert not server.broker.topics("own")

    run("uvloop", scenario)
