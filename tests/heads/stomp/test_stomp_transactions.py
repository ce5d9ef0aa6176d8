"""Transactions and durable subscriptions of the STOMP head on a broker in memory."""

import pytest
from tests.heads.stomp.sent_frames import (
    bodies,
    delivered,
    only,
    out,
    published,
    send,
)
from tests.heads.stomp.stomp_client import Client, World

from mainstem.core.errors import Failure
from mainstem.core.topic_settings import TopicSettings
from mainstem.heads.stomp.adapter.errors import SUMMARIES

# Transactions


async def test_what_is_in_a_transaction_happens_with_its_commit(
    world: World, client: Client
) -> None:
    message = await delivered(world, client, "in")
    client.say("BEGIN", transaction="t")
    client.say("SEND", b"a", destination="/queue/out", transaction="t", receipt="1")
    client.say("SEND", b"b", destination="/topic/out2", transaction="t")
    client.say("ACK", id=message.headers["ack"], transaction="t", receipt="2")
    assert await client.rest() == []
    assert out(world, "in") == 1

    told = await client.asks("COMMIT", transaction="t", receipt="3")

    assert [each.headers["receipt-id"] for each in told] == ["1", "2", "3"]
    assert out(world, "in") == 0
    assert [event.value for event in published(world, "out")] == [b"a"]
    assert [event.value for event in published(world, "out2")] == [b"b"]


async def test_nothing_of_a_transaction_happens_if_one_part_is_refused() -> None:
    world = World(defaults=TopicSettings(max_batch_bytes=1024))
    client = await world.client()
    client.say("BEGIN", transaction="t")
    client.say("SEND", b"a", destination="/queue/out", transaction="t")
    client.say("SEND", b"x" * 2000, destination="/queue/out", transaction="t")

    error = only(await client.asks("COMMIT", transaction="t", receipt="3"), "ERROR")

    assert error.headers["message"] == SUMMARIES[Failure.TOO_LARGE]
    assert error.headers["receipt-id"] == "3"
    assert published(world, "out") == []


async def test_nothing_of_an_aborted_transaction_happens(world: World, client: Client) -> None:
    message = await delivered(world, client, "in")
    client.say("BEGIN", transaction="t")
    client.say("SEND", b"a", destination="/queue/in", transaction="t", receipt="1")
    client.say("ACK", id=message.headers["ack"], transaction="t")

    told = await client.asks("ABORT", transaction="t", receipt="2")

    assert [each.headers["receipt-id"] for each in told] == ["1", "2"]
    assert len(published(world, "in")) == 1
    await client.asks("ACK", id=message.headers["ack"])
    assert out(world, "in") == 0


# Durable subscriptions


@pytest.mark.parametrize("header", ["durable", "persistent"])
async def test_a_durable_subscription_stays_until_it_is_unsubscribed_as_durable(
    world: World, client: Client, header: str
) -> None:
    await send(client, "/topic/news", "old")
    durable = {header: "true"}
    await client.asks("SUBSCRIBE", id="reader", destination="/topic/news", **durable)
    await client.asks("UNSUBSCRIBE", id="reader")
    await send(client, "/topic/news", "1")

    told = await client.asks("SUBSCRIBE", id="reader", destination="/topic/news", **durable)
    await client.asks("UNSUBSCRIBE", id="reader", **durable)
    await send(client, "/topic/news", "2")

    assert bodies(told) == ["1"]
    assert not world.broker.queues.names()
    assert await client.asks("SUBSCRIBE", id="reader", destination="/topic/news", **durable) == []


async def test_activemq_names_a_durable_subscription_by_client_id_and_name(world: World) -> None:
    client = await world.client(client_id="app")
    named = {"activemq.subscriptionName": "audit"}
    await client.asks("SUBSCRIBE", id="1", destination="/topic/news", **named)
    assert world.broker.queues.names() == {"app.audit"}

    await client.asks("UNSUBSCRIBE", id="1", **named)

    assert not world.broker.queues.names()


async def test_a_durable_subscription_needs_a_name(world: World) -> None:
    client = await world.client("1.0")
    error = only(await client.asks("SUBSCRIBE", destination="/topic/news", durable="true"), "ERROR")
    assert error.headers["message"] == "Missing Header"

    nameless = await world.client()
    named = {"activemq.subscriptionName": "audit"}
    told = await nameless.asks("SUBSCRIBE", id="1", destination="/topic/news", **named)
    assert b"client-id" in only(told, "ERROR").body
