"""kombu, unmodified: what Celery is built on, over py-amqp."""

import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import kombu
import pytest
from amqp.exceptions import NotFound, PreconditionFailed  # type: ignore[import-untyped]
from kombu.pools import producers
from kombu.simple import SimpleQueue
from kombu.transport import native_delayed_delivery as native
from tests.faults.killable_server import free_port
from tests.foreign_clients.amqp.pika_client import CONFIG
from tests.foreign_clients.compatibility import AMQP
from tests.in_process_server import server
from tests.loop_thread import PATIENCE_S

from mainstem.node.server import Running

pytestmark = [
    pytest.mark.client("kombu", "5.7", AMQP),
    pytest.mark.lacks("transactions", "kombu has none"),
]
CONFIRMED = {"confirm_publish": True}


@pytest.fixture
def connection(running: Running) -> Iterator[kombu.Connection]:
    with connect(running.addresses["amqp"].port) as found:
        yield found


def connect(port: int) -> kombu.Connection:
    return kombu.Connection(f"amqp://guest:guest@127.0.0.1:{port}//", transport_options=CONFIRMED)


def take(
    connection: kombu.Connection, queue: kombu.Queue, count: int, *, ack: bool = True
) -> list[kombu.Message]:
    """Consume so many messages."""
    found: list[kombu.Message] = []
    with kombu.Consumer(
        connection, queue, callbacks=[lambda _, message: found.append(message)], prefetch_count=5
    ):
        while len(found) < count:
            connection.drain_events(timeout=PATIENCE_S)
            for message in found:
                if ack and not message.acknowledged:
                    message.ack()
    return found


@pytest.mark.shows("publish", "serializers, compression")
@pytest.mark.shows("consume", "SimpleQueue")
@pytest.mark.parametrize("serializer", ["json", "pickle"])
@pytest.mark.parametrize("compression", [None, "gzip"])
def test_a_simple_queue_keeps_python_values(
    connection: kombu.Connection, serializer: str, compression: str | None
) -> None:
    value = {"id": 1, "text": "grüße", "list": [1, 2.5, None]}
    queue = SimpleQueue(
        connection,
        f"simple-{serializer}-{compression}",
        queue_opts={"durable": True},
        serializer=serializer,
        compression=compression,
        accept=["json", "pickle"],
    )
    for _ in range(3):
        queue.put(value)
    assert queue.qsize() == 3
    message = queue.get(timeout=PATIENCE_S)
    message.ack()
    queue.get(timeout=PATIENCE_S).requeue()
    others = [queue.get(timeout=PATIENCE_S) for _ in range(2)]
    queue.close()

    assert message.payload == value
    assert [each.delivery_info["redelivered"] for each in others] == [False, True]


@pytest.mark.shows("declare", "exchanges, queues, bindings")
def test_declared_entities_route(connection: kombu.Connection) -> None:
    exchange = kombu.Exchange("media", "topic", durable=True)
    video = kombu.Queue("video", exchange, routing_key="video.#", max_priority=5)
    everything = kombu.Queue("everything", exchange, routing_key="#")
    with producers[connection].acquire(block=True) as producer:
        for key in ("video.new", "audio.new"):
            producer.publish(
                {"key": key}, exchange=exchange, routing_key=key, declare=[video, everything]
            )

    assert [each.payload["key"] for each in take(connection, video, 1)] == ["video.new"]
    assert [each.payload["key"] for each in take(connection, everything, 2)] == [
        "video.new",
        "audio.new",
    ]


@pytest.mark.shows("publish", "priorities, expirations, headers")
@pytest.mark.shows("consume", "prefetch")
def test_priorities_expirations_and_headers(connection: kombu.Connection) -> None:
    queue = kombu.Queue("graded", max_priority=9)
    with connection.Producer() as producer:
        for priority in (1, 9, 5):
            producer.publish(
                priority,
                routing_key="graded",
                declare=[queue],
                priority=priority,
                expiration=60,
                headers={"tried": priority},
                correlation_id=str(priority),
            )

    found = take(connection, queue, 3)

    assert [each.payload for each in found] == [9, 5, 1]
    assert found[0].properties["expiration"] == "60000"
    assert found[0].properties["correlation_id"] == "9"
    assert found[0].headers["tried"] == 9


@pytest.mark.shows("consume", "requeue, reject")
def test_what_is_requeued_comes_again_and_what_is_rejected_does_not(
    connection: kombu.Connection,
) -> None:
    queue = kombu.Queue("refusals")(connection.default_channel)
    queue.declare()
    with connection.Producer() as producer:
        for body in ("again", "never"):
            producer.publish(body, routing_key="refusals")
    first, second = queue.get(), queue.get()
    assert first is not None
    assert second is not None
    first.requeue()
    second.reject()

    again = queue.get()

    assert again is not None
    assert (again.payload, again.delivery_info["redelivered"]) == ("again", True)
    assert queue.get() is None


@pytest.mark.shows("dead letters", "rejected, with x-death")
def test_what_is_rejected_is_a_dead_letter(connection: kombu.Connection) -> None:
    dead = kombu.Queue("dead")(connection.default_channel)
    dead.declare()
    target = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead.name}
    queue = kombu.Queue("failing", queue_arguments=target)(connection.default_channel)
    queue.declare()
    with connection.Producer() as producer:
        producer.publish("bad", routing_key=queue.name)
    (message,) = take(connection, queue, 1, ack=False)
    message.reject()

    (found,) = take(connection, dead, 1)

    assert found.payload == "bad"
    assert [(each["queue"], each["reason"]) for each in found.headers["x-death"]] == [
        (queue.name, "rejected")
    ]


def test_what_is_refused_closes_the_channel_only(connection: kombu.Connection) -> None:
    kombu.Queue("there", durable=True)(connection.default_channel).declare()
    with pytest.raises(PreconditionFailed):
        kombu.Queue("there", durable=False)(connection.channel()).declare()
    with pytest.raises(NotFound):
        kombu.Queue("missing")(connection.channel()).queue_declare(passive=True)

    assert kombu.Queue("there")(connection.default_channel).queue_declare(passive=True)


def test_heartbeats_are_answered(running: Running) -> None:
    port = running.addresses["amqp"].port
    with kombu.Connection(f"amqp://127.0.0.1:{port}//", heartbeat=1) as connection:
        connection.connect()
        # Longer than the two heartbeats after which a peer that says nothing is given up.
        until = time.monotonic() + 2.5
        while time.monotonic() < until:
            with suppress(TimeoutError):
                connection.drain_events(timeout=0.3)
            connection.heartbeat_check()

        assert connection.connected


@pytest.mark.shows("publish", "confirms; retries during a restart of the server")
def test_a_producer_with_retries_goes_on_when_the_server_is_back(tmp_path: Path) -> None:
    port = free_port()
    config = CONFIG.listening(amqp=f"127.0.0.1:{port}")
    queue = kombu.Queue("kept", durable=True)
    with connect(port) as connection:
        producer = kombu.Producer(connection)
        policy = {"interval_start": 0, "interval_step": 0.05, "max_retries": 100}

        def publish(body: str) -> None:
            producer.publish(
                body,
                routing_key="kept",
                declare=[queue],
                retry=True,
                retry_policy=policy,
                delivery_mode="persistent",
            )

        with server(tmp_path, config=config):
            publish("before")
        with server(tmp_path, config=config):
            publish("after")
            found = [each.payload for each in take(connection, queue, 2)]
            connection.close()

    assert found == ["before", "after"]


@pytest.mark.shows("dead letters", "native delayed delivery (28 levels)")
@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_native_delayed_delivery_waits_by_the_bits_of_the_delay(
    connection: kombu.Connection, kind: str
) -> None:
    exchange = kombu.Exchange(f"tasks-{kind}", "topic")
    queue = kombu.Queue(f"tasks-{kind}", exchange, "work", queue_arguments={"x-queue-type": kind})
    queue(connection).declare()
    native.declare_native_delayed_delivery_exchanges_and_queues(connection, kind, kind)
    native.bind_queue_to_native_delayed_delivery_exchange(connection, queue, kind)
    producer = kombu.Producer(connection)

    # Lower ones could move on while they are counted.
    for level in range(7, 28):
        later = native.calculate_routing_key(2**level, "work")
        producer.publish(level, exchange=native.level_name(27, kind), routing_key=later)
    began = time.monotonic()
    later = native.calculate_routing_key(3, "work")
    producer.publish("now", exchange=native.level_name(27, kind), routing_key=later)
    with connection.channel() as channel:
        names = [native.level_name(level, kind) for level in range(7, 28)]
        counts = [channel.queue_declare(name, passive=True).message_count for name in names]
    (message,) = take(connection, queue, 1)

    assert counts == [1] * 21
    assert message.payload == "now"
    assert time.monotonic() - began >= 3
    assert message.headers["x-death"][0]["queue"] == native.level_name(0, kind)
