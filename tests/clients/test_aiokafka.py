"""aiokafka, unmodified."""

import asyncio

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic


async def produce(address: str, topic: str, count: int, **config: object) -> None:
    producer = AIOKafkaProducer(bootstrap_servers=address, **config)
    await producer.start()
    for number in range(count):
        await producer.send(topic, str(number).encode(), key=str(number % 7).encode())
    await producer.stop()


async def consume(address: str, topic: str, count: int, group: str | None = None) -> list[int]:
    consumer = AIOKafkaConsumer(
        topic, bootstrap_servers=address, group_id=group, auto_offset_reset="earliest"
    )
    await consumer.start()
    found = [int((await asyncio.wait_for(anext(consumer), 30)).value) for _ in range(count)]
    await consumer.stop()
    return sorted(found)


@pytest.mark.parametrize("codec", [None, "gzip", "snappy", "lz4", "zstd"])
async def test_what_is_produced_is_consumed_in_every_compression(
    kafka: str, codec: str | None
) -> None:
    topic = f"aiokafka.{codec}"

    await produce(kafka, topic, 100, compression_type=codec)

    assert await consume(kafka, topic, 100) == list(range(100))


async def test_a_group_goes_on_where_it_committed(kafka: str) -> None:
    await produce(kafka, "aiokafka.group", 30)
    assert await consume(kafka, "aiokafka.group", 30, "aio") == list(range(30))
    await produce(kafka, "aiokafka.group", 5)

    again = await consume(kafka, "aiokafka.group", 5, "aio")

    assert again == list(range(5))


async def test_two_members_share_a_topic(kafka: str) -> None:
    await produce(kafka, "aiokafka.shared", 40)
    members = [
        AIOKafkaConsumer(
            "aiokafka.shared",
            bootstrap_servers=kafka,
            group_id="sharing",
            auto_offset_reset="earliest",
            heartbeat_interval_ms=200,
        )
        for _ in range(2)
    ]
    await asyncio.gather(*(member.start() for member in members))

    async def shared() -> list[set[TopicPartition]]:
        while True:
            shares = [set(member.assignment()) for member in members]
            if all(shares) and len(shares[0] | shares[1]) == 4:
                return shares
            await asyncio.gather(*(member.getmany(timeout_ms=50) for member in members))

    one, two = await asyncio.wait_for(shared(), 30)

    assert not one & two
    await asyncio.gather(*(member.stop() for member in members))


async def test_topics_can_be_created_and_deleted(kafka: str) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=kafka)
    await admin.start()

    await admin.create_topics([NewTopic("aiokafka.made", 2, 1)])
    assert "aiokafka.made" in await admin.list_topics()
    await admin.delete_topics(["aiokafka.made"])
    left = await admin.list_topics()

    assert "aiokafka.made" not in left
    await admin.close()


async def test_only_committed_transactions_are_seen_by_those_who_ask_for_that(kafka: str) -> None:
    topic = "aiokafka.transactions"
    producer = AIOKafkaProducer(bootstrap_servers=kafka, transactional_id="aiokafka")
    await producer.start()
    for number, commits in enumerate([True, False, True]):
        await producer.begin_transaction()
        await producer.send_and_wait(topic, str(number).encode(), partition=0)
        await (producer.commit_transaction() if commits else producer.abort_transaction())
    await producer.stop()
    consumer = AIOKafkaConsumer(
        topic,
        bootstrap_servers=kafka,
        auto_offset_reset="earliest",
        isolation_level="read_committed",
    )
    await consumer.start()

    found = [(await asyncio.wait_for(anext(consumer), 30)).value for _ in range(2)]

    assert found == [b"0", b"2"]
    await consumer.stop()
