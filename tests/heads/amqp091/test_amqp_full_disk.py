"""AMQP consumers while the disk is full: settlements are kept and retried."""

import pytest
from tests.heads.amqp091.amqp_client import Client, Told, World

from mainstem.heads import settlements
from mainstem.heads.amqp091 import methods
from mainstem.heads.amqp091.adapter.queues import deliveries


@pytest.fixture
async def world(monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setattr(settlements, "RETRY_MS", 0)
    monkeypatch.setattr(deliveries, "RETRY_MS", 0)
    return World()


async def consumer(world: World) -> Client:
    """Return a client that was sent three messages."""
    client = await world.client()
    await client.asks(methods.QueueDeclare(queue="q", durable=True))
    for body in (b"1", b"2", b"3"):
        client.publish("q", body)
    assert delivered(await client.asks(methods.BasicConsume(queue="q"))) == FRESH
    return client


FRESH = [(b"1", False), (b"2", False), (b"3", False)]


def delivered(told: list[Told]) -> list[tuple[bytes, bool]]:
    """Return the messages that were delivered, and whether they come again."""
    bodies = [each for each in told if isinstance(each, bytes)]
    flags = [each.redelivered for each in told if isinstance(each, methods.BasicDeliver)]
    return list(zip(bodies, flags, strict=True))


async def test_acknowledgements_count_once_there_is_space(world: World) -> None:
    client, other = await consumer(world), await world.client()
    world.log.is_full = True
    assert await client.asks(methods.BasicAck(2, True)) == []

    world.log.is_full = False
    await client.rest()
    client.leave()

    assert delivered(await other.asks(methods.BasicConsume(queue="q"))) == [(b"3", True)]


async def test_what_is_given_back_comes_again_once_there_is_space(world: World) -> None:
    client = await consumer(world)
    world.log.is_full = True
    assert await client.asks(methods.BasicNack(2, True, True)) == []

    world.log.is_full = False

    assert delivered(await client.rest()) == [(b"1", True), (b"2", True)]


async def test_what_a_client_had_that_went_comes_again_once_there_is_space(world: World) -> None:
    client, other = await consumer(world), await world.client()
    world.log.is_full = True
    client.say(methods.BasicAck(1))
    client.leave()
    assert delivered(await other.asks(methods.BasicConsume(queue="q"))) == []

    world.log.is_full = False

    # What it acknowledged before is settled.
    assert delivered(await other.rest()) == [(b"2", True), (b"3", True)]


async def test_what_a_reopened_channel_has_stays_with_it(world: World) -> None:
    client = await world.client()
    await client.asks(methods.QueueDeclare(queue="q", durable=True))
    for body in (b"1", b"2", b"3", b"4"):
        client.publish("q", body)
    await client.asks(methods.BasicQos(0, 3))
    assert delivered(await client.asks(methods.BasicConsume(queue="q"))) == FRESH
    world.log.is_full = True
    await client.asks(methods.ChannelClose(200, "", 0, 0))
    await client.asks(methods.ChannelOpen())
    assert delivered(await client.asks(methods.BasicConsume(queue="q"))) == [(b"4", False)]

    world.log.is_full = False

    # What the closed channel had is given back only now.
    assert delivered(await client.rest()) == [(b"1", True), (b"2", True), (b"3", True)]


async def test_a_consumer_without_acknowledgements_stays(world: World) -> None:
    client = await world.client()
    await client.asks(methods.QueueDeclare(queue="q", durable=True))
    client.publish("q", b"1")
    world.log.is_full = True
    told = await client.asks(methods.BasicConsume(queue="q", no_ack=True))
    assert delivered(told) == [(b"1", False)]

    world.log.is_full = False
    client.publish("q", b"2")

    assert delivered(await client.rest()) == [(b"2", False)]


async def test_a_message_that_expires_meanwhile_does_not_keep_the_server_busy(
    world: World,
) -> None:
    client, other = await world.client(), await world.client()
    arguments = {"x-message-ttl": 3_000}
    await client.asks(methods.QueueDeclare(queue="q", durable=True, arguments=arguments))
    client.publish("q", b"1")
    assert delivered(await client.asks(methods.BasicConsume(queue="q"))) == [(b"1", False)]
    client.leave()
    world.now_ms += 2_500
    other.publish("q", b"2")
    await other.asks(methods.BasicQos(0, 1))
    world.log.is_full = True
    world.now_ms += 1_000

    # What has expired can be neither delivered nor settled.
    assert delivered(await other.asks(methods.BasicConsume(queue="q"))) == []
    assert world.log.refused < 5

    world.log.is_full = False
    world.now_ms += 1_000
    world.broker.tick()

    assert delivered(await other.rest()) == [(b"2", False)]
