"""confluent-kafka (librdkafka), unmodified: what only its administration does."""

from collections.abc import Iterator
from concurrent.futures import Future

import pytest
from confluent_kafka import (
    TIMESTAMP_LOG_APPEND_TIME,
    Consumer,
    ConsumerGroupTopicPartitions,
    ElectionType,
    KafkaError,
    KafkaException,
    Producer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    OffsetSpec,
    ResourcePatternType,
    ResourceType,
)

pytestmark = pytest.mark.client("confluent-kafka", "2.16")
PATIENCE_S = 30
FIRST_MS = 1_700_000_000_000


@pytest.fixture
def made(kafka: str, admin: AdminClient, request: pytest.FixtureRequest) -> Iterator[str]:
    """A topic of two partitions, named after the test, with ten events in the first."""
    name: str = request.node.name
    admin.create_topics([NewTopic(name, 2, 1)])[name].result(PATIENCE_S)
    sender = Producer({"bootstrap.servers": kafka})
    for number in range(10):
        sender.produce(name, str(number), partition=0, timestamp=FIRST_MS + number)
    assert sender.flush(PATIENCE_S) == 0
    yield name
    admin.delete_topics([name])[name].result(PATIENCE_S)


def offset(admin: AdminClient, place: TopicPartition, end: str) -> int:
    spec: OffsetSpec = getattr(OffsetSpec, end)()
    (found,) = admin.list_offsets({place: spec}).values()
    return int(found.result(PATIENCE_S).offset)


@pytest.mark.shows("administration", "offsets by time")
def test_offsets_are_listed_at_the_ends_and_by_time(admin: AdminClient, made: str) -> None:
    place = TopicPartition(made, 0)

    (found,) = admin.list_offsets({place: OffsetSpec.for_timestamp(FIRST_MS + 4)}).values()

    assert found.result(PATIENCE_S).offset == 4
    assert offset(admin, place, "earliest") == 0
    assert offset(admin, place, "latest") == 10
    assert offset(admin, place, "max_timestamp") == 9


@pytest.mark.shows("administration", "delete records")
def test_events_before_an_offset_can_be_deleted(admin: AdminClient, made: str) -> None:
    (done,) = admin.delete_records([TopicPartition(made, 0, 4)]).values()

    assert done.result(PATIENCE_S).low_watermark == 4
    assert offset(admin, TopicPartition(made, 0), "earliest") == 4


@pytest.mark.parametrize("before", [-7, 11])
def test_deleting_events_before_no_offset_of_a_topic_is_refused(
    admin: AdminClient, before: int
) -> None:
    name = f"not-deleted{before}"
    admin.create_topics([NewTopic(name, 1, 1)])[name].result(PATIENCE_S)

    (refused,) = admin.delete_records([TopicPartition(name, 0, before)]).values()

    with pytest.raises(KafkaException) as error:
        refused.result(PATIENCE_S)
    assert error.value.args[0].code() == KafkaError.OFFSET_OUT_OF_RANGE


@pytest.mark.shows("administration", "group offsets")
def test_offsets_of_a_group_can_be_altered_listed_and_go_with_the_group(
    admin: AdminClient, made: str
) -> None:
    def listed() -> list[tuple[int, int]]:
        (found,) = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(made)]).values()
        return [(each.partition, each.offset) for each in found.result(30).topic_partitions or ()]

    wish = ConsumerGroupTopicPartitions(made, [TopicPartition(made, 0, 7)])
    (altered,) = admin.alter_consumer_group_offsets([wish]).values()
    altered.result(PATIENCE_S)
    assert listed() == [(0, 7)]
    admin.delete_consumer_groups([made])[made].result(PATIENCE_S)

    assert listed() == []


@pytest.mark.shows("administration", "description of the cluster", "topics")
def test_the_cluster_and_topics_are_described(kafka: str, admin: AdminClient, made: str) -> None:
    cluster = admin.describe_cluster().result(PATIENCE_S)
    (found,) = admin.describe_topics(TopicCollection([made])).values()

    assert [f"{node.host}:{node.port}" for node in cluster.nodes] == [kafka]
    assert [each.id for each in found.result(PATIENCE_S).partitions] == [0, 1]
    assert cluster.authorized_operations is None


@pytest.mark.shows("administration", "authorized operations")
def test_whoever_asks_what_may_be_done_is_told_everything(
    kafka: str, admin: AdminClient, made: str
) -> None:
    configs = {"DESCRIBE_CONFIGS", "ALTER_CONFIGS"}

    cluster = admin.describe_cluster(include_authorized_operations=True).result(PATIENCE_S)
    asked = admin.describe_topics(TopicCollection([made]), include_authorized_operations=True)
    topic = asked[made].result(PATIENCE_S)

    assert {each.name for each in cluster.authorized_operations} == configs | {
        *("CREATE", "ALTER", "DESCRIBE", "CLUSTER_ACTION", "IDEMPOTENT_WRITE")
    }
    assert {each.name for each in topic.authorized_operations} == configs | {
        *("READ", "WRITE", "CREATE", "DELETE", "ALTER", "DESCRIBE")
    }
    for protocol in ("classic", "consumer"):
        group = f"asked-{protocol}"
        config = {"group.id": group, "group.protocol": protocol, "auto.offset.reset": "earliest"}
        member = Consumer({"bootstrap.servers": kafka} | config)
        member.subscribe([made])
        assert len(member.consume(10, PATIENCE_S)) == 10
        found = admin.describe_consumer_groups([group], include_authorized_operations=True)
        allowed = {each.name for each in found[group].result(PATIENCE_S).authorized_operations}
        member.close()
        assert allowed == {"READ", "DELETE", "DESCRIBE"} | configs


@pytest.mark.refused("access control lists", "there is no authentication yet")
def test_rules_are_refused_by_saying_that_there_are_none(admin: AdminClient) -> None:
    every = AclBindingFilter(
        ResourceType.TOPIC,
        "orders",
        ResourcePatternType.LITERAL,
        "User:me",
        "*",
        AclOperation.ANY,
        AclPermissionType.ANY,
    )
    one = AclBinding(
        ResourceType.TOPIC,
        "orders",
        ResourcePatternType.LITERAL,
        "User:me",
        "*",
        AclOperation.READ,
        AclPermissionType.DENY,
    )

    refused = [*admin.create_acls([one]).values(), *admin.delete_acls([every]).values()]

    # What is said beside the list of none is not passed on by librdkafka.
    assert admin.describe_acls(every).result(PATIENCE_S) == []
    assert len(refused) == 2
    for each in refused:
        with pytest.raises(KafkaException, match="whoever can connect may do") as error:
            each.result(PATIENCE_S)
        assert error.value.args[0].code() == KafkaError.SECURITY_DISABLED


@pytest.mark.refused("users and passwords (SCRAM)", "there is no authentication yet")
def test_what_is_not_served_is_not_announced(admin: AdminClient) -> None:
    scram = admin.describe_user_scram_credentials()
    assert isinstance(scram, Future)

    with pytest.raises(KafkaException) as refused:
        scram.result(PATIENCE_S)

    assert refused.value.args[0].code() == KafkaError._UNSUPPORTED_FEATURE


@pytest.mark.shows("administration", "leader elections")
def test_every_partition_has_its_leader_already(admin: AdminClient) -> None:
    admin.create_topics([NewTopic("admin.elections", 1)])["admin.elections"].result(PATIENCE_S)
    wanted = [TopicPartition("admin.elections", 0), TopicPartition("admin.elections", 1)]

    found = admin.elect_leaders(ElectionType.PREFERRED, wanted).result(PATIENCE_S)

    codes = {place.partition: error.code() for place, error in found.items()}
    assert codes == {0: KafkaError.ELECTION_NOT_NEEDED, 1: KafkaError.UNKNOWN_TOPIC_OR_PART}


@pytest.mark.refused(
    "changes of broker configs at run time", "the server reads them only when it starts"
)
def test_settings_of_the_broker_can_only_be_read(admin: AdminClient) -> None:
    wanted = ConfigResource(ConfigResource.Type.BROKER, "1")
    entry = ConfigEntry("log.retention.ms", "60000", incremental_operation=AlterConfigOpType.SET)
    changed = ConfigResource(ConfigResource.Type.BROKER, "1", incremental_configs=[entry])

    assert admin.describe_configs([wanted])[wanted].result(PATIENCE_S)
    with pytest.raises(KafkaException) as refused:
        admin.incremental_alter_configs([changed])[changed].result(PATIENCE_S)

    assert refused.value.args[0].code() == KafkaError.INVALID_CONFIG


@pytest.mark.refused(
    "TLS and SASL", "there is no authentication yet; the server listens on loopback only"
)
@pytest.mark.parametrize("security", ["SSL", "SASL_PLAINTEXT"])
def test_a_client_that_wants_security_is_told_that_there_is_none(kafka: str, security: str) -> None:
    errors: list[KafkaError] = []
    sender = Producer(
        {
            "bootstrap.servers": kafka,
            "security.protocol": security,
            "sasl.mechanism": "PLAIN",
            "sasl.username": "me",
            "sasl.password": "secret",
            "error_cb": errors.append,
            "log_level": 0,
        }
    )

    while not errors:
        sender.poll(0.1)

    assert errors[0].code() in (KafkaError._TRANSPORT, KafkaError._AUTHENTICATION, KafkaError._SSL)


@pytest.mark.shows("administration", "configs of Kafka's files, stored without effect")
def test_a_setting_of_files_is_kept_and_shown_and_can_be_taken_back(admin: AdminClient) -> None:
    name, setting, other = "kept", "file.delete.delay.ms", "segment.jitter.ms"
    admin.create_topics([NewTopic(name, 1, 1, config={setting: "1"})])[name].result(PATIENCE_S)

    def after(value: str | None, operation: AlterConfigOpType) -> dict[str, tuple[str, bool]]:
        entry = ConfigEntry(setting, value, incremental_operation=operation)
        more = ConfigEntry(other, "7", incremental_operation=AlterConfigOpType.SET)
        changed = ConfigResource(ResourceType.TOPIC, name, incremental_configs=[entry, more])
        admin.incremental_alter_configs([changed])[changed].result(PATIENCE_S)
        (entries,) = admin.describe_configs([ConfigResource(ResourceType.TOPIC, name)]).values()
        shown = entries.result(PATIENCE_S)
        return {each: (shown[each].value, shown[each].is_default) for each in (setting, other)}

    assert after("12345", AlterConfigOpType.SET) == {setting: ("12345", False), other: ("7", False)}
    assert after(None, AlterConfigOpType.DELETE) == {setting: ("60000", True), other: ("7", False)}
    with pytest.raises(KafkaException, match="not a number"):
        after("soon", AlterConfigOpType.SET)


@pytest.mark.shows(
    "administration", "LogAppendTime, compression.type, cleanup.policy=compact,delete"
)
def test_a_topic_may_say_when_and_how_events_are_stored(kafka: str, admin: AdminClient) -> None:
    name = "stored-otherwise"
    config = {"message.timestamp.type": "LogAppendTime", "compression.type": "gzip"}
    admin.create_topics([NewTopic(name, 1, 1, config=config)])[name].result(PATIENCE_S)
    append = ConfigEntry(
        "cleanup.policy", "compact", incremental_operation=AlterConfigOpType.APPEND
    )
    resource = ConfigResource(ResourceType.TOPIC, name, incremental_configs=[append])
    admin.incremental_alter_configs([resource])[resource].result(PATIENCE_S)
    sender = Producer({"bootstrap.servers": kafka, "compression.type": "zstd"})
    told: list[tuple[int, int]] = []

    sender.produce(
        name, b"a", b"key", timestamp=FIRST_MS, on_delivery=lambda _, m: told.append(m.timestamp())
    )
    assert sender.flush(PATIENCE_S) == 0

    (entries,) = admin.describe_configs([ConfigResource(ResourceType.TOPIC, name)]).values()
    shown = {each.name: each.value for each in entries.result(PATIENCE_S).values()}
    assert {each: shown[each] for each in config} == config
    assert shown["cleanup.policy"] == "compact"
    reader = Consumer({"bootstrap.servers": kafka, "group.id": name})
    reader.assign([TopicPartition(name, 0, 0)])
    event = reader.poll(PATIENCE_S)
    reader.close()
    assert event is not None
    assert event.value() == b"a"
    assert event.timestamp()[0] == TIMESTAMP_LOG_APPEND_TIME
    assert event.timestamp()[1] > FIRST_MS
    assert told == [event.timestamp()]
