"""confluent-kafka (librdkafka), unmodified."""

import time
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
)

pytestmark = pytest.mark.client("confluent-kafka", "2.16")
PATIENCE_S = 30


def producer(address: str, **config: str | int) -> Producer:
    return Producer({"bootstrap.servers": address, **config})


def consumer(address: str, group: str, **config: str | int | bool) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": address,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "heartbeat.interval.ms": 200,
            "session.timeout.ms": 6000,
            **config,
        }
    )


def take(source: Consumer, count: int) -> list[Message]:
    """Read so many messages, or fail."""
    found: list[Message] = []
    until = time.monotonic() + PATIENCE_S
    while len(found) < count and time.monotonic() < until:
        for message in source.consume(count - len(found), 0.5):
            assert message.error() is None, message.error()
            found.append(message)
    assert len(found) == count
    return found


@pytest.fixture
def admin(kafka: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": kafka})


@pytest.fixture
def made(kafka: str, admin: AdminClient, request: pytest.FixtureRequest) -> Iterator[str]:
    """A topic of three partitions, named after the test."""
    name = request.node.name.replace("[", ".").replace("]", "")[:200]
    admin.create_topics([NewTopic(name, 3, 1)])[name].result(PATIENCE_S)
    yield name
    admin.delete_topics([name])[name].result(PATIENCE_S)


def reader_of(kafka: str, topic: str, count: int) -> Consumer:
    """Produce so many events to the first partition; return a consumer that is subscribed."""
    sender = producer(kafka)
    for number in range(count):
        sender.produce(topic, str(number), partition=0)
    sender.flush(PATIENCE_S)
    found = consumer(kafka, topic)
    found.subscribe([topic])
    return found


@pytest.mark.shows("produce", "headers")
@pytest.mark.shows("consume")
@pytest.mark.shows("compression", "gzip", "snappy", "lz4", "zstd")
@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_what_is_produced_is_consumed_in_every_compression(
    kafka: str, made: str, codec: str
) -> None:
    sender = producer(kafka, **{"compression.type": codec})
    for number in range(300):
        sender.produce(made, f"value {number} " * 20, key=str(number), headers={"n": str(number)})

    assert sender.flush(PATIENCE_S) == 0
    source = consumer(kafka, made)
    source.subscribe([made])
    found = take(source, 300)

    values = {message.key(): message.value() for message in found}
    assert values == {str(n).encode(): (f"value {n} " * 20).encode() for n in range(300)}
    assert dict(found[0].headers() or [])["n"] == found[0].key()
    source.close()


@pytest.mark.shows("produce", "acks 0, 1 and all")
@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_every_kind_of_acknowledgement_works(kafka: str, made: str, acks: str) -> None:
    sender = producer(kafka, acks=acks)
    for number in range(50):
        sender.produce(made, str(number))

    assert sender.flush(PATIENCE_S) == 0
    source = consumer(kafka, made)
    source.subscribe([made])

    assert sorted(int(m.value() or b"") for m in take(source, 50)) == list(range(50))
    source.close()


@pytest.mark.shows("groups", "committed offsets")
def test_a_group_goes_on_where_it_committed(kafka: str, made: str) -> None:
    first = reader_of(kafka, made, 20)
    last = take(first, 10)[-1]
    first.commit(message=last, asynchronous=False)
    first.close()

    second = consumer(kafka, made)
    second.subscribe([made])
    rest = take(second, 10)

    assert [int(message.value() or b"") for message in rest] == list(range(10, 20))
    (committed,) = second.committed([TopicPartition(made, 0)], timeout=PATIENCE_S)
    assert committed.offset == 10
    second.close()


@pytest.mark.shows("groups", "rebalance: range, roundrobin, cooperative-sticky")
@pytest.mark.parametrize("assignor", ["range", "roundrobin", "cooperative-sticky"])
def test_members_of_a_group_share_partitions_and_take_over(
    kafka: str, made: str, assignor: str
) -> None:
    config = {"partition.assignment.strategy": assignor}
    one, two = consumer(kafka, made, **config), consumer(kafka, made, **config)
    one.subscribe([made])
    two.subscribe([made])

    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until and not (one.assignment() and two.assignment()):
        one.poll(0.1)
        two.poll(0.1)
    shares = [{p.partition for p in each.assignment()} for each in (one, two)]
    assert shares[0] | shares[1] == {0, 1, 2}
    assert not shares[0] & shares[1]
    one.close()
    while time.monotonic() < until and len(two.assignment()) < 3:
        two.poll(0.1)

    assert {p.partition for p in two.assignment()} == {0, 1, 2}
    two.close()


def test_every_group_sees_everything(kafka: str, made: str) -> None:
    sender = producer(kafka)
    for number in range(30):
        sender.produce(made, str(number))
    sender.flush(PATIENCE_S)

    for group in ("billing", "search"):
        source = consumer(kafka, f"{made}.{group}")
        source.subscribe([made])
        assert len(take(source, 30)) == 30
        source.close()


@pytest.mark.shows("consume", "from an offset, from a time")
def test_a_consumer_can_start_at_an_offset_and_at_a_time(kafka: str, made: str) -> None:
    sender = producer(kafka)
    for number in range(10):
        sender.produce(made, str(number), partition=1, timestamp=1_700_000_000_000 + number)
    sender.flush(PATIENCE_S)
    source = consumer(kafka, made)

    (found,) = source.offsets_for_times(
        [TopicPartition(made, 1, 1_700_000_000_007)], timeout=PATIENCE_S
    )
    source.assign([TopicPartition(made, 1, found.offset)])
    later = take(source, 3)

    assert found.offset == 7
    assert [message.value() for message in later] == [b"7", b"8", b"9"]
    assert source.get_watermark_offsets(TopicPartition(made, 1), timeout=PATIENCE_S) == (0, 10)
    source.close()


@pytest.mark.shows("administration", "topics", "partitions")
def test_topics_can_be_created_grown_and_deleted(kafka: str, admin: AdminClient) -> None:
    config = {"retention.ms": "3600000", "cleanup.policy": "compact", "mainstem.durability": "disk"}
    admin.create_topics([NewTopic("administered", 2, 1, config=config)])["administered"].result(30)
    admin.create_partitions([NewPartitions("administered", 5)])["administered"].result(30)

    assert len(admin.list_topics("administered", 10).topics["administered"].partitions) == 5
    admin.delete_topics(["administered"])["administered"].result(30)
    assert "administered" not in admin.list_topics(timeout=10).topics


@pytest.mark.refused("a replication factor above 1", "there is one broker, with one copy")
@pytest.mark.refused("configs that have no effect", "a config without effect would mislead")
def test_what_cannot_be_done_is_refused_with_a_reason(kafka: str, admin: AdminClient) -> None:
    with pytest.raises(KafkaException) as copies:
        admin.create_topics([NewTopic("copies", 1, 3)])["copies"].result(30)
    with pytest.raises(KafkaException) as setting:
        admin.create_topics([NewTopic("setting", 1, 1, config={"x.y": "1"})])["setting"].result(30)

    assert "one copy" in copies.value.args[0].str()
    assert setting.value.args[0].code() == KafkaError.INVALID_CONFIG


@pytest.mark.shows("administration", "groups")
def test_groups_can_be_listed_described_and_deleted(
    kafka: str, admin: AdminClient, made: str
) -> None:
    source = consumer(kafka, made)
    source.subscribe([made])
    sender = producer(kafka)
    sender.produce(made, "x")
    sender.flush(PATIENCE_S)
    source.commit(message=take(source, 1)[0], asynchronous=False)

    described = admin.describe_consumer_groups([made])[made].result(30)
    assert described.state.name == "STABLE"
    assert len(described.members) == 1
    source.close()
    assert made in {each.group_id for each in admin.list_consumer_groups().result(30).valid}
    admin.delete_consumer_groups([made])[made].result(30)
    assert made not in {each.group_id for each in admin.list_consumer_groups().result(30).valid}


@pytest.mark.refused("an event over max.message.bytes", "the topic's size limit")
def test_an_event_over_the_limit_is_refused_and_the_producer_goes_on(
    kafka: str, admin: AdminClient
) -> None:
    config = {"max.message.bytes": "5000"}
    admin.create_topics([NewTopic("small", 1, 1, config=config)])["small"].result(30)
    sender = producer(kafka)
    reports: list[KafkaError | None] = []

    def report(error: KafkaError | None, _: Message) -> None:
        reports.append(error)

    sender.produce("small", b"x" * 10_000, on_delivery=report)
    sender.flush(PATIENCE_S)
    sender.produce("small", b"y", on_delivery=report)
    sender.flush(PATIENCE_S)

    assert reports[0] is not None
    assert reports[0].code() == KafkaError.MSG_SIZE_TOO_LARGE
    assert reports[1] is None


@pytest.mark.shows("administration", "topic configs")
def test_settings_of_a_topic_can_be_read_and_changed(
    kafka: str, admin: AdminClient, made: str
) -> None:
    wanted = ConfigResource(ConfigResource.Type.TOPIC, made)
    before = admin.describe_configs([wanted])[wanted].result(30)
    entry = ConfigEntry("retention.ms", "60000", incremental_operation=AlterConfigOpType.SET)
    changed = ConfigResource(ConfigResource.Type.TOPIC, made, incremental_configs=[entry])
    admin.incremental_alter_configs([changed])[changed].result(30)

    after = admin.describe_configs([wanted])[wanted].result(30)

    assert before["retention.ms"].value == "-1"
    assert after["retention.ms"].value == "60000"
    assert after["mainstem.durability"].value == "fsync"


@pytest.mark.shows("produce", "idempotent")
def test_an_idempotent_producer_is_served(kafka: str, made: str) -> None:
    sender = producer(kafka, **{"enable.idempotence": "true"})
    for number in range(200):
        sender.produce(made, str(number), partition=0)

    assert sender.flush(PATIENCE_S) == 0
    source = consumer(kafka, made)
    source.assign([TopicPartition(made, 0, 0)])

    assert [int(m.value() or b"") for m in take(source, 200)] == list(range(200))
    source.close()


def transactional_producer(kafka: str, name: str) -> Producer:
    """Return a producer that fences earlier ones of its transactional id."""
    found = producer(kafka, **{"transactional.id": name})
    found.init_transactions(PATIENCE_S)
    return found


@pytest.mark.shows("transactions", "commit, abort, read_committed")
def test_only_committed_transactions_are_seen_by_those_who_ask_for_that(
    kafka: str, made: str
) -> None:
    sender = transactional_producer(kafka, made)
    for outcome in ("committed", "aborted", "committed"):
        sender.begin_transaction()
        for partition in range(3):
            sender.produce(made, outcome, partition=partition)
        sender.flush(PATIENCE_S)
        if outcome == "committed":
            sender.commit_transaction(PATIENCE_S)
        else:
            sender.abort_transaction(PATIENCE_S)

    committed = consumer(kafka, made, **{"isolation.level": "read_committed"})
    committed.subscribe([made])
    everything = consumer(kafka, f"{made}.all", **{"isolation.level": "read_uncommitted"})
    everything.subscribe([made])

    assert [m.value() for m in take(committed, 6)] == [b"committed"] * 6
    assert sorted(m.value() or b"" for m in take(everything, 9)).count(b"aborted") == 3
    committed.close()
    everything.close()


@pytest.mark.shows("transactions", "offsets committed in a transaction")
def test_cursors_move_with_the_transaction(kafka: str, made: str) -> None:
    source = reader_of(kafka, made, 4)
    take(source, 4)
    sender = transactional_producer(kafka, f"{made}.mover")

    for offset, commits in ((2, False), (3, True)):
        sender.begin_transaction()
        place = TopicPartition(made, 0, offset)
        sender.produce(made, "derived", partition=1)
        sender.send_offsets_to_transaction([place], source.consumer_group_metadata(), PATIENCE_S)
        if commits:
            sender.commit_transaction(PATIENCE_S)
        else:
            sender.abort_transaction(PATIENCE_S)

    (moved,) = source.committed([TopicPartition(made, 0)], timeout=PATIENCE_S)
    assert moved.offset == 3
    source.close()


@pytest.mark.shows("transactions", "fencing")
def test_a_second_producer_with_the_same_transactional_id_fences_the_first(
    kafka: str, made: str
) -> None:
    first = transactional_producer(kafka, made)
    first.begin_transaction()
    first.produce(made, "from the first")
    first.flush(PATIENCE_S)

    transactional_producer(kafka, made)

    with pytest.raises(KafkaException) as fenced:
        first.commit_transaction(PATIENCE_S)
    assert fenced.value.args[0].code() in (KafkaError._FENCED, KafkaError.PRODUCER_FENCED)
