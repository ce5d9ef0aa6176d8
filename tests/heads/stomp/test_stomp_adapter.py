"""The STOMP head on an in-memory broker: frames, topics, queues and responses."""

import pytest
from tests.heads.stomp.stomp_client import Client, World

from mainstem.broker.queues.records import QueueSettings
from mainstem.core.errors import Failure
from mainstem.core.event import Event
from mainstem.core.topic_settings import Overload, TopicSettings
from mainstem.heads.stomp.adapter.conversation import MAX_PREFETCH, prefetch_of
from mainstem.heads.stomp.adapter.errors import SUMMARIES
from mainstem.heads.stomp.codec import Frame
from mainstem.heads.stomp.settings import StompSettings


@pytest.fixture
async def world() -> World:
    return World()


@pytest.fixture
async def client(world: World) -> Client:
    return await world.client()


def only(frames: list[Frame], command: str) -> Frame:
    (found,) = frames
    assert found.command == command, found
    return found


def bodies(frames: list[Frame]) -> list[str]:
    return [each.body.decode() for each in frames if each.command == "MESSAGE"]


def message_ids(frames: list[Frame]) -> list[str]:
    return [each.headers["message-id"] for each in frames if each.command == "MESSAGE"]


def published(world: World, topic: str) -> list[Event]:
    return world.broker.follow(topic, 0, 0).take()


def out(world: World, queue: str) -> int:
    """Return how many events of a queue are with clients."""
    return sum(world.broker.queues.show(queue, queue).owners.values())


def unsettled(world: World, queue: str) -> int:
    return sum(each.unsettled for each in world.broker.queues.show(queue, queue).windows)


async def delivered(world: World, client: Client, queue: str, ack: str = "client") -> Frame:
    """Subscribe to a queue, and return the message of the only event in it."""
    await client.asks("SUBSCRIBE", id="s", destination=f"/queue/{queue}", ack=ack)
    world.broker.publish(queue, [Event(b"1")])
    return only(await client.rest(), "MESSAGE")


async def prefetch(client: Client, destination: str, count: int) -> None:
    """Subscribe, with so many messages unsettled at most."""
    headers = {"destination": destination, "prefetch_count": str(count)}
    await client.asks("SUBSCRIBE", id="s", ack="client", **headers)


async def send(client: Client, destination: str, *values: str) -> None:
    for value in values:
        receipt = only(
            await client.asks("SEND", value.encode(), destination=destination, receipt="r"),
            "RECEIPT",
        )
        assert receipt.headers["receipt-id"] == "r"


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


# Destinations


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
