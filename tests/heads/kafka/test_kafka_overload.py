"""Producers outrun consumers, in Kafka's own terms: held, refused, or the oldest dropped."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from tests.heads.admin.web import get
from tests.heads.kafka.raw_peers import Healthy, Peer, production, request
from tests.heads.server_process import PATIENCE_S
from tests.in_process_server import server

from mainstem.core.event import Event
from mainstem.core.records import build
from mainstem.kafka_protocol.error_codes import Code
from mainstem.kafka_protocol.messages.produce import PRODUCE, ProduceResponse
from mainstem.node.server import Running

LIMIT = 20


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    path: Path = tmp_path_factory.mktemp("overloaded")
    with server(path) as found:
        yield found


@pytest.fixture(scope="module")
def address(running: Running) -> str:
    return str(running.kafka)


def create(address: str, topic: str, overload: str, hold_ms: int = 60_000) -> None:
    config = {
        "mainstem.overload": overload,
        "mainstem.max_backlog": str(LIMIT),
        "mainstem.hold_ms": str(hold_ms),
    }
    admin = AdminClient({"bootstrap.servers": address})
    made = admin.create_topics([NewTopic(topic, 1, 1, config=config)])
    made[topic].result(PATIENCE_S)


def reader(address: str, topic: str, offset: int = 0) -> Consumer:
    config = {"bootstrap.servers": address, "group.id": topic, "enable.auto.commit": False}
    source = Consumer({**config, "auto.offset.reset": "earliest"})
    source.assign([TopicPartition(topic, 0, offset)])
    return source


def batch(sequence: int, count: int = 1) -> bytes:
    events = [Event(value=b"%d" % (sequence + each)) for each in range(count)]
    return bytes(build(events, now_ms=1, producer_id=77, producer_epoch=0, base_sequence=sequence))


def answered(peer: Peer) -> ProduceResponse:
    return peer.answer(PRODUCE, 9, ProduceResponse)


def produce(peer: Peer, topic: str, records: bytes) -> ProduceResponse:
    peer.send(request(PRODUCE, 9, production(topic, records)))
    return answered(peer)


def code(answer: ProduceResponse) -> int:
    return answer.responses[0].partition_responses[0].error_code


def test_what_comes_behind_a_held_batch_waits_its_turn(address: str, healthy: Healthy) -> None:
    create(address, "held", "backpressure")
    source = reader(address, "held")
    with Peer(address) as peer:
        assert code(produce(peer, "held", batch(0, LIMIT))) == 0
        wishes = [production("held", batch(LIMIT + n), timeout_ms=600_000) for n in range(5)]
        peer.send(b"".join(request(PRODUCE, 9, wish) for wish in wishes))

        healthy.check()
        source.commit(offsets=[TopicPartition("held", 0, LIMIT)], asynchronous=False)

        assert [code(answered(peer)) for _ in range(5)] == [0] * 5
    source.close()


def test_a_batch_is_held_for_less_than_its_client_waits(address: str, healthy: Healthy) -> None:
    create(address, "brief", "backpressure")
    with Peer(address) as peer:
        assert code(produce(peer, "brief", batch(0, LIMIT))) == 0

        answer = produce(peer, "brief", batch(LIMIT))

        assert code(answer) == Code.REQUEST_TIMED_OUT
        assert answer.throttle_time_ms > 0
        healthy.check()


@pytest.mark.parametrize("idempotent", [True, False])
def test_a_producer_that_is_held_keeps_pace_with_its_consumer(
    address: str, idempotent: bool
) -> None:
    topic = f"paced.{idempotent}"
    create(address, topic, "backpressure", hold_ms=300)
    sender = Producer(
        {
            "bootstrap.servers": address,
            "enable.idempotence": idempotent,
            "max.in.flight": 5 if idempotent else 1,
            "batch.num.messages": 7,
            "linger.ms": 0,
        }
    )
    failed: list[KafkaError] = []

    def report(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            failed.append(error)

    for number in range(10 * LIMIT):
        sender.produce(topic, b"%d" % number, on_delivery=report)
    source = reader(address, topic)
    found: list[int] = []
    while len(found) < 10 * LIMIT:
        sender.poll(0)
        for message in source.consume(LIMIT, 0.1):
            assert message.error() is None
            found.append(int(message.value() or b""))
            source.commit(message=message, asynchronous=False)

    assert sender.flush(PATIENCE_S) == 0
    assert failed == []
    # Of what is refused in the end, librdkafka keeps the order only if it is idempotent.
    assert (found if idempotent else sorted(found)) == list(range(10 * LIMIT))
    source.close()


def test_the_newest_is_refused_and_the_producer_told(address: str, healthy: Healthy) -> None:
    create(address, "newest", "drop=newest")
    sender = Producer({"bootstrap.servers": address, "retries": 0, "linger.ms": 0})
    errors: list[int | None] = []

    def report(error: KafkaError | None, _: Message) -> None:
        errors.append(None if error is None else error.code())

    for number in range(LIMIT + 5):
        sender.produce("newest", b"%d" % number, on_delivery=report)
        assert sender.flush(PATIENCE_S) == 0

    assert errors == [None] * LIMIT + [KafkaError.REQUEST_TIMED_OUT] * 5
    source = reader(address, "newest")
    assert source.get_watermark_offsets(TopicPartition("newest", 0), PATIENCE_S) == (0, LIMIT)
    source.close()
    healthy.check()


def test_the_oldest_makes_way_and_nobody_is_refused(address: str, healthy: Healthy) -> None:
    create(address, "oldest", "drop=oldest")
    sender = Producer({"bootstrap.servers": address, "enable.idempotence": True, "linger.ms": 0})
    errors: list[KafkaError] = []

    def report(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            errors.append(error)

    for number in range(20 * LIMIT):
        sender.produce("oldest", b"%d" % number, on_delivery=report)
        # What readers cannot see yet, because it is not durable, is not dropped yet.
        if number % LIMIT == 0:
            assert sender.flush(PATIENCE_S) == 0

    assert sender.flush(PATIENCE_S) == 0
    assert errors == []
    source = reader(address, "oldest", -2)
    start, end = source.get_watermark_offsets(TopicPartition("oldest", 0), PATIENCE_S)
    first = source.poll(PATIENCE_S)
    source.close()
    assert end == 20 * LIMIT
    assert 0 < end - start <= 3 * LIMIT
    assert first is not None
    assert int(first.value() or b"") == first.offset() == start
    healthy.check()


def counted(running: Running, topic: str) -> dict[str, float]:
    """Return what a topic's overload has cost, as whoever looks after the server sees it."""
    found: dict[str, float] = {}
    for line in get(str(running.admin), "/metrics").text.splitlines():
        name, _, value = line.partition(f'{{topic="{topic}"}} ')
        if value:
            found[name.removeprefix("mainstem_topic_").removesuffix("_total")] = float(value)
    return found


def test_what_overload_cost_is_counted_and_shown(running: Running, healthy: Healthy) -> None:
    address = str(running.kafka)
    policies = {"held": "backpressure", "newest": "drop=newest", "oldest": "drop=oldest"}
    for name, overload in policies.items():
        topic = f"counted.{name}"
        create(address, topic, overload, hold_ms=1)
        source = reader(address, topic)
        # A group that has read nothing is one that may miss something.
        source.commit(offsets=[TopicPartition(topic, 0, 0)], asynchronous=False)
        source.close()
        with Peer(address) as peer:
            for number in range(5 * LIMIT):
                produce(peer, topic, bytes(build([Event(b"%d" % number)], now_ms=1)))

    held, newest, oldest = (counted(running, f"counted.{name}") for name in policies)
    assert held["held_requests"] == held["refused_events"] == 4 * LIMIT
    assert held["held_seconds"] > 0
    assert newest["refused_events"] == 4 * LIMIT
    assert newest["dropped_events"] == newest["held_requests"] == 0
    assert oldest["dropped_events"] >= 2 * LIMIT
    assert oldest["refused_events"] == 0
    healthy.check()
