"""aiokafka, unmodified."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRebalanceListener, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import ProducerFenced
from tests.faults.killable_server import Mortal

pytestmark = [
    pytest.mark.client("aiokafka", "0.14"),
    pytest.mark.lacks("share groups", "aiokafka has no share consumer"),
]


@pytest.fixture
async def admin(kafka: str) -> AsyncIterator[AIOKafkaAdminClient]:
    made = AIOKafkaAdminClient(bootstrap_servers=kafka)
    await made.start()
    yield made
    await made.close()


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


@pytest.mark.shows("produce", "idempotent")
@pytest.mark.shows("consume")
@pytest.mark.shows("compression", "gzip", "snappy", "lz4", "zstd")
@pytest.mark.parametrize("codec", [None, "gzip", "snappy", "lz4", "zstd"])
async def test_what_is_produced_is_consumed_in_every_compression(
    kafka: str, codec: str | None
) -> None:
    topic = f"aiokafka.{codec}"

    await produce(kafka, topic, 100, compression_type=codec, enable_idempotence=True)

    assert await consume(kafka, topic, 100) == list(range(100))


@pytest.mark.shows("produce", "acks 0, 1 and all")
@pytest.mark.parametrize("acks", [0, 1, "all"])
async def test_every_way_of_acknowledging(kafka: str, acks: int | str) -> None:
    topic = f"aiokafka.acks.{acks}"

    await produce(kafka, topic, 20, acks=acks)

    assert await consume(kafka, topic, 20) == list(range(20))


@pytest.mark.shows("consume", "from an offset, from a time")
async def test_a_consumer_can_start_at_an_offset_and_at_a_time(kafka: str) -> None:
    producer = AIOKafkaProducer(bootstrap_servers=kafka)
    await producer.start()
    for number in range(10):
        await producer.send_and_wait(
            "aiokafka.time", str(number).encode(), partition=0, timestamp_ms=1_000_000 + number
        )
    await producer.stop()
    place = TopicPartition("aiokafka.time", 0)
    consumer = AIOKafkaConsumer(bootstrap_servers=kafka)
    await consumer.start()
    consumer.assign([place])

    found = await consumer.offsets_for_times({place: 1_000_004})
    consumer.seek(place, found[place].offset)
    first = await asyncio.wait_for(consumer.getone(), 30)

    assert first.value == b"4"
    assert await consumer.beginning_offsets([place]) == {place: 0}
    assert await consumer.end_offsets([place]) == {place: 10}
    await consumer.stop()


@pytest.mark.shows("groups", "committed offsets")
async def test_a_group_goes_on_where_it_committed(kafka: str) -> None:
    await produce(kafka, "aiokafka.group", 30)
    assert await consume(kafka, "aiokafka.group", 30, "aio") == list(range(30))
    await produce(kafka, "aiokafka.group", 5)

    again = await consume(kafka, "aiokafka.group", 5, "aio")

    assert again == list(range(5))


@pytest.mark.shows("groups", "rebalance")
async def test_two_members_share_a_topic_and_one_takes_over(kafka: str) -> None:
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

    async def shared(sizes: list[int]) -> list[set[TopicPartition]]:
        while True:
            shares = [set(member.assignment()) for member in members[: len(sizes)]]
            if [len(share) for share in shares] == sizes:
                return shares
            await asyncio.gather(*(each.getmany(timeout_ms=50) for each in members[: len(sizes)]))

    one, two = await asyncio.wait_for(shared([2, 2]), 30)
    await members[1].stop()
    (alone,) = await asyncio.wait_for(shared([4]), 30)

    assert alone == one | two
    await members[0].stop()


class Changes(ConsumerRebalanceListener):  # type: ignore[misc]
    """What a consumer is told of its assignment."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def on_partitions_revoked(self, revoked: object) -> None:
        self.seen.append("revoked")

    def on_partitions_assigned(self, assigned: object) -> None:
        self.seen.append("assigned")


@pytest.mark.shows("groups", "members survive a restart of the server")
async def test_a_member_stays_over_a_kill_of_the_server(tmp_path: Path) -> None:
    with Mortal(tmp_path) as server:
        await produce(server.address, "t", 10)
        consumer = AIOKafkaConsumer(
            bootstrap_servers=server.address,
            group_id="g",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            heartbeat_interval_ms=200,
            retry_backoff_ms=50,
        )
        changes = Changes()
        consumer.subscribe(["t"], listener=changes)
        await consumer.start()
        found = [int((await asyncio.wait_for(anext(consumer), 30)).value) for _ in range(10)]
        member_id, told = consumer._coordinator.member_id, list(changes.seen)

        await asyncio.to_thread(server.kill)
        await asyncio.to_thread(server.start)
        await produce(server.address, "t", 10)
        found += [int((await asyncio.wait_for(anext(consumer), 30)).value) for _ in range(10)]
        await consumer.commit()

        assert sorted(found[:10]) == sorted(found[10:]) == [*range(10)]
        assert changes.seen == told
        assert consumer._coordinator.member_id == member_id
        await consumer.stop()


@pytest.mark.shows("administration", "topics", "partitions", "description of the cluster")
async def test_topics_can_be_created_grown_and_deleted(admin: AIOKafkaAdminClient) -> None:
    await admin.create_topics([NewTopic("aiokafka.made", 2, 1)])
    await admin.create_partitions({"aiokafka.made": NewPartitions(5)})

    (described,) = await admin.describe_topics(["aiokafka.made"])
    assert len(described["partitions"]) == 5
    assert "aiokafka.made" in await admin.list_topics()
    await admin.delete_topics(["aiokafka.made"])
    assert "aiokafka.made" not in await admin.list_topics()
    assert len((await admin.describe_cluster())["brokers"]) == 1


@pytest.mark.shows("administration", "topic configs")
async def test_settings_of_a_topic_can_be_read_and_changed(admin: AIOKafkaAdminClient) -> None:
    await admin.create_topics([NewTopic("aiokafka.set", 1, 1)])
    wanted = ConfigResource(ConfigResourceType.TOPIC, "aiokafka.set")
    changed = ConfigResource(
        ConfigResourceType.TOPIC, "aiokafka.set", configs={"retention.ms": "60000"}
    )

    await admin.alter_configs([changed])

    (answer,) = await admin.describe_configs([wanted])
    ((_, _, _, _, entries),) = answer.resources
    assert {entry[0]: entry[1] for entry in entries}["retention.ms"] == "60000"


@pytest.mark.shows("administration", "groups", "group offsets")
async def test_groups_can_be_listed_and_described(kafka: str, admin: AIOKafkaAdminClient) -> None:
    await produce(kafka, "aiokafka.seen", 8)
    assert await consume(kafka, "aiokafka.seen", 8, "aiokafka.seen") == list(range(8))

    assert ("aiokafka.seen", "consumer") in await admin.list_consumer_groups()
    ((described,),) = [
        answer.groups for answer in await admin.describe_consumer_groups(["aiokafka.seen"])
    ]
    cursors = await admin.list_consumer_group_offsets("aiokafka.seen")

    assert described[1:3] == ("aiokafka.seen", "Empty")
    assert sum(each.offset for each in cursors.values()) == 8


@pytest.mark.shows("administration", "delete records")
async def test_events_before_an_offset_can_be_deleted(
    kafka: str, admin: AIOKafkaAdminClient
) -> None:
    await produce(kafka, "aiokafka.trimmed", 70)
    place = TopicPartition("aiokafka.trimmed", 0)
    consumer = AIOKafkaConsumer(bootstrap_servers=kafka)
    await consumer.start()

    assert await admin.delete_records({place: RecordsToDelete(before_offset=3)}) == {place: 3}

    assert await consumer.beginning_offsets([place]) == {place: 3}
    await consumer.stop()


@pytest.mark.shows("transactions", "commit, abort, read_committed")
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


@pytest.mark.shows("transactions", "offsets committed in a transaction")
async def test_cursors_move_with_the_transaction(kafka: str) -> None:
    place = TopicPartition("aiokafka.moved", 0)
    await produce(kafka, place.topic, 40)
    producer = AIOKafkaProducer(bootstrap_servers=kafka, transactional_id="aiokafka.mover")
    await producer.start()

    for offset, commits in ((2, False), (3, True)):
        await producer.begin_transaction()
        await producer.send_and_wait("aiokafka.derived", b"derived", partition=0)
        await producer.send_offsets_to_transaction({place: offset}, "aiokafka.movers")
        await (producer.commit_transaction() if commits else producer.abort_transaction())

    consumer = AIOKafkaConsumer(bootstrap_servers=kafka, group_id="aiokafka.movers")
    await consumer.start()
    consumer.assign([place])
    assert await consumer.committed(place) == 3
    await consumer.stop()
    await producer.stop()


@pytest.mark.shows("transactions", "fencing")
async def test_a_second_producer_with_the_same_transactional_id_fences_the_first(
    kafka: str,
) -> None:
    first, second = (
        AIOKafkaProducer(bootstrap_servers=kafka, transactional_id="aiokafka.one") for _ in range(2)
    )
    await first.start()
    await first.begin_transaction()
    await first.send_and_wait("aiokafka.fenced", b"x", partition=0)

    await second.start()

    with pytest.raises(ProducerFenced):
        await first.commit_transaction()
    await second.stop()
    await first.stop()
