"""pika, unmodified: queues by their arguments: limits, dead letters, expiry, one consumer."""

from collections.abc import Callable
from functools import partial
from itertools import count
from typing import NamedTuple

import pika  # type: ignore[import-untyped]
import pytest
from pika.adapters.blocking_connection import (  # type: ignore[import-untyped]
    BlockingChannel,
    BlockingConnection,
)
from pika.exceptions import ChannelClosedByBroker, NackError  # type: ignore[import-untyped]
from tests.foreign_clients.amqp.pika_client import channel_of, waiting
from tests.foreign_clients.compatibility import AMQP
from tests.loop_thread import PATIENCE_S

from mainstem.node.server import Running

pytestmark = pytest.mark.client("pika", "1.4", AMQP)
_names = count(1)


class Message(NamedTuple):
    """A message as pika hands it out."""

    tag: int
    redelivered: bool
    headers: dict[str, object]
    body: bytes

    @property
    def deaths(self) -> list[tuple[object, object, object]]:
        """Where it has been, and why."""
        found = self.headers.get("x-death", [])
        assert isinstance(found, list)
        return [(each["queue"], each["reason"], each["count"]) for each in found]


@pytest.fixture
def connection(channel: BlockingChannel) -> BlockingConnection:
    return channel.connection


def declared(channel: BlockingChannel, **arguments: object) -> str:
    """Declare a queue; names of arguments begin with x- and have dashes."""
    name = f"queue-{next(_names)}"
    given = {f"x-{key.replace('_', '-')}": value for key, value in arguments.items()}
    channel.queue_declare(name, durable=True, arguments=given)
    return name


def publish(channel: BlockingChannel, queue: str, body: bytes, **properties: object) -> None:
    given = pika.BasicProperties(delivery_mode=2, **properties)
    channel.basic_publish("", queue, body, given)


def consumed(channel: BlockingChannel, queue: str) -> Message:
    """Wait for the next message; it is not acknowledged."""
    for method, properties, body in channel.consume(queue, inactivity_timeout=PATIENCE_S):
        assert method is not None, "nothing came"
        found = Message(
            method.delivery_tag, method.redelivered, dict(properties.headers or {}), body
        )
        break
    channel.cancel()
    return found


def consumed_thrice(
    channel: BlockingChannel, queue: str, refuse: Callable[[int], None]
) -> list[Message]:
    """Consume a message and refuse it, three times."""
    found = []
    for _ in range(3):
        found.append(consumed(channel, queue))
        refuse(found[-1].tag)
    return found


@pytest.mark.shows("dead letters", "expired")
def test_what_expires_goes_to_the_dead_letter_exchange_though_nobody_consumes(
    channel: BlockingChannel,
) -> None:
    channel.exchange_declare("dlx", "fanout", durable=True)
    dead = declared(channel)
    channel.queue_bind(dead, "dlx")
    queue = declared(channel, message_ttl=50, dead_letter_exchange="dlx")

    publish(channel, queue, b"late", headers={"colour": "red"})
    letter = consumed(channel, dead)
    channel.basic_ack(letter.tag)

    assert letter.body == b"late"
    assert letter.headers["colour"] == "red"
    assert letter.deaths == [(queue, "expired", 1)]
    assert letter.headers["x-first-death-reason"] == "expired"
    assert waiting(channel, queue) == 0


def test_deaths_that_a_publisher_claims_are_not_counted_as_in_rabbitmq_4(
    channel: BlockingChannel,
) -> None:
    dead = declared(channel)
    queue = declared(channel, dead_letter_exchange="", dead_letter_routing_key=dead)
    claimed = {
        "x-death": [
            {"queue": queue, "reason": "expired", "count": 7},
            {"queue": dead, "reason": "expired", "count": 1},
        ]
    }

    publish(channel, queue, b"again", expiration="20", headers=claimed)
    letter = consumed(channel, dead)
    channel.basic_ack(letter.tag)

    # Else it would be 8, and be dropped as a cycle.
    assert letter.deaths == [(queue, "expired", 1)]


@pytest.mark.shows("publish", "time to live")
def test_a_message_has_a_time_to_live_of_its_own(channel: BlockingChannel) -> None:
    dead = declared(channel)
    queue = declared(channel, dead_letter_exchange="", dead_letter_routing_key=dead)

    publish(channel, queue, b"late", expiration="20")
    letter = consumed(channel, dead)
    channel.basic_ack(letter.tag)

    assert letter.deaths == [(queue, "expired", 1)]
    deaths = letter.headers["x-death"]
    assert isinstance(deaths, list)
    assert deaths[0]["original-expiration"] == "20"


@pytest.mark.parametrize("of_queue", [True, False])
def test_a_time_to_live_of_0_expires_unless_a_consumer_waits(
    channel: BlockingChannel, of_queue: bool
) -> None:
    dead = declared(channel)
    limits = {"message_ttl": 0} if of_queue else {}
    properties = {} if of_queue else {"expiration": "0"}
    queue = declared(channel, dead_letter_exchange="", dead_letter_routing_key=dead, **limits)
    received: list[tuple[int, bytes]] = []

    publish(channel, queue, b"nobody waits", **properties)
    first = consumed(channel, dead)
    channel.basic_ack(first.tag)
    channel.basic_consume(
        queue, lambda _, method, __, body: received.append((method.delivery_tag, body))
    )
    publish(channel, queue, b"somebody waits", **properties)
    while not received:
        channel.connection.process_data_events(PATIENCE_S)
    ((tag, body),) = received
    channel.basic_reject(tag, requeue=True)
    requeued = consumed(channel, dead)

    assert first.body == b"nobody waits"
    assert body == requeued.body == b"somebody waits"
    assert requeued.deaths == [(queue, "expired", 1)]
    assert len(received) == 1


@pytest.mark.shows("dead letters", "rejected, with x-death")
def test_what_is_rejected_is_tried_again_through_a_queue_that_waits(
    channel: BlockingChannel,
) -> None:
    name = f"work-{next(_names)}"
    channel.queue_declare(
        name,
        arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": f"{name}.retry"},
    )
    channel.queue_declare(
        f"{name}.retry",
        arguments={
            "x-dead-letter-exchange": "",
            "x-dead-letter-routing-key": name,
            "x-message-ttl": 20,
        },
    )
    publish(channel, name, b"again")
    messages = consumed_thrice(channel, name, partial(channel.basic_reject, requeue=False))

    assert [each.deaths for each in messages] == [
        [],
        [(f"{name}.retry", "expired", 1), (name, "rejected", 1)],
        [(f"{name}.retry", "expired", 2), (name, "rejected", 2)],
    ]


@pytest.mark.shows("dead letters", "cycles")
def test_a_message_that_goes_round_by_itself_is_dropped(channel: BlockingChannel) -> None:
    name = f"circle-{next(_names)}"
    channel.queue_declare(
        name,
        durable=True,
        arguments={
            "x-dead-letter-exchange": "",
            "x-dead-letter-routing-key": name,
            "x-message-ttl": 0,
        },
    )

    publish(channel, name, b"round")

    assert waiting(channel, name) == 0
    channel.queue_delete(name)


@pytest.mark.shows("declare", "length limits")
def test_a_full_queue_drops_its_oldest_messages(channel: BlockingChannel) -> None:
    dead = declared(channel)
    queue = declared(channel, max_length=2, dead_letter_exchange="", dead_letter_routing_key=dead)
    for number in range(4):
        publish(channel, queue, b"%d" % number)

    assert waiting(channel, queue) == 2
    letters = [consumed(channel, dead) for _ in range(2)]
    assert sorted(each.body for each in letters) == [b"0", b"1"]
    assert {each.deaths[0][1] for each in letters} == {"maxlen"}
    assert [channel.basic_get(queue, auto_ack=True)[2] for _ in range(2)] == [b"2", b"3"]


@pytest.mark.parametrize("overflow", ["reject-publish", "reject-publish-dlx"])
@pytest.mark.parametrize("limit", [{"max_length": 1}, {"max_length_bytes": 9}])
def test_or_it_refuses_messages(
    channel: BlockingChannel, overflow: str, limit: dict[str, int]
) -> None:
    queue = declared(channel, overflow=overflow, **limit)
    publish(channel, queue, b"first")

    with pytest.raises(NackError):
        publish(channel, queue, b"second")

    assert channel.basic_get(queue, auto_ack=True)[2] == b"first"
    publish(channel, queue, b"third")
    assert channel.basic_get(queue, auto_ack=True)[2] == b"third"


@pytest.mark.parametrize("mode", [1, 2])
def test_what_is_sent_at_once_fills_a_queue_to_its_bytes(
    running: Running, channel: BlockingChannel, mode: int
) -> None:
    queue = declared(channel, max_length_bytes=50, overflow="reject-publish")
    properties = pika.BasicProperties(delivery_mode=mode)
    # Not confirmed, so that many are on their way together, and not durable yet.
    with channel_of(running) as quick:
        for number in range(40):
            quick.basic_publish("", queue, b"%02d" % number, properties)
    sizes = [waiting(channel, queue)]
    with pytest.raises(NackError):
        publish(channel, queue, b"1")
    channel.basic_get(queue, auto_ack=True)
    publish(channel, queue, b"02")
    with pytest.raises(NackError):
        publish(channel, queue, b"3")

    assert [*sizes, waiting(channel, queue)] == [25, 25]


@pytest.mark.shows("dead letters", "refused, with x-death")
@pytest.mark.parametrize("limit", [{"max_length": 1}, {"max_length_bytes": 9}])
def test_or_it_refuses_messages_and_dead_letters_them(
    channel: BlockingChannel, limit: dict[str, int]
) -> None:
    dead = declared(channel)
    queue = declared(
        channel,
        overflow="reject-publish-dlx",
        dead_letter_exchange="",
        dead_letter_routing_key=dead,
        **limit,
    )
    publish(channel, queue, b"first")

    with pytest.raises(NackError):
        publish(channel, queue, b"second", expiration="3600000", message_id="2")

    _, properties, body = channel.basic_get(dead, auto_ack=True)
    (death,) = properties.headers["x-death"]
    assert (body, properties.message_id, properties.expiration) == (b"second", "2", None)
    assert (death["queue"], death["reason"], death["count"]) == (queue, "maxlen", 1)
    assert (death["routing-keys"], death["original-expiration"]) == ([queue], "3600000")
    assert waiting(channel, queue) == 1


def test_what_a_full_queue_refuses_in_a_transaction_is_dead_lettered_with_it(
    running: Running, channel: BlockingChannel
) -> None:
    dead = declared(channel)
    queue = declared(
        channel,
        max_length=1,
        overflow="reject-publish-dlx",
        dead_letter_exchange="",
        dead_letter_routing_key=dead,
    )
    publish(channel, queue, b"first")

    with channel_of(running) as other:
        other.tx_select()
        publish(other, queue, b"second")
        before = waiting(channel, dead)
        other.tx_commit()

    assert (before, waiting(channel, dead), waiting(channel, queue)) == (0, 1, 1)


def test_a_message_for_several_queues_is_refused_by_one_for_all(channel: BlockingChannel) -> None:
    full = declared(channel, max_length=0, overflow="reject-publish")
    other = declared(channel)
    for queue in (full, other):
        channel.queue_bind(queue, "amq.fanout")

    with pytest.raises(NackError):
        channel.basic_publish("amq.fanout", "", b"1", pika.BasicProperties(delivery_mode=2))

    assert (waiting(channel, full), waiting(channel, other)) == (0, 0)


@pytest.mark.shows("dead letters", "delivery limit")
def test_what_comes_too_often_is_a_dead_letter(channel: BlockingChannel) -> None:
    dead = declared(channel)
    queue = declared(
        channel,
        queue_type="quorum",
        delivery_limit=2,
        dead_letter_exchange="",
        dead_letter_routing_key=dead,
    )
    publish(channel, queue, b"poison")
    messages = consumed_thrice(channel, queue, partial(channel.basic_nack, requeue=True))
    letter = consumed(channel, dead)
    channel.basic_ack(letter.tag)

    assert [each.redelivered for each in messages] == [False, True, True]
    assert letter.deaths == [(queue, "delivery_limit", 1)]


def test_priorities_come_first(channel: BlockingChannel) -> None:
    queue = declared(channel, max_priority=9)
    for priority in (1, 5, 20, 0, 3):
        publish(channel, queue, b"%d" % priority, priority=priority)

    found = [channel.basic_get(queue, auto_ack=True)[2] for _ in range(5)]

    assert found == [b"20", b"5", b"3", b"1", b"0"]


@pytest.mark.shows("consume", "single active consumer")
def test_of_a_single_active_consumer_the_next_takes_over(
    connection: BlockingConnection, channel: BlockingChannel
) -> None:
    queue = declared(channel, single_active_consumer=True)
    told: list[tuple[str, bytes]] = []
    second = connection.channel()
    for name, each in (("first", channel), ("second", second)):
        each.basic_qos(prefetch_count=1)
        each.basic_consume(
            queue,
            lambda on, method, _, body, name=name: told.append((name, body)),
        )
    for number in range(2):
        publish(channel, queue, b"%d" % number)
    while not told:
        connection.process_data_events(time_limit=1)

    assert told == [("first", b"0")]
    channel.close()
    while len(told) < 3:
        connection.process_data_events(time_limit=1)
        if len(told) == 2:
            second.basic_ack(0, multiple=True)
    # pika cancels the consumer before it closes the channel, which gives back what is not settled.
    assert told == [("first", b"0"), ("second", b"1"), ("second", b"0")]


@pytest.mark.shows("declare", "queue expiry")
def test_a_queue_that_nobody_uses_expires(
    connection: BlockingConnection, channel: BlockingChannel
) -> None:
    queue = declared(channel, expires=100)
    for number in range(50):
        publish(channel, queue, b"%d" % number)

    def is_gone() -> bool:
        other = connection.channel()
        try:
            # This counts as use, so that it has to be asked for in longer and longer steps.
            other.basic_publish("", queue, b"", mandatory=True)
            other.queue_bind(queue, "amq.direct", "key")
        except ChannelClosedByBroker as error:
            return bool(error.reply_code == 404)
        other.close()
        return False

    while not is_gone():
        connection.process_data_events(time_limit=0.05)


@pytest.mark.refused("unknown queue arguments", "an argument without effect would mislead")
@pytest.mark.parametrize(
    "arguments",
    [
        {"x-queue-type": "stream"},
        {"x-invented": 1},
        {"x-message-ttl": -1},
        {"x-max-length": "many"},
        {"x-overflow": "reject-everything", "x-max-length": 1},
    ],
)
def test_what_is_not_understood_is_refused(
    connection: BlockingConnection, arguments: dict[str, object]
) -> None:
    other = connection.channel()

    with pytest.raises(ChannelClosedByBroker) as refused:
        other.queue_declare(f"refused-{next(_names)}", durable=True, arguments=arguments)

    assert refused.value.reply_code == 406
    assert connection.is_open
