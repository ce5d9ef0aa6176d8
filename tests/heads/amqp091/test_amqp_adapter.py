"""The AMQP head on an in-memory broker: requests and responses."""

import pytest
from tests.heads.amqp091.amqp_client import PERSISTENT, Client, Told, World

from mainstem.heads.amqp091 import methods
from mainstem.heads.amqp091.methods import Bare, Method
from mainstem.heads.amqp091.properties import Properties


@pytest.fixture
async def world() -> World:
    return World()


def bodies(told: list[Told]) -> list[bytes]:
    return [each for each in told if isinstance(each, bytes)]


def closed(told: list[Told]) -> methods.ChannelClose:
    """Return how the channel was closed."""
    (found,) = told
    assert isinstance(found, methods.ChannelClose)
    return found


async def test_an_exclusive_queue_is_declared_again_right_after_its_connection_has_closed(
    world: World, client: Client
) -> None:
    declare = methods.QueueDeclare(queue="mine", exclusive=True)
    assert await client.asks(declare) == [methods.QueueDeclareOk("mine", 0, 0)]
    other = await world.client()

    world.log.late = True
    assert await client.asks(methods.ConnectionClose(), 0) == [Bare.CONNECTION_CLOSE_OK]
    told = await other.asks(declare)
    world.log.settle()
    told += await other.rest()
    world.log.settle()
    told += await other.rest()

    assert told == [methods.QueueDeclareOk("mine", 0, 0)]


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        (methods.ExchangeDeclare(exchange="e", durable=True), Bare.EXCHANGE_DECLARE_OK),
        (methods.ExchangeDeclare(exchange="e", passive=True), Bare.EXCHANGE_DECLARE_OK),
        (methods.QueueDeclare(queue="q", durable=True), methods.QueueDeclareOk("q", 0, 0)),
        (methods.QueueDeclare(queue="q", passive=True), methods.QueueDeclareOk("q", 0, 0)),
        (methods.QueueBind(queue="q", exchange="e", routing_key="k"), Bare.QUEUE_BIND_OK),
        (methods.QueueUnbind(queue="q", exchange="e", routing_key="x"), Bare.QUEUE_UNBIND_OK),
        (methods.ExchangeDelete(exchange="x"), Bare.EXCHANGE_DELETE_OK),
        (methods.QueueDelete(queue="x"), methods.QueueDeleteOk(0)),
    ],
    ids=str,
)
async def test_what_others_have_just_declared_or_deleted_is_durable_when_that_is_said(
    world: World, client: Client, asked: Method, answer: Told
) -> None:
    other = await world.client()
    world.log.late = True
    client.say(methods.QueueDeclare(queue="q", durable=True))
    client.say(methods.ExchangeDeclare(exchange="e", durable=True))
    client.say(methods.QueueBind(queue="q", exchange="e", routing_key="k"))
    await client.rest()
    world.log.settle()
    client.say(methods.QueueUnbind(queue="q", exchange="e", routing_key="k"))
    client.say(methods.QueueBind(queue="q", exchange="e", routing_key="k"))
    await client.rest()

    assert await other.asks(asked) == []

    world.log.settle()
    assert answer in await other.rest()


async def test_requests_behind_one_that_waits_for_the_disk_are_carried_out_after_it(
    world: World, client: Client
) -> None:
    await client.asks(methods.QueueDeclare(queue="q", durable=True))

    world.log.late = True
    client.publish("q", b"1", PERSISTENT)
    client.say(methods.QueuePurge(queue="q"))
    client.publish("q", b"2", PERSISTENT)
    assert await client.rest() == []
    world.log.settle()
    assert await client.rest() == []
    world.log.settle()
    assert await client.rest() == [methods.QueuePurgeOk(1)]

    assert bodies(await client.asks(methods.BasicGet(queue="q", no_ack=True))) == [b"2"]


async def test_a_dead_letter_is_found_right_after_its_message_was_rejected(
    world: World, client: Client
) -> None:
    await client.asks(methods.QueueDeclare(queue="dead", durable=True))
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    await client.asks(methods.QueueDeclare(queue="q", durable=True, arguments=arguments))
    client.publish("q", b"1")
    await client.asks(methods.BasicGet(queue="q"))

    world.log.late = True
    client.say(methods.BasicReject(1, requeue=False))
    client.say(methods.BasicGet(queue="dead", no_ack=True))
    world.log.settle()

    assert bodies(await client.rest()) == [b"1"]


async def test_what_was_published_is_found_by_another_connection_once_it_is_confirmed(
    world: World, client: Client
) -> None:
    other = await world.client()
    await client.asks(methods.QueueDeclare(queue="q", durable=True))
    await client.asks(methods.ConfirmSelect())

    world.log.late = True
    client.publish("q", b"1")
    assert await client.rest() == [methods.BasicAck(1)]

    assert await other.asks(methods.BasicGet(queue="q", no_ack=True)) == []
    world.log.settle()
    assert bodies(await other.rest()) == [b"1"]


@pytest.mark.parametrize(
    ("method", "code"),
    [
        (methods.QueueDeclare(queue="none", passive=True), 404),
        (methods.ExchangeDeclare(exchange="none", passive=True), 404),
        (methods.ExchangeDeclare(exchange="x", type="no-such-type"), 406),
        (methods.BasicGet(queue="none"), 404),
        (methods.BasicConsume(queue="none"), 404),
        (methods.QueueBind(queue="none", exchange="amq.direct"), 404),
        (methods.BasicAck(7), 406),
        (methods.BasicNack(7), 406),
        (methods.BasicReject(7), 406),
        (Bare.TX_COMMIT, 406),
    ],
)
async def test_a_channel_is_closed_with_the_ids_of_the_method_that_was_refused(
    client: Client, method: Method | Bare, code: int
) -> None:
    close = closed(await client.asks(method))

    assert (close.reply_code, close.class_id, close.method_id) == (code, *method.ids)


async def test_a_message_to_an_exchange_that_is_not_there_closes_the_channel(
    client: Client,
) -> None:
    client.publish("key", b"1", exchange="none")
    close = closed(await client.rest())

    assert (close.reply_code, close.class_id, close.method_id) == (404, *methods.BasicPublish.ids)


async def test_a_consumer_with_credit_comes_before_a_get_and_a_count(
    client: Client, world: World
) -> None:
    await client.asks(methods.QueueDeclare(queue="q"))
    await client.asks(methods.BasicConsume(queue="q", consumer_tag="c"))

    client.publish("q", b"1")
    client.say(methods.BasicGet(queue="q"))
    told = await client.rest()

    assert isinstance(told[0], methods.BasicDeliver)
    assert told[-1] == methods.BasicGetEmpty("")
    client.publish("q", b"2")
    client.say(methods.QueueDeclare(queue="q", passive=True))
    assert methods.QueueDeclareOk("q", 0, 1) in await client.rest()


@pytest.mark.parametrize("tag", [1, 2, 4])
async def test_deliveries_up_to_a_tag_that_is_not_out_cannot_be_settled(
    client: Client, tag: int
) -> None:
    await client.asks(methods.QueueDeclare(queue="q"))
    for _ in range(3):
        client.publish("q", b"1")
        await client.asks(methods.BasicGet(queue="q"))
    assert await client.asks(methods.BasicAck(2, multiple=True)) == []

    close = closed(await client.asks(methods.BasicNack(tag, multiple=True)))

    assert close.reply_text == f"PRECONDITION_FAILED - unknown delivery tag {tag}"


async def test_all_deliveries_may_be_settled_though_none_is_out(client: Client) -> None:
    assert await client.asks(methods.BasicAck(0, multiple=True)) == []


async def test_a_consumer_without_acknowledgements_waits_for_a_full_channel(
    client: Client,
) -> None:
    for queue in ("q", "r"):
        await client.asks(methods.QueueDeclare(queue=queue))
    await client.asks(methods.BasicQos(prefetch_count=1, is_global=True))
    await client.asks(methods.BasicConsume(queue="q", consumer_tag="c"))
    await client.asks(methods.BasicConsume(queue="r", consumer_tag="d", no_ack=True))

    for body in (b"1", b"2"):
        client.publish("r", body)
        assert bodies(await client.rest()) == [body]
    client.publish("q", b"3")
    client.publish("r", b"4")
    client.publish("r", b"5")
    assert bodies(await client.rest()) == [b"3"]
    assert bodies(await client.asks(methods.BasicAck(3))) == [b"4", b"5"]


async def test_the_name_under_which_a_channel_is_answered_is_a_queue_to_others(
    world: World, client: Client
) -> None:
    await client.asks(methods.QueueDeclare(queue="q"))
    await client.asks(methods.BasicConsume(queue="amq.rabbitmq.reply-to", no_ack=True))
    client.publish("q", b"1", Properties(reply_to="amq.rabbitmq.reply-to"))
    told = await client.asks(methods.BasicGet(queue="q"))
    (name,) = (each.reply_to for each in told if isinstance(each, Properties))
    assert name is not None

    other = await world.client()
    assert await other.asks(methods.QueueDeclare(queue=name, passive=True)) == [
        methods.QueueDeclareOk(name, 0, 1)
    ]
    close = closed(await other.asks(methods.QueueDeclare(queue=name + "x")))
    assert (close.reply_code, close.reply_text) == (
        404,
        f"NOT_FOUND - no queue '{name}x' in vhost '/'",
    )


async def test_what_cannot_be_routed_is_returned_when_its_transaction_is_committed(
    client: Client,
) -> None:
    await client.asks(Bare.TX_SELECT)
    client.publish("none", b"1", mandatory=True)
    assert await client.rest() == []
    assert await client.asks(Bare.TX_ROLLBACK) == [Bare.TX_ROLLBACK_OK]

    client.publish("none", b"2", mandatory=True)
    told = await client.asks(Bare.TX_COMMIT)

    assert isinstance(told[0], methods.BasicReturn)
    assert bodies(told) == [b"2"]
    assert told[-1] == Bare.TX_COMMIT_OK
