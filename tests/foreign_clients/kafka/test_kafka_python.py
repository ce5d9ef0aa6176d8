"""kafka-python, unmodified."""

import time
from collections.abc import Iterator
from contextlib import ExitStack, closing

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import (
    ACLFilter,
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    ConfigResource,
    ConfigResourceType,
    KafkaAdminClient,
    NewTopic,
    OffsetSpec,
    ResourcePatternFilter,
    ResourceType,
)
from kafka.errors import IncompatibleBrokerVersion, ProducerFencedError, SecurityDisabledError
from kafka.structs import OffsetAndMetadata

pytestmark = [
    pytest.mark.client("kafka-python", "3.0"),
    pytest.mark.lacks("share groups", "kafka-python has no share consumer"),
]
PATIENCE_S = 60
"""Longer than the client waits for an answer (30 s) before it asks again."""


@pytest.fixture
def admin(kafka: str) -> Iterator[KafkaAdminClient]:
    made = KafkaAdminClient(bootstrap_servers=kafka)
    yield made
    made.close()


def produce(address: str, topic: str, count: int, **config: object) -> None:
    producer = KafkaProducer(bootstrap_servers=address, **config)
    sent = [producer.send(topic, str(number).encode()) for number in range(count)]
    producer.flush(PATIENCE_S)
    producer.close()
    # Flushing only waits: what became of each event, its own answer says.
    refused = {number: answer.exception for number, answer in enumerate(sent) if answer.exception}
    assert not refused, f"{len(refused)} of {count} events were not taken: {refused}"


def consume(address: str, topic: str, count: int, group: str | None = None) -> list[int]:
    consumer = KafkaConsumer(
        topic,
        bootstrap_servers=address,
        group_id=group,
        auto_offset_reset="earliest",
        consumer_timeout_ms=PATIENCE_S * 1000,
    )
    found = [int(message.value) for _, message in zip(range(count), consumer, strict=False)]
    if len(found) < count:
        raise AssertionError(f"{len(found)} of {count} events came; {standing(consumer, topic)}")
    consumer.close()
    return sorted(found)


def standing(consumer: KafkaConsumer, topic: str) -> str:
    """Say how far a consumer has got in a topic: what explains events that did not come."""
    places = sorted(consumer.assignment())
    reached = {place.partition: consumer.position(place, timeout_ms=5_000) for place in places}
    ends = {place.partition: end for place, end in consumer.end_offsets(places).items()}
    known = consumer.partitions_for_topic(topic)
    return f"partitions {known}, of them assigned and reached {reached}, ends {ends}"


@pytest.mark.shows("produce", "idempotent")
@pytest.mark.shows("consume")
@pytest.mark.shows("compression", "gzip", "snappy", "lz4", "zstd")
@pytest.mark.parametrize("codec", [None, "gzip", "snappy", "lz4", "zstd"])
def test_what_is_produced_is_consumed_in_every_compression(kafka: str, codec: str | None) -> None:
    topic = f"kafka-python.{codec}"

    produce(kafka, topic, 100, compression_type=codec, enable_idempotence=True)

    assert consume(kafka, topic, 100) == list(range(100))


@pytest.mark.shows("produce", "acks 0, 1 and all")
@pytest.mark.parametrize("acks", [0, 1, "all"])
def test_every_way_of_acknowledging(kafka: str, acks: int | str) -> None:
    topic = f"kafka-python.acks.{acks}"

    produce(kafka, topic, 20, acks=acks, enable_idempotence=False)

    assert consume(kafka, topic, 20) == list(range(20))


@pytest.mark.shows("groups", "committed offsets")
def test_a_group_goes_on_where_it_committed(kafka: str) -> None:
    produce(kafka, "kafka-python.group", 30)
    assert consume(kafka, "kafka-python.group", 30, "kp") == list(range(30))
    produce(kafka, "kafka-python.group", 5)

    assert consume(kafka, "kafka-python.group", 5, "kp") == list(range(5))


@pytest.mark.shows("groups", "rebalance")
def test_two_members_share_a_topic_and_one_takes_over(kafka: str) -> None:
    topic = "kafka-python.shared"
    produce(kafka, topic, 40)
    with ExitStack() as stack:
        members = [
            stack.enter_context(closing(_member(kafka, topic, "kafka-python.sharing")))
            for _ in range(2)
        ]
        _share_and_take_over(members)


def _member(kafka: str, topic: str, group: str) -> KafkaConsumer:
    member = KafkaConsumer(
        topic, bootstrap_servers=kafka, group_id=group, heartbeat_interval_ms=200
    )
    # A leader that has not heard of the topic shares out nothing, and may leave it at that.
    assert member.partitions_for_topic(topic)
    return member


def _share_and_take_over(members: list[KafkaConsumer]) -> None:
    def shared(sizes: list[int]) -> list[set[TopicPartition]]:
        until = time.monotonic() + PATIENCE_S
        while time.monotonic() < until:
            for member in members[: len(sizes)]:
                member.poll(timeout_ms=50)
            shares = [set(member.assignment()) for member in members[: len(sizes)]]
            if [len(share) for share in shares] == sizes:
                return shares
        raise AssertionError("they did not come to terms")

    one, two = shared([2, 2])
    members[1].close()
    (alone,) = shared([4])

    assert alone == one | two


@pytest.mark.shows("consume", "from an offset, from a time")
def test_offsets_are_found_by_time(kafka: str) -> None:
    producer = KafkaProducer(bootstrap_servers=kafka)
    for number in range(10):
        producer.send("kafka-python.time", b"x", partition=0, timestamp_ms=1_000_000 + number)
    producer.flush(PATIENCE_S)
    place = TopicPartition("kafka-python.time", 0)
    consumer = KafkaConsumer(bootstrap_servers=kafka)

    found = consumer.offsets_for_times({place: 1_000_004})

    assert found[place].offset == 4
    consumer.assign([place])
    consumer.seek(place, 4)
    assert next(consumer).offset == 4
    assert consumer.beginning_offsets([place]) == {place: 0}
    assert consumer.end_offsets([place]) == {place: 10}
    consumer.close()
    producer.close()


@pytest.mark.shows(
    "administration", "topics", "partitions", "description of the cluster", "log sizes"
)
def test_topics_can_be_created_grown_and_deleted(admin: KafkaAdminClient) -> None:
    admin.create_topics([NewTopic("kafka-python.made", 2, 1)])
    admin.create_partitions({"kafka-python.made": 5})

    (described,) = admin.describe_topics(["kafka-python.made"])
    assert len(described["partitions"]) == 5
    (stored,) = admin.describe_log_dirs()[0]["log_dirs"]
    assert "kafka-python.made" in {each["name"] for each in stored["topics"]}
    admin.delete_topics(["kafka-python.made"])
    assert "kafka-python.made" not in admin.list_topics()
    assert len(admin.describe_cluster()["brokers"]) == 1


@pytest.mark.shows("administration", "topic configs")
def test_settings_of_a_topic_can_be_read_changed_and_put_back(admin: KafkaAdminClient) -> None:
    name = "kafka-python.set"
    admin.create_topics([NewTopic(name, 1, 1)])

    def changed() -> dict[str, str]:
        found = admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, name)])
        assert {each["config_type"] for each in found["topic"][name].values()} <= {"LONG"}
        return {key: each["value"] for key, each in found["topic"][name].items()}

    wish = ConfigResource(ConfigResourceType.TOPIC, name, configs={"retention.ms": "60000"})
    admin.alter_configs([wish])
    assert changed() == {"retention.ms": "60000"}
    admin.reset_configs([wish])

    assert changed() == {}


@pytest.mark.shows("administration", "groups", "group offsets")
def test_groups_can_be_listed_described_moved_and_deleted(
    kafka: str, admin: KafkaAdminClient
) -> None:
    name, place = "kafka-python.seen", TopicPartition("kafka-python.seen", 0)
    produce(kafka, name, 8)
    consume(kafka, name, 8, name)

    assert name in {each["group_id"] for each in admin.list_groups()}
    assert admin.describe_groups([name])[name]["group_state"] == "Empty"
    admin.alter_group_offsets(name, {place: OffsetAndMetadata(1, "moved", -1)})
    assert admin.list_group_offsets({name: None})[name][place].offset == 1
    admin.delete_group_offsets(name, [place])
    assert place not in admin.list_group_offsets({name: None})[name]
    admin.delete_groups([name])
    assert name not in {each["group_id"] for each in admin.list_groups()}


@pytest.mark.shows("administration", "delete records", "offsets by time")
def test_events_before_an_offset_can_be_deleted(kafka: str, admin: KafkaAdminClient) -> None:
    produce(kafka, "kafka-python.trimmed", 100, compression_type="gzip")
    place = TopicPartition("kafka-python.trimmed", 0)
    (end,) = admin.list_partition_offsets({place: OffsetSpec.LATEST}).values()

    admin.delete_records({place: end.offset - 1})

    (start,) = admin.list_partition_offsets({place: OffsetSpec.EARLIEST}).values()
    assert start.offset == end.offset - 1


@pytest.mark.refused("access control lists", "there is no authentication yet")
def test_rules_are_refused_by_saying_that_there_are_none(admin: KafkaAdminClient) -> None:
    every = ResourcePatternFilter(ResourceType.ANY, None, ACLResourcePatternType.ANY)
    acls = ACLFilter(None, None, ACLOperation.ANY, ACLPermissionType.ANY, every)

    with pytest.raises(SecurityDisabledError, match="whoever can connect may do everything"):
        admin.describe_acls(acls)


@pytest.mark.refused("users and passwords (SCRAM)", "there is no authentication yet")
def test_what_is_not_served_is_not_announced(admin: KafkaAdminClient) -> None:
    with pytest.raises(IncompatibleBrokerVersion):
        admin.describe_user_scram_credentials()


@pytest.mark.shows(
    "administration", "leader elections", "partition reassignments", "description of the quorum"
)
def test_the_only_broker_leads_and_keeps_everything(admin: KafkaAdminClient) -> None:
    admin.create_topics([NewTopic("kafka-python.led", 1, 1)])
    place = TopicPartition("kafka-python.led", 0)

    elected = admin.elect_leaders(0, {place.topic: [0]}, raise_errors=False)
    assigned = admin.alter_partition_reassignments({place: [1]})
    moving = admin.list_partition_reassignments()
    quorum = admin.describe_metadata_quorum()

    assert elected.replica_election_results[0].partition_result[0].error_code == 84
    assert assigned == {place: None}
    assert moving == {}
    assert quorum["topics"][0]["partitions"][0]["leader_id"] == 1


@pytest.mark.shows("transactions", "commit, abort, read_committed")
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
            producer.flush(PATIENCE_S)
            producer.abort_transaction()
    producer.close()
    consumer = KafkaConsumer(
        topic,
        bootstrap_servers=kafka,
        auto_offset_reset="earliest",
        isolation_level="read_committed",
        consumer_timeout_ms=PATIENCE_S * 1000,
    )

    found = [int(message.value) for _, message in zip(range(2), consumer, strict=False)]

    assert sorted(found) == [0, 2]
    consumer.close()


def test_producers_and_transactions_are_described(kafka: str) -> None:
    topic, name = "kafka-python.described", "kafka-python.describing"
    producer = KafkaProducer(bootstrap_servers=kafka, transactional_id=name)
    producer.init_transactions()
    producer.begin_transaction()
    producer.send(topic, b"v", partition=0).get(PATIENCE_S)
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


@pytest.mark.shows("transactions", "offsets committed in a transaction")
def test_cursors_move_with_the_transaction(kafka: str, admin: KafkaAdminClient) -> None:
    place, group = TopicPartition("kafka-python.moved", 0), "kafka-python.movers"
    produce(kafka, place.topic, 40)
    producer = KafkaProducer(bootstrap_servers=kafka, transactional_id="kafka-python.mover")
    producer.init_transactions()

    for offset, commits in ((2, False), (3, True)):
        producer.begin_transaction()
        producer.send("kafka-python.derived", b"derived").get(PATIENCE_S)
        moved = {place: OffsetAndMetadata(offset, "", -1)}
        producer.send_offsets_to_transaction(moved, group)
        if commits:
            producer.commit_transaction()
        else:
            producer.abort_transaction()

    assert admin.list_group_offsets({group: None})[group][place].offset == 3
    producer.close()


@pytest.mark.shows("transactions", "fencing")
def test_a_second_producer_with_the_same_transactional_id_fences_the_first(kafka: str) -> None:
    first, second = (
        KafkaProducer(bootstrap_servers=kafka, transactional_id="kafka-python.one")
        for _ in range(2)
    )
    first.init_transactions()
    first.begin_transaction()
    first.send("kafka-python.fenced", b"x").get(PATIENCE_S)

    second.init_transactions()

    with pytest.raises(ProducerFencedError):
        first.commit_transaction()
    second.close()
    first.close()


@pytest.mark.shows("administration", "description of transactions and producers")
def test_transactions_and_producers_can_be_listed_and_described(
    kafka: str, admin: KafkaAdminClient
) -> None:
    producer = KafkaProducer(bootstrap_servers=kafka, transactional_id="kafka-python.watched")
    producer.init_transactions()
    producer.begin_transaction()
    producer.send("kafka-python.watched", b"x", partition=0).get(PATIENCE_S)
    place = TopicPartition("kafka-python.watched", 0)

    listed = {each.transactional_id for each in admin.list_transactions()[1]}
    described = admin.describe_transactions(["kafka-python.watched"])["kafka-python.watched"]
    (writer,) = admin.describe_producers([place])[place].active_producers

    assert "kafka-python.watched" in listed
    assert described.producer_id == writer.producer_id
    producer.abort_transaction()
    producer.close()
