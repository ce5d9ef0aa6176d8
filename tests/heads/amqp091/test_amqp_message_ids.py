"""A message in several queues has one id in all of them, for readers of other protocols."""

from uuid import UUID

from tests.broker.brokers import read_all
from tests.heads.amqp091.amqp_client import NO_PROPERTIES, Client, World

from mainstem.core.event import ID_HEADER
from mainstem.heads.amqp091 import fields, methods
from mainstem.heads.amqp091.properties import Properties


async def fanned_out(*names: str, **arguments: fields.Value) -> tuple[World, Client]:
    world = World()
    client = await world.client()
    delaying: fields.Table = {"x-delayed-type": "fanout"}
    await client.asks(
        methods.ExchangeDeclare(
            exchange="later", type="x-delayed-message", durable=True, arguments=delaying
        )
    )
    for name in names:
        await client.asks(methods.QueueDeclare(queue=name, durable=True, arguments=arguments))
        for exchange in ("amq.fanout", "later"):
            await client.asks(methods.QueueBind(queue=name, exchange=exchange))
    return world, client


def ids(world: World, queue: str) -> list[str | None]:
    found = [dict(each.headers).get(ID_HEADER) for each in read_all(world.broker, queue)]
    return [None if each is None else each.decode() for each in found]


async def test_copies_have_the_same_id_and_each_message_another() -> None:
    world, client = await fanned_out("a", "b")
    for body in (b"1", b"2", b"3"):
        client.publish("", body, exchange="amq.fanout")

    found = ids(world, "a")

    assert found == ids(world, "b")
    assert len(set(found)) == 3
    for each in found:
        assert each is not None
        assert UUID(each).version == 7
        assert UUID(each).int >> 80 == world.now_ms
    # AMQP consumers get what was published.
    assert NO_PROPERTIES in await client.asks(methods.BasicGet(queue="b"))


async def test_a_message_in_one_queue_has_a_position_and_needs_no_id() -> None:
    world, client = await fanned_out("a")
    client.publish("", b"1", Properties(headers={ID_HEADER: "mine"}), exchange="amq.fanout")
    client.publish("a", b"2")

    assert ids(world, "a") == [None, None]


async def test_a_delayed_message_gets_its_id_when_it_is_routed() -> None:
    world, client = await fanned_out("a", "b")
    client.publish("", b"1", Properties(headers={"x-delay": 10}), exchange="later")
    await client.rest()
    world.now_ms += 5_000
    world.broker.tick()

    (found,) = ids(world, "a")

    assert found is not None
    assert ids(world, "b") == [found]


async def test_a_dead_letter_keeps_its_id() -> None:
    world, client = await fanned_out(
        "a", "b", **{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    )
    await client.asks(methods.QueueDeclare(queue="dead", durable=True))
    client.publish("", b"1", exchange="amq.fanout")
    (found,) = ids(world, "a")
    for queue in ("a", "b"):
        await client.asks(methods.BasicConsume(queue=queue))
    await client.asks(methods.BasicNack(0, multiple=True, requeue=False))

    assert found is not None
    assert ids(world, "dead") == [found, found]
