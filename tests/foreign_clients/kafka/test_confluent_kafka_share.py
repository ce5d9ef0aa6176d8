"""Share groups of confluent-kafka (librdkafka, where they are a preview), unmodified."""

import time
from collections.abc import Iterator

import pytest
from confluent_kafka import AcknowledgeType, Consumer, Message, Producer, ShareConsumer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)
from tests.foreign_clients.kafka.polling import PATIENCE_S

pytestmark = pytest.mark.client("confluent-kafka", "2.16")


@pytest.fixture
def made(kafka: str, request: pytest.FixtureRequest) -> Iterator[str]:
    """A topic of two partitions, and a group of its name that begins at the earliest."""
    name = request.node.name[:200]
    admin = AdminClient({"bootstrap.servers": kafka})
    admin.create_topics([NewTopic(name, 2, 1)])[name].result(PATIENCE_S)
    configure(admin, name, "share.auto.offset.reset", "earliest")
    yield name
    admin.delete_topics([name])[name].result(PATIENCE_S)


def configure(admin: AdminClient, group: str, name: str, value: str) -> None:
    entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.GROUP, group, incremental_configs=[entry])
    for done in admin.incremental_alter_configs([resource]).values():
        done.result(PATIENCE_S)


def produce(kafka: str, topic: str, numbers: range, partition: int | None = None) -> None:
    # Together, so that each partition gets one batch, and one poll returns it whole.
    producer = Producer({"bootstrap.servers": kafka, "linger.ms": 10_000})
    for number in numbers:
        at = number % 2 if partition is None else partition
        producer.produce(topic, str(number), partition=at)
    assert producer.flush(PATIENCE_S) == 0


def member(kafka: str, group: str, **config: str | int) -> ShareConsumer:
    found = ShareConsumer({"bootstrap.servers": kafka, "group.id": group, **config})
    found.subscribe([group])
    return found


def explicit(kafka: str, group: str) -> ShareConsumer:
    return member(kafka, group, **{"share.acknowledgement.mode": "explicit"})


def take(source: ShareConsumer, count: int) -> list[Message]:
    """Poll until there are so many, or fail."""
    found: list[Message] = []
    until = time.monotonic() + PATIENCE_S
    while len(found) < count and time.monotonic() < until:
        for message in source.poll(0.2):
            assert message.error() is None, message.error()
            found.append(message)
    assert len(found) >= count
    return found


def numbers(messages: list[Message]) -> list[int]:
    return sorted(int(message.value() or b"") for message in messages)


@pytest.mark.shows("share groups", "implicit acknowledgement")
def test_what_was_polled_is_accepted_and_never_comes_again(kafka: str, made: str) -> None:
    produce(kafka, made, range(300))
    first = member(kafka, made)
    taken = take(first, 300)
    assert not any(first.commit_sync(PATIENCE_S).values())
    first.close()

    produce(kafka, made, range(300, 310))
    second = member(kafka, made)
    later = take(second, 10)
    second.close()

    assert numbers(taken) == list(range(300))
    assert numbers(later) == list(range(300, 310))


@pytest.mark.shows("share groups", "accept, release, reject", "delivery counts")
def test_records_are_accepted_released_and_rejected(kafka: str, made: str) -> None:
    produce(kafka, made, range(3), partition=0)
    source = explicit(kafka, made)
    taken = {int(each.value() or b""): each for each in take(source, 3)}

    source.acknowledge(taken[0], AcknowledgeType.ACCEPT)
    source.acknowledge(taken[1], AcknowledgeType.RELEASE)
    source.acknowledge(taken[2], AcknowledgeType.REJECT)
    assert not any(source.commit_sync(PATIENCE_S).values())
    (again,) = take(source, 1)
    source.acknowledge(again, AcknowledgeType.ACCEPT)
    source.close()

    assert (again.value(), again.delivery_count()) == (b"1", 2)
    assert letters(kafka, f"{made}.dead") == [b"2"]


def letters(kafka: str, topic: str) -> list[bytes | None]:
    reader = Consumer(
        {"bootstrap.servers": kafka, "group.id": topic, "auto.offset.reset": "earliest"}
    )
    reader.subscribe([topic])
    found = reader.consume(1, PATIENCE_S)
    reader.close()
    return [each.value() for each in found]


@pytest.mark.shows("share groups", "delivery limit")
def test_what_is_released_too_often_becomes_a_dead_letter(kafka: str, made: str) -> None:
    configure(AdminClient({"bootstrap.servers": kafka}), made, "share.delivery.count.limit", "2")
    produce(kafka, made, range(1), partition=0)
    source = explicit(kafka, made)

    counts = []
    for _ in range(2):
        (message,) = take(source, 1)
        counts.append(message.delivery_count())
        source.acknowledge(message, AcknowledgeType.RELEASE)
        source.commit_sync(PATIENCE_S)
    source.close()

    assert counts == [1, 2]
    assert letters(kafka, f"{made}.dead") == [b"0"]


@pytest.mark.shows("share groups", "several consumers on one partition")
def test_a_member_that_leaves_gives_back_what_it_did_not_acknowledge(kafka: str, made: str) -> None:
    produce(kafka, made, range(20), partition=1)
    first = explicit(kafka, made)
    taken = take(first, 20)
    for message in taken[:5]:
        first.acknowledge(message, AcknowledgeType.ACCEPT)
    first.close()

    second = member(kafka, made)
    rest = take(second, 15)
    second.close()

    assert numbers(rest) == list(range(5, 20))
