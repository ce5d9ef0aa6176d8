"""The header x-delivery-count: how often a message of a quorum queue was delivered before."""

import pytest
from tests.heads.amqp091.amqp_client import NO_PROPERTIES, Client, Told, World

from mainstem.heads.amqp091 import fields, methods
from mainstem.heads.amqp091.adapter.messages import DELIVERY_COUNT
from mainstem.heads.amqp091.properties import Properties


async def quorum(name: str = "q", kind: str = "quorum") -> tuple[World, Client]:
    world = World()
    client = await world.client()
    arguments: fields.Table = {"x-queue-type": kind}
    await client.asks(methods.QueueDeclare(queue=name, durable=True, arguments=arguments))
    return world, client


def counts(told: list[Told]) -> list[object]:
    return [
        (each.headers or {}).get(DELIVERY_COUNT) for each in told if isinstance(each, Properties)
    ]


async def test_a_first_delivery_has_none() -> None:
    _, client = await quorum()
    client.publish("q", b"m")

    told = await client.asks(methods.BasicConsume(queue="q", consumer_tag="c"))

    assert NO_PROPERTIES in told
    assert b"m" in told


@pytest.mark.parametrize("nack", [True, False])
async def test_each_return_is_counted(nack: bool) -> None:
    _, client = await quorum()
    said = Properties(headers={"colour": "red"}, message_id="1")
    client.publish("q", b"m", said)
    told = await client.asks(methods.BasicConsume(queue="q", consumer_tag="c"))

    for number in range(1, 4):
        give_back = methods.BasicNack(number) if nack else methods.BasicReject(number)
        told = await client.asks(give_back)
        assert counts(told) == [number]

    (found,) = [each for each in told if isinstance(each, Properties)]
    assert found == Properties(headers={"colour": "red", DELIVERY_COUNT: 3}, message_id="1")
    # Java clients cast it to Long.
    assert type((found.headers or {})[DELIVERY_COUNT]) is fields.Long


async def test_a_client_that_leaves_counts_and_basic_get_shows_it() -> None:
    world, client = await quorum()
    client.publish("q", b"m", Properties(headers={DELIVERY_COUNT: 70}))
    await client.asks(methods.BasicConsume(queue="q", consumer_tag="c"))
    client.leave()
    other = await world.client()

    assert counts(await other.asks(methods.BasicGet(queue="q"))) == [1]


async def test_after_a_restart_a_redelivery_counts_at_least_once() -> None:
    world, client = await quorum()
    client.publish("q", b"m")
    await client.asks(methods.BasicConsume(queue="q", consumer_tag="c"))
    again = World(log=world.log, crashed=True)

    told = await (await again.client()).asks(methods.BasicGet(queue="q"))

    (get_ok,) = [each for each in told if isinstance(each, methods.BasicGetOk)]
    assert get_ok.redelivered
    assert counts(told) == [1]


async def test_classic_queues_do_not_count() -> None:
    _, client = await quorum(kind="classic")
    client.publish("q", b"m")
    await client.asks(methods.BasicConsume(queue="q", consumer_tag="c"))

    assert counts(await client.asks(methods.BasicNack(1))) == [None]
