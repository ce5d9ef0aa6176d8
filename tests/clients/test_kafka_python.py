"""kafka-python, unmodified."""

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import KafkaAdminClient, NewTopic


def produce(address: str, topic: str, count: int, **config: object) -> None:
    producer = KafkaProducer(bootstrap_servers=address, **config)
    for number in range(count):
        producer.send(topic, str(number).encode())
    producer.flush(30)
    producer.close()


def consume(address: str, topic: str, count: int, group: str | None = None) -> list[int]:
    consumer = KafkaConsumer(
        topic,
        bootstrap_servers=address,
        group_id=group,
        auto_offset_reset="earliest",
        consumer_timeout_ms=30_000,
    )
    found = [int(message.value) for _, message in zip(range(count), consumer, strict=False)]
    consumer.close()
    return sorted(found)


@pytest.mark.parametrize("codec", [None, "gzip", "snappy", "lz4", "zstd"])
def test_what_is_produced_is_consumed_in_every_compression(kafka: str, codec: str | None) -> None:
    topic = f"kafka-python.{codec}"

    produce(kafka, topic, 100, compression_type=codec)

    assert consume(kafka, topic, 100) == list(range(100))


def test_a_group_reads_everything_once(kafka: str) -> None:
    produce(kafka, "kafka-python.group", 30)

    assert consume(kafka, "kafka-python.group", 30, "kp") == list(range(30))


def test_offsets_are_found_by_time(kafka: str) -> None:
    producer = KafkaProducer(bootstrap_servers=kafka)
    for number in range(10):
        producer.send("kafka-python.time", b"x", partition=0, timestamp_ms=1_000_000 + number)
    producer.flush(30)
    place = TopicPartition("kafka-python.time", 0)
    consumer = KafkaConsumer(bootstrap_servers=kafka)

    found = consumer.offsets_for_times({place: 1_000_004})

    assert found[place].offset == 4
    assert consumer.beginning_offsets([place]) == {place: 0}
    assert consumer.end_offsets([place]) == {place: 10}
    consumer.close()
    producer.close()


def test_topics_can_be_created_and_deleted(kafka: str) -> None:
    admin = KafkaAdminClient(bootstrap_servers=kafka)

    admin.create_topics([NewTopic("kafka-python.made", 2, 1)])
    assert "kafka-python.made" in admin.list_topics()
    admin.delete_topics(["kafka-python.made"])

    assert "kafka-python.made" not in admin.list_topics()
    admin.close()


def test_only_committed_transactions_are_seen_by_those_who_ask_for_that(kafka: str) -> None:
    topic = "kafka-python.transactions"
    producer = KafkaProducer(bootstrap_servers=kafka, transactional_id="kafka-python")
    producer.init_transactions()
    for number, commits in enumerate([True, False, True]):
        producer.begin_transaction()
        producer.send(topic, str(number).encode())
        if commits:
            producer.commit_transaction()
        else:
            producer.flush(30)
            producer.abort_transaction()
    producer.close()
    consumer = KafkaConsumer(
        topic,
        bootstrap_servers=kafka,
        auto_offset_reset="earliest",
        isolation_level="read_committed",
        consumer_timeout_ms=30_000,
    )

    found = [int(message.value) for _, message in zip(range(2), consumer, strict=False)]

    assert sorted(found) == [0, 2]
    consumer.close()


def test_producers_and_transactions_are_described(kafka: str) -> None:
    topic, name = "kafka-python.described", "kafka-python.describing"
    producer = KafkaProducer(bootstrap_servers=kafka, transactional_id=name)
    producer.init_transactions()
    producer.begin_transaction()
    producer.send(topic, b"v", partition=0).get(30)
    admin = KafkaAdminClient(bootstrap_servers=kafka)
    place = TopicPartition(topic, 0)

    (listed,) = admin.list_transactions(state_filters=["Ongoing"])[1]
    described = admin.describe_transactions([name])[name]
    (writing,) = admin.describe_producers([place])[place].active_producers

    assert (listed.transactional_id, listed.state) == (name, "Ongoing")
    assert described.topic_partitions == {place}
    assert described.producer_id == writing.producer_id == listed.producer_id
    assert writing.current_transaction_start_offset == 0
    producer.commit_transaction()
    assert admin.describe_transactions([name])[name].state == "CompleteCommit"
    producer.close()
    admin.close()
