"""The STOMP head on an in-memory broker: frames, topics, queues and responses."""

import pytest
from tests.heads.stomp.sent_frames import (
    bodies,
    delivered,
    message_ids,
    only,
    out,
    prefetch,
    published,
    send,
    unsettled,
)
from tests.heads.stomp.stomp_client import Client, World

from mainstem.broker.queues.records import QueueSettings
from mainstem.core.errors import Failure
from mainstem.core.event import Event
from mainstem.core.topic_settings import Overload, TopicSettings
from mainstem.heads.stomp.adapter.conversation import MAX_PREFETCH, prefetch_of
from mainstem.heads.stomp.adapter.errors import SUMMARIES
from mainstem.heads.stomp.settings import StompSettings


async def test_an_event_has_the_headers_and_the_key_of_its_send(
    world: World, client: Client
) -> None:
    told = await client.asks(
        "SEND",
        b"hello",
        destination="/queue/orders",
        receipt="7",
        content_type="text/plain",
        mainstem_key="k1",
        mainstem_position="7:7",
        mainstem_native="forged",
        correlation_id="c:1",
    )

    assert only(told, "RECEIPT").headers["receipt-id"] == "7"
    (event,) = published(world, "orders")
    assert (event.value, event.key) == (b"hello", b"k1")
    assert event.headers == (("content-type", b"text/plain"), ("correlation-id", b"c:1"))


async def test_a_message_has_the_headers_of_its_event_and_says_where_it_stands(
    world: World, client: Client
) -> None:
    await client.asks("SUBSCRIBE", id="s1", destination="/queue/orders", ack="client")

    forged = (("mainstem-key", b"forged"), ("mainstem-native", b"amqp091\0"))
    headers = (*forged, ("colour", b"red"), ("subscription", b"mine"), ("nothing", None))
    world.broker.publish("orders", [Event(b"x", b"k1", headers, timestamp_ms=5)])
    message = only(await client.rest(), "MESSAGE")

    assert message.body == b"x"
    assert message.headers | {"message-id": "", "ack": ""} == {
        "destination": "/queue/orders",
        "message-id": "",
        "ack": "",
        "redelivered": "false",
        "subscription": "s1",
        "mainstem-key": "k1",
        "mainstem-position": "0:0",
        "colour": "red",
        "nothing": "",
        "timestamp": "5",
        "content-length": "1",
    }


async def test_a_queue_keeps_what_was_sent_before_anybody_subscribed(world: World) -> None:
    sender = await world.client()
    await send(sender, "/queue/orders", "1", "2")

    client = await world.client()
    told = await client.asks("SUBSCRIBE", id="s", destination="/queue/orders", receipt="r")

    assert sorted(each.command for each in told) == ["MESSAGE", "MESSAGE", "RECEIPT"]
    assert bodies(told) == ["1", "2"]
    assert unsettled(world, "orders") == out(world, "orders") == 0


async def test_consumers_of_a_queue_take_turns(world: World) -> None:
    first, second, sender = [await world.client() for _ in range(3)]
    for client in (first, second):
        await client.asks("SUBSCRIBE", id="s", destination="/queue/orders")

    await send(sender, "/queue/orders", "1", "2", "3", "4")

    assert len(bodies(await first.rest())) == len(bodies(await second.rest())) == 2


async def test_every_subscriber_of_a_topic_gets_what_is_sent_from_then_on(world: World) -> None:
    first, second, sender = [await world.client() for _ in range(3)]
    await send(sender, "/topic/news", "old")
    for client in (first, second):
        await client.asks("SUBSCRIBE", id="s", destination="/topic/news")

    await send(sender, "/topic/news", "new")

    assert bodies(await first.rest()) == bodies(await second.rest()) == ["new"]
    assert not world.broker.queues.names()


async def test_what_a_client_sent_before_it_subscribed_is_not_for_it(client: Client) -> None:
    client.say("SEND", b"before", destination="/topic/news")
    client.say("SUBSCRIBE", id="s", destination="/topic/news")
    client.say("SEND", b"after", destination="/topic/news")

    assert bodies(await client.rest()) == ["after"]


@pytest.mark.parametrize(("ack", "left"), [("client", 1), ("client-individual", 2)])
async def test_ack_is_for_all_before_it_or_for_one(
    world: World, client: Client, ack: str, left: int
) -> None:
    await client.asks("SUBSCRIBE", id="s", destination="/queue/orders", ack=ack)
    world.broker.publish("orders", [Event(b"1"), Event(b"2"), Event(b"3")])
    ids = message_ids(await client.rest())

    told = await client.asks("ACK", id=ids[1], receipt="a")

    assert only(told, "RECEIPT").headers["receipt-id"] == "a"
    assert out(world, "orders") == left
    assert only(await client.asks("ACK", id=ids[1]), "ERROR").headers["message"] == (
        "Message not found"
    )


@pytest.mark.parametrize("version", ["1.0", "1.1"])
async def test_older_versions_ack_by_message_id(world: World, version: str) -> None:
    client = await world.client(version)
    message = await delivered(world, client, "orders")

    await client.asks("ACK", message_id=message.headers["message-id"], subscription="s")

    assert "ack" not in message.headers
    assert out(world, "orders") == 0


async def test_1_0_may_subscribe_without_an_id(world: World) -> None:
    client = await world.client("1.0")
    await client.asks("SUBSCRIBE", destination="/queue/orders")
    world.broker.publish("orders", [Event(b"1")])

    assert "subscription" not in only(await client.rest(), "MESSAGE").headers


async def test_nack_brings_the_message_again_and_without_requeue_buries_it(
    world: World, client: Client
) -> None:
    first = await delivered(world, client, "orders", ack="client-individual")

    again = only(await client.asks("NACK", id=first.headers["ack"]), "MESSAGE")
    last = await client.asks("NACK", id=again.headers["ack"], requeue="false")

    assert (first.headers["redelivered"], again.headers["redelivered"]) == ("false", "true")
    assert last == []
    assert [event.value for event in published(world, "orders.dead")] == [b"1"]


async def test_nack_can_be_set_to_bury_as_activemq_does() -> None:
    world = World(StompSettings(nack_requeue=False))
    client = await world.client()
    first = await delivered(world, client, "orders")

    await client.asks("NACK", id=first.headers["ack"])

    assert len(published(world, "orders.dead")) == 1


async def test_prefetch_limits_what_is_unsettled(world: World, client: Client) -> None:
    await prefetch(client, "/queue/orders", 2)
    world.broker.publish("orders", [Event(str(number).encode()) for number in range(5)])

    first = await client.rest()
    then = await client.asks("ACK", id=message_ids(first)[1])

    assert (bodies(first), bodies(then)) == (["0", "1"], ["2", "3"])


async def test_prefetch_limits_followers_of_a_topic_too(world: World, client: Client) -> None:
    await prefetch(client, "/topic/news", 2)
    world.broker.publish("news", [Event(str(number).encode()) for number in range(5)])

    first = await client.rest()
    again = await client.asks("NACK", id=message_ids(first)[1])
    then = await client.asks("ACK", id=message_ids(again)[1])

    assert bodies(first) == bodies(again) == ["0", "1"]
    assert {each.headers["redelivered"] for each in again} == {"true"}
    assert bodies(then) == ["2", "3"]


async def test_a_message_that_retention_has_deleted_does_not_come_again(
    world: World, client: Client
) -> None:
    await prefetch(client, "/topic/news", 1)
    world.broker.publish("news", [Event(b"0"), Event(b"1")])
    (message,) = await client.rest()
    world.broker.trim("news", 0, 1)

    told = await client.asks("NACK", id=message.headers["ack"])

    assert bodies(told) == ["1"]


@pytest.mark.parametrize(
    ("headers", "credit"),
    [
        ({}, 1_000),
        ({"prefetch-count": "5"}, 5),
        ({"activemq.prefetchSize": "7"}, 7),
        ({"prefetch-count": "0"}, MAX_PREFETCH),
        ({"prefetch-count": "999999999"}, MAX_PREFETCH),
    ],
)
def test_no_prefetch_is_without_a_limit(headers: dict[str, str], credit: int) -> None:
    assert prefetch_of(headers, 1_000) == credit


async def test_a_peer_that_does_not_read_is_sent_nothing_more(world: World, client: Client) -> None:
    await client.asks("SUBSCRIBE", id="q", destination="/queue/orders")
    await client.asks("SUBSCRIBE", id="t", destination="/topic/news")
    client.box.is_full = True
    events = [Event(b"x") for _ in range(600)]
    world.broker.publish("orders", events)
    world.broker.publish("news", events)

    first = await client.rest()
    client.box.has_room()
    then = await client.rest()

    assert len(first) == 512
    assert len(first) + len(then) == 1200


async def test_a_session_that_ends_gives_its_messages_back_at_once(world: World) -> None:
    first, second = await world.client(), await world.client()
    await first.asks("SUBSCRIBE", id="s", destination="/queue/orders", ack="client")
    world.broker.publish("orders", [Event(b"1"), Event(b"2")])
    assert bodies(await first.rest()) == ["1", "2"]
    await second.asks("SUBSCRIBE", id="s", destination="/queue/orders", ack="client")

    first.leave()
    told = await second.rest()

    assert bodies(told) == ["1", "2"]
    assert {each.headers["redelivered"] for each in told} == {"true"}


async def test_messages_may_be_acked_after_unsubscribe(world: World, client: Client) -> None:
    message = await delivered(world, client, "orders")
    await client.asks("UNSUBSCRIBE", id="s", receipt="u")
    world.broker.publish("orders", [Event(b"2")])

    told = await client.asks("ACK", id=message.headers["ack"], receipt="a")

    assert only(told, "RECEIPT").headers["receipt-id"] == "a"
    assert (out(world, "orders"), unsettled(world, "orders")) == (0, 1)


@pytest.mark.parametrize("unsubscribes", [False, True])
async def test_what_a_client_works_on_for_long_stays_its_own(
    world: World, client: Client, *, unsubscribes: bool
) -> None:
    world.broker.create_topic("orders")
    world.broker.queues.create("orders", "orders", QueueSettings(lock_ms=3_000))
    message = await delivered(world, client, "orders")
    if unsubscribes:
        await client.asks("UNSUBSCRIBE", id="s")

    for _ in range(10):
        due_ms = client.conversation.deadline()
        assert due_ms is not None
        assert due_ms <= world.now_ms + 5_000
        world.now_ms = min(due_ms, world.now_ms + 1_000)
        client.conversation.tick(world.now_ms)
        world.broker.tick()

    assert await client.rest() == []
    told = await client.asks("ACK", id=message.headers["ack"], receipt="a")
    assert only(told, "RECEIPT").headers["receipt-id"] == "a"


# The end


async def test_disconnect_is_confirmed_and_ends_it(client: Client) -> None:
    client.say("SEND", b"1", destination="/queue/orders")

    told = await client.asks("DISCONNECT", receipt="bye")

    assert only(told, "RECEIPT").headers["receipt-id"] == "bye"
    assert client.box.ended


async def test_who_reads_a_topic_or_queue_that_is_deleted_is_told(world: World) -> None:
    for destination in ("/topic/news", "/queue/news"):
        client = await world.client()
        await client.asks("SUBSCRIBE", id="s", destination=destination)
        world.broker.delete_topic("news")

        error = only(await client.rest(), "ERROR")

        assert error.headers["message"] == "Server cancelled subscription"
        assert "news" in error.body.decode()


async def test_a_full_topic_holds_its_sender_until_there_is_room() -> None:
    world = World(
        defaults=TopicSettings(overload=Overload.BACKPRESSURE, max_backlog=1, hold_ms=60_000)
    )
    client, reader = await world.client(), await world.client()
    await reader.asks("SUBSCRIBE", id="s", destination="/queue/orders", ack="client")
    await send(client, "/queue/orders", "1")
    message = only(await reader.rest(), "MESSAGE")

    held = await client.asks("SEND", b"2", destination="/queue/orders", receipt="r2")
    await reader.asks("ACK", id=message.headers["ack"])
    told = await client.rest()

    assert held == []
    assert only(told, "RECEIPT").headers["receipt-id"] == "r2"


async def test_a_full_topic_that_drops_the_newest_refuses_it() -> None:
    world = World(defaults=TopicSettings(overload=Overload.DROP_NEWEST, max_backlog=1))
    client = await world.client()
    await send(client, "/queue/orders", "1")

    error = only(await client.asks("SEND", b"2", destination="/queue/orders"), "ERROR")

    assert error.headers["message"] == SUMMARIES[Failure.OVERLOADED]


async def test_heart_beats_go_both_ways(world: World) -> None:
    client = await world.client("1.2", heart_beat="1000,1000")

    world.now_ms += 750
    client.box.heard_ms = world.now_ms
    assert client.conversation.tick(world.now_ms) == (b"\n",)
    world.now_ms += 2_000
    error = client.conversation

    with pytest.raises(Exception, match="Heart-beat missed"):
        error.tick(world.now_ms)


def test_every_class_of_failure_has_a_word() -> None:
    assert set(SUMMARIES) == set(Failure)


async def test_refusals_and_messages_are_counted(world: World, client: Client) -> None:
    await client.asks("SUBSCRIBE", id="s", destination="/queue/a")
    await client.asks("SEND", b"1", destination="/queue/a")
    await client.asks("SEND", b"1", destination="nowhere")

    counts = {
        (metric.name, labels): value for metric, (labels, value) in world.service.counts.samples()
    }

    assert counts["mainstem_stomp_messages_total", ()] == 1
    assert counts["mainstem_stomp_errors_total", ("Unknown destination",)] == 1
    assert counts["mainstem_stomp_frames_total", ("SEND",)] == 2
    assert counts["mainstem_stomp_subscriptions", ()] == 0
