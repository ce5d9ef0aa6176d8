"""The destinations that the STOMP head takes, and those that it refuses."""

import pytest
from tests.heads.stomp.sent_frames import (
    bodies,
    only,
    send,
)
from tests.heads.stomp.stomp_client import Client, World

from mainstem.core.event import Event


async def test_a_queue_of_another_topic_is_named_with_two_colons(
    world: World, client: Client
) -> None:
    await client.asks("SUBSCRIBE", id="s", destination="/queue/orders::emails")
    world.broker.publish("orders", [Event(b"1")])

    assert bodies(await client.rest()) == ["1"]
    assert world.broker.queues.names() == {"emails"}


async def test_amq_queue_must_be_there(world: World, client: Client) -> None:
    await send(client, "/queue/orders", "1")

    told = await client.asks("SUBSCRIBE", id="s", destination="/amq/queue/orders")
    error = only(await client.asks("SUBSCRIBE", id="t", destination="/amq/queue/no"), "ERROR")

    assert bodies(told) == ["1"]
    assert error.headers["message"] == "not_found"
    assert [topic.name for topic in world.broker.topics()] == ["orders"]


async def test_replies_come_to_the_temporary_queue_of_a_session(world: World) -> None:
    asking, answering = await world.client(), await world.client()
    await answering.asks("SUBSCRIBE", id="s", destination="/queue/questions")
    asking.say("SEND", b"how?", destination="/queue/questions", reply_to="/temp-queue/mine")
    question = only(await answering.rest(), "MESSAGE")

    await send(answering, question.headers["reply-to"], "so")
    answer = only(await asking.rest(), "MESSAGE")

    assert question.headers["reply-to"].startswith("/reply-queue/")
    assert answer.headers["subscription"] == answer.headers["destination"] == "/temp-queue/mine"
    assert answer.body == b"so"
    assert len(world.broker.topics("stomp.temp.*")) == 1
    asking.leave()
    assert world.broker.topics("stomp.temp.*") == []
    late = await answering.asks("SEND", destination=question.headers["reply-to"])
    assert only(late, "ERROR").headers["message"] == "not_found"


async def test_a_temporary_queue_may_be_subscribed_to_as_in_activemq(client: Client) -> None:
    await client.asks("SUBSCRIBE", id="t", destination="/temp-queue/mine", ack="client")

    told = await client.asks("SEND", b"1", destination="/temp-queue/mine")

    assert only(told, "MESSAGE").headers["subscription"] == "t"


@pytest.mark.parametrize(
    ("destination", "message"),
    [
        ("/queue", "Invalid destination"),
        ("/queue/", "Invalid destination"),
        ("/queue/a/b", "Invalid destination"),
        ("/queue/a::", "Invalid destination"),
        ("/queue/%ff", "Invalid destination"),
        ("/topic/a.*", "Unsupported destination"),
        ("/topic/#", "Unsupported destination"),
        ("/temp-topic/a", "Unsupported destination"),
        ("/temp-queue/unknown", "Invalid destination"),
        ("/exchange/amq.direct/key", "not_found"),
        ("/exchange/", "Invalid destination"),
        ("/somewhere/else", "Unknown destination"),
        ("orders", "Unknown destination"),
        ("/queue/__mainstem_topics", "invalid_request"),
        ("/queue/" + "x" * 300, "invalid_request"),
    ],
)
async def test_a_destination_that_means_nothing_is_refused(destination: str, message: str) -> None:
    client = await World().client()

    error = only(await client.asks("SEND", destination=destination, receipt="r"), "ERROR")

    assert error.headers["message"] == message
    assert error.headers["receipt-id"] == "r"
    assert error.body.strip()
    assert client.box.ended


async def test_without_auto_create_a_topic_must_be_there(world: World) -> None:
    world.context.auto_create = False
    client = await world.client()

    error = only(await client.asks("SEND", destination="/queue/orders"), "ERROR")

    assert error.headers["message"] == "not_found"


@pytest.mark.parametrize(
    ("header", "value"),
    [
        ("selector", "a > 1"),
        ("exclusive", "true"),
        ("activemq.exclusive", "true"),
        ("browser", "true"),
        ("x-message-ttl", "1000"),
        ("x-stream-offset", "first"),
    ],
)
async def test_what_is_not_done_here_is_refused_by_name(header: str, value: str) -> None:
    client = await World().client()

    told = await client.asks("SUBSCRIBE", id="s", destination="/queue/a", **{header: value})

    error = only(told, "ERROR")
    assert error.headers["message"] == "not_implemented"
    assert header.encode() in error.body


async def test_messages_by_a_timetable_are_refused_by_name() -> None:
    client = await World().client()
    client.say_bytes(b"SEND\ndestination:/queue/a\nAMQ_SCHEDULED_CRON:0 * * * *\n\n\0")

    assert b"AMQ_SCHEDULED_CRON" in only(await client.rest(), "ERROR").body


@pytest.mark.parametrize("delay", ["soon", "-1", "1.5", "9" * 13])
async def test_a_delay_is_a_number_of_milliseconds(delay: str) -> None:
    client = await World().client()
    client.say_bytes(f"SEND\ndestination:/queue/a\nAMQ_SCHEDULED_DELAY:{delay}\n\n\0".encode())

    assert b"milliseconds" in only(await client.rest(), "ERROR").body
