"""Many AMQP queues: the counted cost of opening, idling and publishing."""

from collections import Counter
from collections.abc import Callable

import pytest
from tests.heads.amqp091.amqp_client import (
    NO_PROPERTIES,
    PERSISTENT,
    Client,
    UnseenLog,
    World,
)
from tests.heads.amqp091.talking import publish_frames
from tests.heads.contexts import context_on

from mainstem.broker.broker import Broker
from mainstem.broker.publishing import batching
from mainstem.core.records import build_one
from mainstem.heads.amqp091 import methods
from mainstem.heads.amqp091.adapter.service import Service
from mainstem.heads.amqp091.properties import Properties, encode_properties
from mainstem.heads.amqp091.session import RUN_BYTES
from mainstem.heads.amqp091.settings import AmqpSettings

FEW, MANY = 20, 80


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often the log was asked for anything."""
    counts: Counter[str] = Counter()

    def count(name: str, real: Callable[..., object]) -> Callable[..., object]:
        def counted(*arguments: object, **named: object) -> object:
            counts[name] += 1
            return real(*arguments, **named)

        return counted

    for name in ("append", "bounds", "read", "watch"):
        monkeypatch.setattr(UnseenLog, name, count(name, getattr(UnseenLog, name)))
    monkeypatch.setattr(batching, "build_one", count("encoded", build_one))
    return counts


async def with_queues(count: int) -> tuple[World, Client]:
    """Return a world with so many queues, all bound to one exchange."""
    world = World()
    client = await world.client()
    for number in range(count):
        await client.asks(methods.QueueDeclare(queue=f"q{number}", durable=True))
        bind = methods.QueueBind(queue=f"q{number}", exchange="amq.fanout")
        await client.asks(bind)
    return world, client


async def test_opening_many_queues_asks_the_log_for_nothing_of_each(calls: Counter[str]) -> None:
    asked = []
    for count in (FEW, MANY):
        world, _ = await with_queues(count)
        calls.clear()

        broker = Broker(world.log, world._now, monotonic_ms=world._now)
        service = Service(context_on(broker, world._now), AmqpSettings(), world._now)

        assert len(list(service.queues)) == count
        asked.append(calls.copy())
        assert calls["append"] == 0
    few, many = asked
    assert many["bounds"] == few["bounds"]
    assert many["watch"] == few["watch"]


async def test_a_tick_with_many_idle_queues_asks_the_log_for_nothing(
    calls: Counter[str],
) -> None:
    world, _ = await with_queues(MANY)
    while (wait_ms := world.broker.wait_ms()) is not None:
        world.now_ms += wait_ms
        world.broker.tick()
    calls.clear()

    for _ in range(10):
        world.now_ms += 60_000
        world.broker.tick()

    assert world.broker.wait_ms() is None
    assert calls == {}


async def test_a_message_for_many_queues_is_encoded_once_and_appended_once(
    calls: Counter[str],
) -> None:
    _, client = await with_queues(MANY)
    await client.asks(methods.ConfirmSelect())
    calls.clear()

    client.publish("", b"to all", PERSISTENT, exchange="amq.fanout")

    assert await client.rest() == [methods.BasicAck(1)]
    assert (calls["append"], calls["encoded"]) == (1, 1)
    for number in (0, 1, MANY - 1):
        declared = await client.asks(methods.QueueDeclare(queue=f"q{number}", passive=True))
        assert declared == [methods.QueueDeclareOk(f"q{number}", 1, 0)]


async def test_large_messages_that_are_read_together_share_an_append(calls: Counter[str]) -> None:
    _, client = await with_queues(1)
    frames = b"".join(
        b"".join(publish_frames(1, "q0", bytes(1_000), encode_properties(PERSISTENT)))
        for _ in range(100)
    )
    assert len(frames) > RUN_BYTES
    # The first run is short, as nothing is known of the server's speed.
    client.say_bytes(frames)
    calls.clear()

    client.say_bytes(frames)

    assert calls["append"] == 1


async def test_a_remembered_route_ends_with_its_queue() -> None:
    _, client = await with_queues(2)
    client.publish("q0", b"1")
    client.publish("q0", b"2")
    await client.asks(methods.QueueDelete(queue="q0"))
    await client.asks(methods.QueueDeclare(queue="q0", durable=True))
    client.publish("q0", b"3")
    client.publish("", b"4", exchange="amq.fanout")
    await client.asks(methods.QueueBind(queue="q0", exchange="amq.fanout"))
    client.publish("", b"5", exchange="amq.fanout")

    for queue, bodies in (("q0", [b"3", b"5"]), ("q1", [b"4", b"5"])):
        for body in bodies:
            answer = await client.asks(methods.BasicGet(queue=queue, no_ack=True))
            assert answer[-1] == body
        assert await client.asks(methods.BasicGet(queue=queue)) == [methods.BasicGetEmpty()]


@pytest.mark.parametrize("delivery", [NO_PROPERTIES, PERSISTENT])
async def test_a_large_message_for_many_queues_is_one_append_and_encoded_once(
    calls: Counter[str], delivery: Properties
) -> None:
    world, client = await with_queues(MANY)
    calls.clear()

    client.publish("", b"x" * 1_000_000, delivery, exchange="amq.fanout")
    await client.rest()

    assert (calls["append"], calls["encoded"]) == (1, 1)
    assert {world.broker.bounds(f"q{at}", 0).end for at in range(MANY)} == {1}
