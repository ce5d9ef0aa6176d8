"""pika, unmodified: exchanges of the type x-delayed-message, as RabbitMQ's plugin has them."""

import time

import pika  # type: ignore[import-untyped]
import pytest
from pika.adapters.blocking_connection import BlockingChannel  # type: ignore[import-untyped]
from pika.exceptions import ChannelClosedByBroker  # type: ignore[import-untyped]
from tests.foreign_clients.amqp.pika_client import Inbox, bodies, waiting
from tests.foreign_clients.compatibility import AMQP

pytestmark = pytest.mark.client("pika", "1.4", AMQP)

DELAYED = "x-delayed-message"
FAR_MS = 4294967295


@pytest.fixture
def queue(channel: BlockingChannel, name: str) -> str:
    """Return a queue that is bound by "k" to a delayed exchange; both have the test's name."""
    declare_exchange(channel, name)
    channel.queue_declare(name, durable=True)
    channel.queue_bind(name, name, "k")
    return name


def declare_exchange(channel: BlockingChannel, name: str, type_: str = "direct") -> None:
    channel.exchange_declare(name, DELAYED, durable=True, arguments={"x-delayed-type": type_})


def publish(
    channel: BlockingChannel, exchange: str, body: bytes, key: str = "k", **headers: object
) -> None:
    """Publish, mandatory; names of headers have dashes, and begin with x-."""
    named = {f"x-{name}": value for name, value in headers.items()}
    properties = pika.BasicProperties(delivery_mode=2, headers=named)
    channel.basic_publish(exchange, key, body, properties, mandatory=True)


@pytest.mark.shows("declare", "delayed exchanges (x-delayed-message)")
def test_messages_come_when_they_are_due_whatever_was_published_before(
    channel: BlockingChannel, queue: str
) -> None:
    inbox = Inbox(channel, queue, auto_ack=True)
    began = time.monotonic()

    for body, delay in ((b"never", FAR_MS), (b"third", 400), (b"second", 200)):
        publish(channel, queue, body, delay=delay)
    publish(channel, queue, b"first")
    received = inbox.take(3)

    assert bodies(received) == [b"first", b"second", b"third"]
    assert time.monotonic() - began >= 0.4
    assert [dict(each.properties.headers) for each in received] == [
        {},
        {"x-delay": -200},
        {"x-delay": -400},
    ]
    assert (received[1].method.exchange, received[1].method.routing_key) == (queue, "k")


@pytest.mark.parametrize(
    ("delay", "seen"), [("50", -50), ("50.9", -50), (FAR_MS + 1, None), (0, None)]
)
@pytest.mark.parametrize("unusable", [-5, True, "soon"])
def test_delays_are_numbers_or_text_of_numbers_and_others_are_none(
    channel: BlockingChannel, queue: str, delay: object, seen: int | None, unusable: object
) -> None:
    inbox = Inbox(channel, queue, auto_ack=True)

    publish(channel, queue, b"at once", delay=unusable)
    publish(channel, queue, b"a", delay=delay)
    received = inbox.take(2)

    assert bodies(received) == [b"at once", b"a"]
    assert received[0].properties.headers["x-delay"] == unusable
    assert received[1].properties.headers["x-delay"] == (delay if seen is None else seen)


def test_messages_are_routed_when_they_are_due_by_the_bindings_of_that_time(
    channel: BlockingChannel, name: str
) -> None:
    declare_exchange(channel, name, "topic")

    publish(channel, name, b"late", "a.b", delay=300)
    channel.queue_declare(name, durable=True)
    channel.queue_bind(name, name, "a.*")
    received = Inbox(channel, name, auto_ack=True).next()

    assert received.body == b"late"


def test_a_delayed_exchange_behind_another_exchange_delays_too(
    channel: BlockingChannel, queue: str, name: str
) -> None:
    source, direct = f"{name}-source", f"{name}-direct"
    channel.exchange_declare(source, "fanout")
    channel.exchange_bind(queue, source)
    channel.queue_declare(direct)
    channel.queue_bind(direct, source)
    at_once, later = Inbox(channel, direct, auto_ack=True), Inbox(channel, queue, auto_ack=True)

    publish(channel, source, b"both", delay=50)

    assert at_once.next().properties.headers["x-delay"] == 50
    assert later.next().properties.headers["x-delay"] == -50


def test_transactions_delay_at_commit(channel: BlockingChannel, queue: str) -> None:
    with_tx = channel.connection.channel()
    with_tx.tx_select()
    inbox = Inbox(channel, queue, auto_ack=True)

    publish(with_tx, queue, b"rolled back", delay=20)
    with_tx.tx_rollback()
    publish(with_tx, queue, b"committed", delay=20)
    with_tx.tx_commit()

    assert inbox.next().body == b"committed"
    assert waiting(channel, queue) == 0


@pytest.mark.parametrize("arguments", [{}, {"x-delayed-type": "no-such"}, {"x-delayed-type": 1}])
def test_delayed_exchanges_need_a_type(
    channel: BlockingChannel, name: str, arguments: dict[str, object]
) -> None:
    with pytest.raises(ChannelClosedByBroker) as refused:
        channel.exchange_declare(name, DELAYED, arguments=arguments)

    assert refused.value.reply_code == 406
    assert "'x-delayed-type' must be an existing exchange type" in refused.value.reply_text
