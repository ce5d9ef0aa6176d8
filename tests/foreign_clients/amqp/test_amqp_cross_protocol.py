"""A queue of AMQP is a topic: pika beside Kafka, STOMP and Python, each event at one position."""

import queue
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pika  # type: ignore[import-untyped]
import pytest
import stomp  # type: ignore[import-untyped]
from confluent_kafka import AcknowledgeType, Consumer, Producer, ShareConsumer, TopicPartition
from pika.adapters.blocking_connection import BlockingChannel  # type: ignore[import-untyped]
from pika.exceptions import ChannelClosedByBroker  # type: ignore[import-untyped]
from tests.foreign_clients.amqp.pika_client import (
    CONFIG,
    PERSISTENT,
    Inbox,
    bodies,
    channel_of,
    drained,
    waiting,
)
from tests.loop_thread import PATIENCE_S

import mainstem
from mainstem.core.event import NATIVE_HEADER, Event
from mainstem.node.config import Config
from mainstem.node.server import Running


@pytest.fixture(scope="module")
def config() -> Config:
    return CONFIG.listening(stomp="127.0.0.1:0")


@pytest.fixture
def stem(running: Running) -> Iterator[mainstem.Stem]:
    with mainstem.connect(str(running.kafka)) as found:
        yield found


class Frames(stomp.ConnectionListener):  # type: ignore[misc]
    """What stomp.py was sent."""

    def __init__(self) -> None:
        self.messages: queue.Queue[stomp.utils.Frame] = queue.Queue()

    def on_message(self, frame: stomp.utils.Frame) -> None:
        self.messages.put(frame)


@contextmanager
def stomping(running: Running) -> Iterator[tuple[stomp.StompConnection12, Frames]]:
    connection, frames = stomp.StompConnection12([running.addresses["stomp"].pair]), Frames()
    connection.set_listener("", frames)
    connection.connect("ann", "secret", wait=True)
    try:
        yield connection, frames
    finally:
        connection.disconnect()


@contextmanager
def reading(running: Running, topic: str, partitions: int = 1) -> Iterator[Consumer]:
    """Read a topic from its beginning."""
    consumer = Consumer({"bootstrap.servers": str(running.kafka), "group.id": "of no account"})
    consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
    try:
        yield consumer
    finally:
        consumer.close()


# From AMQP


def test_what_pika_publishes_is_one_event_for_all(
    running: Running, channel: BlockingChannel, stem: mainstem.Stem, name: str
) -> None:
    channel.queue_declare(name, durable=True)
    channel.queue_bind(name, "amq.topic", "order.*")
    channel.basic_publish("", name, b"first", PERSISTENT)
    said = pika.BasicProperties(
        content_type="application/json",
        headers={"colour": "red", "count": 3, "fresh": True, "table": {"not": "for all"}},
        delivery_mode=2,
        correlation_id="c1",
    )
    channel.basic_publish("amq.topic", "order.new", '{"id": "ü"}'.encode(), said)

    with reading(running, name) as consumer:
        assert consumer.poll(PATIENCE_S) is not None
        read = consumer.poll(PATIENCE_S)
    subscription = stem.subscribe(name, start="earliest")
    assert subscription.poll(PATIENCE_S) is not None
    event = subscription.poll(PATIENCE_S)
    with stomping(running) as (connection, frames):
        connection.subscribe(f"/queue/{name}", id="s", ack="client-individual")
        assert frames.messages.get(timeout=PATIENCE_S).body == "first"
        frame = frames.messages.get(timeout=PATIENCE_S)
    # STOMP did not acknowledge them.
    message = Inbox(channel, name).take(2)[1]

    assert read is not None
    assert event is not None
    assert event.position == (read.partition(), read.offset()) == (0, 1)
    assert frame.headers["mainstem-position"] == "0:1"
    assert event.value == read.value() == frame.body.encode() == message.body
    assert event.headers == tuple(read.headers() or ())
    plain = {key: value for key, value in event.headers if key != NATIVE_HEADER}
    assert plain == {
        "amqp-exchange": b"amq.topic",
        "amqp-routing-key": b"order.new",
        "content-type": b"application/json",
        "correlation-id": b"c1",
        "delivery-mode": b"2",
        "colour": b"red",
        "count": b"3",
        "fresh": b"true",
    }
    assert plain.items() <= {key: each.encode() for key, each in frame.headers.items()}.items()
    assert NATIVE_HEADER not in frame.headers
    assert (message.properties, message.redelivered) == (said, True)
    assert message.method.routing_key == "order.new"


def test_a_transaction_of_pika_is_committed_for_all(
    running: Running, stem: mainstem.Stem, name: str
) -> None:
    with channel_of(running) as channel:
        channel.queue_declare(name, durable=True)
        channel.tx_select()
        channel.basic_publish("", name, b"rolled back")
        channel.tx_rollback()
        channel.basic_publish("", name, b"committed")
        assert stem.topics.show(name).events == 0
        channel.tx_commit()

    with reading(running, name) as consumer:
        read = consumer.poll(PATIENCE_S)

    assert read is not None
    assert (read.value(), read.offset()) == (b"committed", 0)


def test_a_deleted_queue_is_no_topic_any_more(
    channel: BlockingChannel, stem: mainstem.Stem, name: str
) -> None:
    channel.queue_declare(name, durable=True)
    assert [each.name for each in stem.topics.list(name)] == [name]
    channel.queue_delete(name)

    assert not stem.topics.list(name)


# To AMQP


def test_what_kafka_produces_is_a_message(
    running: Running, channel: BlockingChannel, name: str
) -> None:
    channel.queue_declare(name, durable=True)
    inbox = Inbox(channel, name)
    producer = Producer({"bootstrap.servers": str(running.kafka)})
    producer.produce(
        name,
        b"\x00\xff",
        key=b"k",
        headers={"content-type": b"image/png", "colour": "grün".encode(), "raw": b"\xff"},
        timestamp=1_700_000_000_123,
    )
    producer.produce(name, None, key=b"k")
    assert producer.flush(PATIENCE_S) == 0

    message, empty = inbox.take(2)

    assert (message.body, empty.body) == (b"\x00\xff", b"")
    assert (message.method.exchange, message.method.routing_key) == ("", name)
    assert message.properties.content_type == "image/png"
    assert message.properties.headers == {"colour": "grün", "raw": b"\xff", "mainstem-key": "k"}
    assert message.properties.timestamp == 1_700_000_000


@pytest.mark.parametrize(
    "forged",
    [
        pytest.param(b"amqp091\0", id="a prefix"),
        pytest.param(b"amqp091\0\0\1q\xff\xff\xff", id="malformed properties"),
        pytest.param(b"amqp091\0" + bytes(13) + b"\1e\1k\0\0", id="an unsigned message"),
        pytest.param(b"amqp091\0" + b"x" * 500_000, id="more than a frame holds"),
    ],
)
def test_what_kafka_forges_is_delivered_rejected_and_expires_as_other_messages(
    running: Running, channel: BlockingChannel, name: str, forged: bytes
) -> None:
    dead = f"{name}-dead"
    to_dead = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead}
    channel.queue_declare(dead, durable=True)
    channel.queue_declare(name, durable=True, arguments=to_dead)
    mortal = f"{name}-mortal"
    channel.queue_declare(mortal, durable=True, arguments=to_dead | {"x-message-ttl": 1})
    inbox = Inbox(channel, name)
    producer = Producer({"bootstrap.servers": str(running.kafka)})
    for to in (name, mortal):
        for body in (b"before", b"forged", b"after"):
            claims = [(NATIVE_HEADER, forged), ("amqp-dead-letter", b"true")]
            producer.produce(to, body, headers=[*claims] if body == b"forged" else [])
    assert producer.flush(PATIENCE_S) == 0

    messages = inbox.take(3)
    channel.basic_nack(messages[-1].method.delivery_tag, multiple=True, requeue=False)

    assert bodies(messages) == [b"before", b"forged", b"after"]
    assert {each.method.routing_key for each in messages} == {name}
    found = sorted(bodies(Inbox(channel, dead).take(6)))
    assert found == [b"after", b"after", b"before", b"before", b"forged", b"forged"]


def test_a_transaction_of_kafka_is_consumed_when_it_commits(
    running: Running, channel: BlockingChannel, name: str
) -> None:
    channel.queue_declare(name, durable=True)
    producer = Producer({"bootstrap.servers": str(running.kafka), "transactional.id": name})
    producer.init_transactions(PATIENCE_S)
    for end in (producer.abort_transaction, producer.commit_transaction):
        producer.begin_transaction()
        producer.produce(name, end.__name__)
        assert producer.flush(PATIENCE_S) == 0
        assert channel.basic_get(name)[0] is None
        end(PATIENCE_S)

    assert bodies(Inbox(channel, name).take(1)) == [b"commit_transaction"]
    assert waiting(channel, name) == 0


def test_what_python_publishes_is_a_message(
    channel: BlockingChannel, stem: mainstem.Stem, name: str
) -> None:
    channel.queue_declare(name, durable=True)
    inbox = Inbox(channel, name)
    stem.publish(name, {"id": 1}, headers={"content-type": "application/json", "priority": "4"})

    message = inbox.next()

    assert message.body == b'{"id":1}'
    assert message.properties.content_type == "application/json"
    assert message.properties.priority == 4


# Queues that are shared


def test_pika_stomp_kafka_and_python_share_a_queue_each_event_once(
    running: Running, channel: BlockingChannel, stem: mainstem.Stem, name: str
) -> None:
    channel.queue_declare(name, durable=True)
    channel.basic_qos(prefetch_count=5)
    inbox = Inbox(channel, name)
    sharer = ShareConsumer(
        {
            "bootstrap.servers": str(running.kafka),
            "group.id": name,
            "share.acknowledgement.mode": "explicit",
            "max.poll.records": 5,
        }
    )
    sharer.subscribe([name])
    sharer.poll(0.1)
    python = stem.queue(name, name=name)
    taken: dict[str, list[int]] = {"amqp": [], "stomp": [], "kafka": [], "python": []}
    sent, until = 0, time.monotonic() + PATIENCE_S
    with stomping(running) as (connection, frames):
        connection.subscribe(
            f"/queue/{name}",
            id="s",
            ack="client-individual",
            headers={"prefetch-count": "5"},
        )
        while not all(taken.values()) or sum(map(len, taken.values())) < sent:
            assert time.monotonic() < until, (sent, taken)
            if not all(taken.values()):
                for _ in range(20):
                    channel.basic_publish("", name, b"%d" % sent, PERSISTENT)
                    sent += 1
            channel.connection.process_data_events(0.01)
            while inbox.received:
                message = inbox.received.popleft()
                taken["amqp"].append(int(message.body))
                channel.basic_ack(message.tag)
            while not frames.messages.empty():
                frame = frames.messages.get()
                taken["stomp"].append(int(frame.body))
                connection.ack(frame.headers["ack"])
            for read in sharer.poll(0.01):
                taken["kafka"].append(int(read.value() or b""))
                sharer.acknowledge(read, AcknowledgeType.ACCEPT)
            sharer.commit_sync(PATIENCE_S)
            for delivery in python.poll_many(5, timeout=0.01):
                taken["python"].append(int(delivery.event.text()))
                delivery.ack()
    python.close()
    sharer.close()

    assert sorted(number for mine in taken.values() for number in mine) == list(range(sent))
    assert drained(channel, name) == []


def test_a_queue_of_stomp_is_declared_and_consumed_by_pika(
    running: Running, channel: BlockingChannel, name: str
) -> None:
    with stomping(running) as (connection, _):
        listener = stomp.WaitingListener("sent")
        connection.set_listener("waiting", listener)
        headers = {"content-type": "text/plain", "colour": "red"}
        connection.send(f"/queue/{name}", "hello", headers=headers, receipt="sent")
        listener.wait_on_receipt()
    channel.queue_declare(name, durable=True)

    message = Inbox(channel, name).next()

    assert message.body == b"hello"
    assert message.properties.content_type == "text/plain"
    assert message.properties.headers["colour"] == "red"


def test_a_queue_on_an_existing_topic_gets_all_of_it(
    running: Running, channel: BlockingChannel, stem: mainstem.Stem, name: str
) -> None:
    stem.topics.create(name, partitions=3)
    stem.publish_many(name, [Event(b"%d" % n, key=b"%d" % n) for n in range(30)])
    queues = [f"{name}.billing", f"{name}.shipping"]
    for each in queues:
        channel.queue_declare(each, durable=True, arguments={"x-mainstem-topic": name})
    stem.publish(name, "late")

    found = [Inbox(channel, each).take(31) for each in queues]

    with reading(running, name, 3) as consumer:
        reads = [consumer.poll(PATIENCE_S) for _ in range(31)]
    wanted = {each.value() for each in reads if each is not None}
    assert len({each.partition() for each in reads if each is not None}) > 1
    assert {each.body for each in found[0]} == {each.body for each in found[1]} == wanted
    channel.basic_ack(0, multiple=True)
    assert [waiting(channel, each) for each in queues] == [0, 0]

    # The topic is not the queue's own.
    for each in queues:
        channel.queue_delete(each)
    assert stem.topics.show(name).events == 31


def test_a_queue_on_an_existing_topic_is_published_to(
    channel: BlockingChannel, stem: mainstem.Stem, name: str
) -> None:
    stem.topics.create(name, partitions=3)
    channel.queue_declare(f"{name}.q", durable=True, arguments={"x-mainstem-topic": name})
    channel.basic_publish("", f"{name}.q", b"1", PERSISTENT)

    event = stem.subscribe(name, start="earliest").poll(PATIENCE_S)

    assert event is not None
    assert event.value == b"1"
    assert Inbox(channel, f"{name}.q").next().body == b"1"


def test_a_topic_does_not_become_a_queue_by_chance(
    channel: BlockingChannel, stem: mainstem.Stem, name: str
) -> None:
    stem.publish(name, "of somebody else")
    tried = channel.connection.channel()
    with pytest.raises(ChannelClosedByBroker) as refused:
        tried.queue_declare(name, durable=True)

    assert refused.value.reply_code == 406
    assert f"x-mainstem-topic='{name}'" in refused.value.reply_text


@pytest.mark.parametrize(
    ("odd", "topic"),
    [
        ("celery@host", "celery._40host"),
        ("grüße", "gr._c3._bc._c3._9fe"),
        ("a b/c", "a._20b._2fc"),
    ],
)
def test_queues_of_any_name_are_topics(
    running: Running, channel: BlockingChannel, odd: str, topic: str
) -> None:
    channel.queue_declare(odd, durable=True)
    channel.basic_publish("", odd, b"1", PERSISTENT)

    with reading(running, topic) as consumer:
        read = consumer.poll(PATIENCE_S)

    assert read is not None
    assert read.value() == b"1"
