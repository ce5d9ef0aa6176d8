"""aio-pika, unmodified: robust connections, confirms, iterators, and the server restarted."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import aio_pika
import pytest
from aio_pika.abc import (
    AbstractIncomingMessage,
    AbstractRobustChannel,
    AbstractRobustConnection,
    FieldValue,
)
from aio_pika.exceptions import ChannelNotFoundEntity, ChannelPreconditionFailed, DeliveryError
from aio_pika.patterns import RPC, Master
from tests.faults.killable_server import free_port
from tests.foreign_clients.amqp.pika_client import CONFIG
from tests.foreign_clients.compatibility import AMQP
from tests.in_process_server import server
from tests.loop_thread import PATIENCE_S

from mainstem.node.server import Running

pytestmark = pytest.mark.client("aio-pika", "10.2", AMQP)
SENT = 300


@pytest.fixture
async def channel(running: Running) -> AsyncIterator[AbstractRobustChannel]:
    async with asyncio.timeout(PATIENCE_S):
        connection = await aio_pika.connect_robust(url(running.addresses["amqp"].port))
        async with connection:
            yield await opened(connection)


async def opened(connection: AbstractRobustConnection) -> AbstractRobustChannel:
    channel = await connection.channel(on_return_raises=True)
    assert isinstance(channel, AbstractRobustChannel)
    return channel


def url(port: int) -> str:
    return f"amqp://guest:guest@127.0.0.1:{port}/"


def message(body: bytes, number: int = 0) -> aio_pika.Message:
    headers: dict[str, FieldValue] = {"number": number}
    return aio_pika.Message(body, headers=headers, delivery_mode=aio_pika.DeliveryMode.PERSISTENT)


@pytest.mark.shows("declare", "exchanges, queues, bindings")
@pytest.mark.shows("consume", "queue iterators; prefetch")
async def test_an_exchange_routes_to_a_queue_and_an_iterator_reads_it(
    channel: AbstractRobustChannel,
) -> None:
    exchange = await channel.declare_exchange("logs", aio_pika.ExchangeType.TOPIC, durable=True)
    queue = await channel.declare_queue("logs.kern", durable=True)
    await queue.bind(exchange, "kern.*")
    for number in range(SENT):
        confirmed = await exchange.publish(message(b"%d" % number, number), f"kern.{number}")
        assert confirmed is not None
    found = []
    await channel.set_qos(prefetch_count=20)

    async with queue.iterator() as messages:
        async for each in messages:
            async with each.process():
                found.append((int(each.body), each.headers["number"], each.routing_key))
            if len(found) == SENT:
                break

    assert found == [(number, number, f"kern.{number}") for number in range(SENT)]
    again = await channel.declare_queue("logs.kern", passive=True)
    assert again.declaration_result.message_count == 0


@pytest.mark.shows("publish", "confirms")
@pytest.mark.shows("consume", "get")
async def test_many_are_confirmed_at_once(channel: AbstractRobustChannel) -> None:
    queue = await channel.declare_queue("many", durable=True)
    await asyncio.gather(
        *(
            channel.default_exchange.publish(message(b"%d" % number), "many")
            for number in range(SENT)
        )
    )

    found = [int((await queue.get(no_ack=True)).body) for _ in range(SENT)]

    assert found == list(range(SENT))
    assert await queue.get(fail=False) is None


@pytest.mark.shows("publish", "returns")
async def test_what_goes_nowhere_is_returned(channel: AbstractRobustChannel) -> None:
    with pytest.raises(DeliveryError) as returned:
        await channel.default_exchange.publish(message(b"back"), "nobody", mandatory=True)

    assert returned.value.message is not None
    assert returned.value.message.body == b"back"


@pytest.mark.shows("consume", "requeue, reject")
async def test_who_fails_gives_back_or_rejects(channel: AbstractRobustChannel) -> None:
    queue = await channel.declare_queue("failing", durable=True)
    for body in (b"again", b"never"):
        await channel.default_exchange.publish(message(body), queue.name)
    first, second = await queue.get(), await queue.get()
    for each, requeue in ((first, True), (second, False)):
        with pytest.raises(ZeroDivisionError):
            async with each.process(requeue=requeue):
                raise ZeroDivisionError

    found = await queue.get(no_ack=True)

    assert (found.body, found.redelivered) == (b"again", True)
    assert await queue.get(fail=False) is None


@pytest.mark.shows("dead letters", "rejected, with x-death")
async def test_what_is_rejected_is_a_dead_letter(channel: AbstractRobustChannel) -> None:
    dead = await channel.declare_queue("rejected", durable=True)
    target: dict[str, FieldValue] = {
        "x-dead-letter-exchange": "",
        "x-dead-letter-routing-key": dead.name,
    }
    queue = await channel.declare_queue("rejecting", durable=True, arguments=target)
    await channel.default_exchange.publish(message(b"bad"), queue.name)
    await (await queue.get()).reject()

    found = await dead.get(no_ack=True)

    assert found.body == b"bad"
    assert found.headers["x-first-death-reason"] == "rejected"
    assert found.headers["x-first-death-queue"] == queue.name


@pytest.mark.shows("transactions", "commit, rollback")
async def test_a_transaction_is_seen_when_it_commits(running: Running) -> None:
    connection = await aio_pika.connect_robust(url(running.addresses["amqp"].port))
    async with asyncio.timeout(PATIENCE_S), connection:
        channel = await connection.channel(publisher_confirms=False)
        queue = await channel.declare_queue("tx", durable=True)
        async with channel.transaction():
            await channel.default_exchange.publish(message(b"1"), "tx")
        transaction = channel.transaction()
        await transaction.select()
        await channel.default_exchange.publish(message(b"2"), "tx")
        await transaction.rollback()

        assert (await queue.get(no_ack=True)).body == b"1"
        assert await queue.get(fail=False) is None


async def test_a_channel_that_is_refused_opens_again(channel: AbstractRobustChannel) -> None:
    await channel.declare_queue("there", durable=True)
    with pytest.raises(ChannelPreconditionFailed):
        await channel.declare_queue("there", durable=False)
    await channel.reopen()
    with pytest.raises(ChannelNotFoundEntity):
        await channel.get_queue("missing")
    await channel.reopen()

    assert (await channel.get_queue("there")).name == "there"


@pytest.mark.shows("consume", "patterns.RPC")
async def test_remote_procedure_calls(channel: AbstractRobustChannel) -> None:
    async def add(*, left: int, right: int) -> int:
        return left + right

    rpc = await RPC.create(channel)
    await rpc.register("add", add, auto_delete=True)

    sums = await asyncio.gather(*(rpc.proxy.add(left=n, right=n) for n in range(20)))

    assert sums == [2 * number for number in range(20)]
    await rpc.close()


@pytest.mark.shows("consume", "patterns.Master")
async def test_master_and_worker(channel: AbstractRobustChannel) -> None:
    done: asyncio.Queue[int] = asyncio.Queue()

    async def work(*, number: int) -> None:
        await done.put(number)

    master = Master(channel)
    worker = await master.create_worker("tasks", work, durable=True)
    for number in range(10):
        await master.create_task("tasks", {"number": number})

    assert [await done.get() for _ in range(10)] == list(range(10))
    await worker.close()


@pytest.mark.shows("consume", "robust connections survive a restart of the server")
async def test_a_robust_connection_goes_on_when_the_server_is_back(tmp_path: Path) -> None:
    """Durable and transient things are declared anew, consumers begin again."""
    port = free_port()
    config = CONFIG.listening(amqp=f"127.0.0.1:{port}")
    received: asyncio.Queue[AbstractIncomingMessage] = asyncio.Queue()
    again = asyncio.Event()

    async with asyncio.timeout(PATIENCE_S):
        with server(tmp_path, config=config):
            connection = await aio_pika.connect_robust(url(port), reconnect_interval=0.05)
            connection.reconnect_callbacks.add(lambda *_: again.set())
            channel = await opened(connection)
            exchange = await channel.declare_exchange("passing", "fanout")
            queue = await channel.declare_queue("kept", durable=True)
            await queue.bind(exchange)
            await exchange.publish(message(b"before"), "")
            await queue.consume(received.put)
            first = await received.get()
        with server(tmp_path, config=config):
            await again.wait()
            await exchange.publish(message(b"after"), "")
            second, third = await received.get(), await received.get()
            for each in (second, third):
                await each.ack()
            left = await (await opened(connection)).declare_queue("kept", passive=True)
            await connection.close()

    # It was not acknowledged when the server stopped.
    assert [first.body, second.body, third.body] == [b"before", b"before", b"after"]
    assert [each.redelivered for each in (first, second, third)] == [False, True, False]
    assert left.declaration_result.message_count == 0
