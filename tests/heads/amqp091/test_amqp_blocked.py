"""Publishers are blocked at a limit of a queue or of memory, and told so; consumers continue."""

from collections.abc import Sequence

import pytest
from tests.heads.amqp091.amqp_client import PERSISTENT, Client, Told, World
from tests.heads.amqp091.talking import content_header

from mainstem.heads.amqp091 import methods
from mainstem.heads.amqp091.adapter.publishing import incomplete_messages
from mainstem.heads.amqp091.codec import BODY, HEAD, HEADER, method_frame
from mainstem.heads.amqp091.methods import Bare

HELD_MS = 60_000
PART = bytes(1_000)


@pytest.fixture
async def world() -> World:
    return World()


def bodies(told: Sequence[Told]) -> list[bytes]:
    return [each for each in told if isinstance(each, bytes)]


async def with_full_queue(world: World, consumer: Client, publisher: Client) -> None:
    """Leave one unacknowledged message in a queue of at most one, and publish another."""
    await publisher.asks(methods.QueueDeclare(queue="q", durable=True))
    world.broker.alter_topic("q", overload="backpressure", max_backlog=1, hold_ms=HELD_MS)
    await consumer.asks(methods.BasicConsume(queue="q"))
    await publisher.asks(methods.ConfirmSelect())
    publisher.publish("q", b"1", PERSISTENT)
    assert await publisher.rest() == [methods.BasicAck(1)]
    publisher.publish("q", b"2", PERSISTENT)
    assert await publisher.rest(0) == [methods.ConnectionBlocked("a queue is full")]


async def acknowledge(client: Client, tag: int) -> list[Told]:
    """Acknowledge a delivery, which is done when the next request is answered."""
    client.say(methods.BasicAck(tag))
    return await client.asks(methods.BasicQos())


async def test_a_full_queue_blocks_its_publisher_until_a_message_is_acknowledged(
    world: World,
) -> None:
    consumer, publisher = await world.client(), await world.client()
    await with_full_queue(world, consumer, publisher)

    assert bodies(await acknowledge(consumer, 1)) == [b"1", b"2"]

    assert await publisher.rest(0) == [Bare.CONNECTION_UNBLOCKED]


async def test_what_was_published_while_blocked_is_confirmed_and_later_requests_follow(
    world: World,
) -> None:
    consumer, publisher = await world.client(), await world.client()
    await with_full_queue(world, consumer, publisher)
    publisher.say(methods.QueueDeclare(queue="other"))
    assert await publisher.rest() == []

    await acknowledge(consumer, 1)

    assert await publisher.rest() == [methods.BasicAck(2), methods.QueueDeclareOk("other", 0, 0)]


async def test_a_queue_that_stays_full_refuses_the_message_in_the_end(world: World) -> None:
    consumer, publisher = await world.client(), await world.client()
    await with_full_queue(world, consumer, publisher)

    world.now_ms += HELD_MS
    publisher.conversation.stop_waiting()

    assert await publisher.rest() == [methods.BasicNack(2, False, False)]


def begun(size: int, part: bytes) -> bytes:
    """Return a message of a size of which one part has come."""
    return b"".join(
        (
            method_frame(1, methods.BasicPublish(routing_key="q")),
            frame(HEADER, content_header(size)),
            frame(BODY, part),
        )
    )


def frame(kind: int, payload: bytes) -> bytes:
    return HEAD.pack(kind, 1, len(payload)) + payload + b"\xce"


async def test_who_must_wait_for_memory_is_blocked_and_consumers_go_on(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(incomplete_messages, "MAX_BYTES", 2 * len(PART))
    world = World()
    first, second, consumer = [await world.client() for _ in range(3)]
    await first.asks(methods.QueueDeclare(queue="q", durable=True))
    await consumer.asks(methods.BasicConsume(queue="q"))
    first.say_bytes(begun(2 * len(PART), PART))
    second.say_bytes(begun(2 * len(PART), PART))

    second.say_bytes(frame(BODY, PART[1:]))
    assert await second.rest(0) == [methods.ConnectionBlocked(incomplete_messages.REASON)]
    first.say_bytes(frame(BODY, PART))

    assert [len(each) for each in bodies(await consumer.rest())] == [2 * len(PART)]
    assert await second.rest(0) == [Bare.CONNECTION_UNBLOCKED]
    second.say_bytes(frame(BODY, b"x"))
    assert [len(each) for each in bodies(await consumer.rest())] == [2 * len(PART)]
