"""Events that claim to be messages of an AMQP client: the server believes its own signature only.

A Kafka producer may write any header, and an AMQP client headers of any name. Forged messages are
delivered as events of another protocol, and neither stop consumers nor timers.
"""

from collections.abc import Callable

import pytest
from tests.broker.brokers import read_all
from tests.heads.amqp091.amqp_client import PERSISTENT, Client, Told, World

from mainstem.core.event import NATIVE_HEADER, Event, Headers
from mainstem.core.topic_settings import TopicSettings
from mainstem.heads.amqp091 import fields, methods
from mainstem.heads.amqp091.adapter.messages import Content, MessageFormat
from mainstem.heads.amqp091.codec import MIN_FRAME_MAX, route_of
from mainstem.heads.amqp091.errors import AmqpError, ReplyCode
from mainstem.heads.amqp091.properties import Properties, decode_properties, encode_properties

DEATHS: list[fields.Value] = [{"queue": "dead", "reason": "expired", "count": fields.Long(7)}]
_MESSAGE = route_of("forged", "forged") + encode_properties(
    Properties(message_id="forged", headers={"x-death": DEATHS})
)
FORGED = {
    "nothing": b"",
    "a prefix": b"amqp091\0",
    "a prefix of a signed message": b"amqp091\1",
    "a route that ends too early": b"amqp091\0\0\1q\xff\xff\xff",
    "a route that goes past the end": b"amqp091\1" + bytes(13) + b"\xffq",
    "an unsigned message": b"amqp091\0" + _MESSAGE,
    "a message signed with zeros": b"amqp091\1" + bytes(13) + _MESSAGE,
    "a dead letter signed with zeros": b"amqp091\1" + bytes(12) + b"\1" + _MESSAGE,
    "a route that is no text": b"amqp091\0" + route_of("", "q").replace(b"q", b"\xff") + b"\0\0",
    "more than a frame holds": b"amqp091\0" + b"\xff" * 300_000,
}
Publish = Callable[[World, Client, bytes], None]


def by_kafka(world: World, client: Client, forged: bytes) -> None:
    del client
    headers = ((NATIVE_HEADER, forged), ("amqp-dead-letter", b"true"), ("amqp-exchange", b"x"))
    event = Event(b"bad", None, headers, timestamp_ms=world.now_ms)
    world.broker.publish("q", [Event(b"before"), event, Event(b"after")], 0)


def by_amqp(world: World, client: Client, forged: bytes) -> None:
    del world
    text = forged[:1000].decode("latin-1")
    headers: fields.Table = {NATIVE_HEADER: text, "amqp-dead-letter": "true", "amqp-exchange": "x"}
    client.publish("q", b"before")
    client.publish("q", b"bad", Properties(headers=headers))
    client.publish("q", b"after")


@pytest.fixture(params=list(FORGED.values()), ids=list(FORGED))
def forged(request: pytest.FixtureRequest) -> bytes:
    found: bytes = request.param
    return found


@pytest.fixture(params=[by_kafka, by_amqp])
def publish(request: pytest.FixtureRequest) -> Publish:
    found: Publish = request.param
    return found


def restarted(world: World) -> World:
    """Return a world with the same log, in which all state was rebuilt."""
    again = World(log=world.log)
    again.now_ms = world.now_ms
    return again


def bodies(told: list[Told]) -> list[bytes]:
    return [each for each in told if isinstance(each, bytes)]


async def declare(client: Client, name: str = "q", dead: str = "", ttl_ms: int = 0) -> None:
    arguments: dict[str, fields.Value] = {"x-message-ttl": ttl_ms} if ttl_ms else {}
    if dead:
        arguments |= {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead}
    (told,) = await client.asks(methods.QueueDeclare(queue=name, durable=True, arguments=arguments))
    assert isinstance(told, methods.QueueDeclareOk), told


async def declare_delaying(client: Client) -> None:
    delaying: fields.Table = {"x-delayed-type": "fanout"}
    await client.asks(
        methods.ExchangeDeclare(
            exchange="later", type="x-delayed-message", durable=True, arguments=delaying
        )
    )


async def got(client: Client, queue: str) -> list[bytes]:
    """Get all messages of a queue."""
    found: list[bytes] = []
    while True:
        told = await client.asks(methods.BasicGet(queue=queue, no_ack=True))
        if not bodies(told):
            return found
        found += bodies(told)


# Delivered


@pytest.mark.parametrize("restarts", [False, True])
async def test_it_is_delivered_with_the_messages_around_it(
    forged: bytes, publish: Publish, restarts: bool
) -> None:
    world = World()
    client = await world.client()
    await declare(client)
    publish(world, client, forged)
    if restarts:
        client = await restarted(world).client()

    told = await client.asks(methods.BasicConsume(queue="q", consumer_tag="c"))

    assert bodies(told) == [b"before", b"bad", b"after"]
    (deliver,) = [each for each in told if isinstance(each, methods.BasicDeliver)][1:2]
    # Older versions stored messages without a signature, so what is well-formed is taken as such.
    is_old = forged == FORGED["an unsigned message"] and publish is by_kafka
    assert (deliver.exchange, deliver.routing_key) == (("forged",) * 2 if is_old else ("", "q"))
    said = [each for each in told if isinstance(each, Properties)][1]
    assert said.message_id == ("forged" if is_old else None)
    await client.asks(methods.BasicAck(0, True))
    client.leave()
    assert world.broker.queues.show("q", "q").windows[0].unsettled == 0 or restarts


async def test_it_can_be_got(forged: bytes, publish: Publish) -> None:
    world = World()
    client = await world.client()
    await declare(client)
    publish(world, client, forged)

    assert await got(client, "q") == [b"before", b"bad", b"after"]


# Dead letters


async def test_it_expires_as_others_do(forged: bytes, publish: Publish) -> None:
    world = World()
    client = await world.client()
    await declare(client, "dead")
    await declare(client, "q", "dead", 10)
    publish(world, client, forged)

    world.now_ms += 5_000
    world.broker.tick()

    assert world.broker.timers.failing() is None
    assert await got(client, "dead") == [b"before", b"bad", b"after"]


async def test_it_can_be_rejected(forged: bytes, publish: Publish) -> None:
    world = World()
    client = await world.client()
    await declare(client, "dead")
    await declare(client, "q", "dead")
    publish(world, client, forged)
    await client.asks(methods.BasicConsume(queue="q", consumer_tag="c"))

    await client.asks(methods.BasicNack(0, multiple=True, requeue=False))

    assert await got(client, "dead") == [b"before", b"bad", b"after"]


@pytest.mark.parametrize("name", ["amqp-dead-letter", "Amqp-Dead-Letter"])
async def test_the_deaths_that_a_publisher_claims_are_not_believed(name: str) -> None:
    world = World()
    client = await world.client()
    await declare(client, "q", "dead", 10)
    await declare(client, "dead")
    client.publish("q", b"m", Properties(headers={"x-death": DEATHS, name: "true"}))

    world.now_ms += 5_000
    world.broker.tick()

    told = await client.asks(methods.BasicGet(queue="dead"))
    assert bodies(told) == [b"m"]
    (said,) = [each for each in told if isinstance(each, Properties)]
    assert said.headers is not None
    deaths = said.headers["x-death"]
    assert isinstance(deaths, list)
    assert [each["queue"] for each in deaths] == ["q"]


# Delayed


@pytest.mark.parametrize("restarts", [False, True])
async def test_it_can_be_delayed(forged: bytes, restarts: bool) -> None:
    world = World()
    client = await world.client()
    await declare_delaying(client)
    await declare(client)
    await client.asks(methods.QueueBind(queue="q", exchange="later"))
    headers: fields.Table = {"x-delay": 100, NATIVE_HEADER: forged[:1000].decode("latin-1")}
    client.publish("", b"bad", Properties(headers=headers), exchange="later")
    client.publish("", b"good", Properties(headers={"x-delay": 200}), exchange="later")
    await client.rest()
    if restarts:
        world = restarted(world)
        client = await world.client()

    world.now_ms += 5_000
    world.broker.tick()

    assert world.broker.timers.failing() is None
    assert world.broker.delays.waiting().events == 0
    assert await got(client, "q") == [b"bad", b"good"]


# What is reserved, and what is believed


async def test_the_servers_headers_are_only_the_servers() -> None:
    world = World()
    client = await world.client()
    await declare(client)
    headers: fields.Table = {
        NATIVE_HEADER: "mine",
        "amqp-exchange": "mine",
        "amqp-routing-key": "mine",
        "amqp-dead-letter": "true",
        "mainstem-key": "mine",
        "expiration": "1",
        "colour": "red",
    }

    client.publish("q", b"m", Properties(headers=headers))

    (unsettled,) = world.broker.queues.peek("q", "q", 1)
    names = [name for name, _ in unsettled.event.headers]
    assert names == ["colour", NATIVE_HEADER]
    # AMQP consumers get them as they were published.
    told = await client.asks(methods.BasicGet(queue="q"))
    assert Properties(headers=headers) in told


async def test_a_header_called_expiration_does_not_expire_a_message() -> None:
    world = World()
    client = await world.client()
    await declare(client)
    client.publish("q", b"m", Properties(headers={"expiration": "1"}))

    world.now_ms += 5_000
    world.broker.tick()

    assert await got(client, "q") == [b"m"]


async def test_messages_are_believed_after_a_restart() -> None:
    world = World()
    client = await world.client()
    await declare(client)
    said = Properties(delivery_mode=2, headers={"table": {"a": 1}})
    client.publish("q", b"m", said)

    client = await restarted(world).client()

    assert said in await client.asks(methods.BasicGet(queue="q"))


async def test_messages_of_older_versions_keep_their_properties() -> None:
    world = World()
    client = await world.client()
    await declare(client)
    stored = Event(b"old", None, ((NATIVE_HEADER, b"amqp091\0" + _MESSAGE),))
    world.broker.publish("q", [stored], 0)

    told = await client.asks(methods.BasicGet(queue="q", no_ack=True))

    (ok,) = [each for each in told if isinstance(each, methods.BasicGetOk)]
    (properties,) = [each for each in told if isinstance(each, Properties)]
    assert (ok.exchange, ok.routing_key) == ("forged", "forged")
    assert properties.message_id == "forged"


async def test_messages_of_another_server_are_not_believed() -> None:
    world, other = World(), World()
    client, writer = await world.client(), await other.client()
    for each in (client, writer):
        await declare(each)
    writer.publish("q", b"m", Properties(message_id="1", headers={"table": {"a": 1}, "b": 2}))
    (copied,) = other.broker.queues.peek("q", "q", 1)
    world.broker.publish("q", [Event(b"m", None, copied.event.headers, timestamp_ms=5_000)])

    told = await client.asks(methods.BasicGet(queue="q"))

    # What all protocols can read is there.
    assert Properties(message_id="1", headers={"b": "2"}, timestamp=5) in told


@pytest.mark.parametrize("at", range(0, 60, 7))
def test_no_byte_can_be_changed(at: int) -> None:
    format_ = MessageFormat(b"s" * 32)
    headers = format_.headers_of(route_of("e", "k"), encode_properties(PERSISTENT))
    assert format_.signed_content(headers) is not None
    name, value = headers[-1]
    assert value is not None
    at %= len(value)

    changed = value[:at] + bytes((value[at] ^ 1,)) + value[at + 1 :]

    assert format_.signed_content(((name, changed),)) is None


async def test_headers_that_do_not_fit_into_a_frame_are_left_out() -> None:
    format_ = MessageFormat(b"s" * 32)
    headers: Headers = (("a", b"1"), ("big", b"x" * MIN_FRAME_MAX), ("message-id", b"7"))
    event = Event(b"", b"k" * MIN_FRAME_MAX, (*headers, ("z", b"\xff")))

    content = format_.content_of(event, "q", MIN_FRAME_MAX)

    assert len(content.properties) <= MIN_FRAME_MAX
    said = decode_properties(content.properties)
    assert (said.message_id, said.headers) == ("7", {"a": "1", "z": b"\xff"})


# Errors of our own


class Failing(MessageFormat):
    """A format with a bug: it fails for the event with the value ``bad``."""

    def __init__(self) -> None:
        super().__init__(b"s" * 32)
        self.fails = True

    def signed_content(self, headers: Headers) -> Content | None:
        """Fail for any event with the header ``bad``."""
        if self.fails and any(name == "bad" for name, _ in headers):
            raise IndexError("a bug")
        return super().signed_content(headers)


BAD = Properties(headers={"bad": "yes"})


async def failing() -> tuple[World, Failing, Client]:
    world = World()
    world.service.messages = broken = Failing()
    client = await world.client()
    await declare(client)
    return world, broken, client


async def test_what_a_failed_consumer_has_taken_goes_to_the_next() -> None:
    world, broken, client = await failing()
    client.publish("q", b"good")
    client.publish("q", b"bad", BAD)
    told = await client.asks(methods.BasicConsume(queue="q", consumer_tag="c"))
    assert told == [methods.BasicConsumeOk("c")]

    broken.fails = False
    other = await world.client()
    told = await other.asks(methods.BasicConsume(queue="q", consumer_tag="d"))

    assert bodies(told) == [b"good", b"bad"]
    # The tags of the first client were never used.
    (error,) = await client.asks(methods.BasicAck(1))
    assert isinstance(error, methods.ChannelClose)


@pytest.mark.parametrize("no_ack", [False, True])
async def test_what_could_not_be_got_is_still_there(no_ack: bool) -> None:
    world, broken, client = await failing()
    client.publish("q", b"bad", BAD)

    client.say(methods.BasicGet(queue="q", no_ack=no_ack))
    (close,) = await client.rest(0)

    assert isinstance(close, methods.ConnectionClose)
    broken.fails = False
    assert await got(await world.client(), "q") == [b"bad"]


async def test_a_dead_letter_that_cannot_be_routed_is_kept_as_a_plain_one() -> None:
    world, _, client = await failing()
    await declare(client, "dead")
    await declare(client, "mortal", "dead", 10)
    client.publish("mortal", b"bad", BAD)
    client.publish("mortal", b"good")

    world.now_ms += 5_000
    world.broker.tick()

    assert world.broker.timers.failing() is None
    assert await got(client, "dead") == [b"good"]
    (letter,) = read_all(world.broker, "mortal.dead")
    assert letter.value == b"bad"
    assert b"a bug" in (dict(letter.headers)["mainstem-reason"] or b"")


async def test_a_delayed_message_that_cannot_be_routed_waits_for_a_server_that_can() -> None:
    world, _, client = await failing()
    await declare_delaying(client)
    await client.asks(methods.QueueBind(queue="q", exchange="later"))
    for body, delay_ms in ((b"bad", 100), (b"good", 200)):
        headers: fields.Table = {"x-delay": delay_ms, body.decode(): "yes"}
        client.publish("", body, Properties(headers=headers), exchange="later")
    await client.rest()

    world.now_ms += 5_000
    for _ in range(3):
        world.broker.tick()

    assert world.broker.timers.failing() is None
    assert await got(client, "q") == [b"good"]
    waiting = world.broker.delays.waiting()
    assert (waiting.events, waiting.failed) == (1, 1)
    again = World(log=world.log)
    again.service.messages = MessageFormat(b"s" * 32)
    again.now_ms = world.now_ms
    client = await again.client()
    again.broker.tick()
    assert await got(client, "q") == [b"bad"]


async def test_a_bug_closes_the_connection() -> None:
    world = World()
    client = await world.client()

    def fail() -> None:
        raise IndexError

    client.conversation.guarded(1, methods.BasicGet.ids, fail)

    (close,) = await client.rest(0)
    assert isinstance(close, methods.ConnectionClose)
    assert close.reply_code == ReplyCode.INTERNAL_ERROR
    assert AmqpError(ReplyCode.INTERNAL_ERROR, "internal error").reply_text == close.reply_text


async def test_a_dead_letter_that_its_target_refuses_is_kept_as_a_plain_one() -> None:
    world = World()
    client = await world.client()
    world.broker.create_topic("small", TopicSettings(max_batch_bytes=1024))
    await client.asks(
        methods.QueueDeclare(queue="little", durable=True, arguments={"x-mainstem-topic": "small"})
    )
    await declare(client, "q", "little")
    client.publish("q", b"x" * 2000)
    client.publish("q", b"good")
    await client.asks(methods.BasicConsume(queue="q", consumer_tag="c"))

    await client.asks(methods.BasicReject(1, requeue=False))
    await client.asks(methods.BasicAck(2))
    client.leave()

    assert world.broker.queues.show("q", "q").windows[0].unsettled == 0
    (letter,) = read_all(world.broker, "q.dead")
    assert letter.value == b"x" * 2000
