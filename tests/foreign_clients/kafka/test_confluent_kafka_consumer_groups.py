"""confluent-kafka (librdkafka), unmodified, with ``group.protocol=consumer`` [KIP-848]."""

from contextlib import ExitStack, closing, suppress
from itertools import count
from pathlib import Path

import pytest
from confluent_kafka import (
    Consumer,
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    ConsumerGroupType,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
)
from tests.foreign_clients.kafka.polling import PATIENCE_S, until
from tests.in_process_server import serving

pytestmark = pytest.mark.client("confluent-kafka", "2.16")
PARTITIONS = 4


@pytest.fixture
def topic(admin: AdminClient, request: pytest.FixtureRequest) -> str:
    """A topic named after the test."""
    name: str = request.node.name.replace("[", ".").replace("]", "")[:200]
    admin.create_topics([NewTopic(name, PARTITIONS, 1)])[name].result(PATIENCE_S)
    return name


class Reader:
    """A consumer, with all that it has read."""

    def __init__(self, address: str, group: str, *topics: str, **settings: str) -> None:
        self.consumer = Consumer(
            {
                "bootstrap.servers": address,
                "group.id": group,
                "group.protocol": "consumer",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": "false",
            }
            | {name.replace("_", "."): value for name, value in settings.items()}
        )
        self.consumer.subscribe(list(topics))
        self.values: list[str] = []
        self._is_closed = False

    def poll(self) -> None:
        """Read what is there; what is wrong for a while is no matter."""
        message = self.consumer.poll(0.05)
        if message is None:
            return
        error = message.error()
        if error is None:
            self.values.append((message.value() or b"").decode())
        else:
            assert error.retriable() or not error.fatal(), error

    @property
    def owned(self) -> set[tuple[str, int]]:
        """What it may read now."""
        return {(each.topic, each.partition) for each in self.consumer.assignment()}

    def __str__(self) -> str:
        return f"{self.owned}, {len(self.values)} read"

    def close(self) -> None:
        """Leave the group, once."""
        if not self._is_closed:
            self._is_closed = True
            self.consumer.close()


def publish(address: str, topic: str, *values: str) -> None:
    """Publish to all partitions in turn."""
    producer = Producer({"bootstrap.servers": address})
    for number, value in enumerate(values):
        producer.produce(topic, value, partition=number % PARTITIONS)
    assert producer.flush(PATIENCE_S) == 0


def everything(*topics: str) -> set[tuple[str, int]]:
    return {(topic, number) for topic in topics for number in range(PARTITIONS)}


@pytest.mark.shows("groups", "consumer protocol (KIP-848)", "offsets committed by two members")
def test_partitions_are_shared_by_two_members_and_go_on_where_they_committed(
    kafka: str, topic: str
) -> None:
    publish(kafka, topic, *map(str, range(100)))
    with closing(Reader(kafka, topic, topic)) as first:
        until(lambda: len(first.values) == 100, first)
        first.consumer.commit(asynchronous=False)

        with closing(Reader(kafka, topic, topic)) as second:
            until(lambda: len(first.owned) == len(second.owned) == 2, first, second)
            assert first.owned | second.owned == everything(topic)
            publish(kafka, topic, *map(str, range(100, 200)))
            until(lambda: len(first.values) + len(second.values) == 200, first, second)
            second.consumer.commit(asynchronous=False)

        until(lambda: first.owned == everything(topic), first)

    assert sorted(first.values + second.values, key=int) == [str(each) for each in range(200)]


@pytest.mark.shows("groups", "static members")
def test_a_static_member_that_comes_back_finds_its_partitions(kafka: str, topic: str) -> None:
    with closing(Reader(kafka, topic, topic, group_instance_id="one")) as other:
        back = Reader(kafka, topic, topic, group_instance_id="two")
        until(lambda: len(other.owned) == len(back.owned) == 2, other, back)
        had, kept = back.owned, other.owned
        back.close()

        with closing(Reader(kafka, topic, topic, group_instance_id="two")) as again:
            until(lambda: again.owned == had, again, other)

        assert other.owned == kept


@pytest.mark.shows("groups", "regular expressions")
def test_topics_are_found_by_a_regular_expression_also_when_they_come_later(
    kafka: str, topic: str, admin: AdminClient
) -> None:
    later = f"{topic}.later"
    with closing(Reader(kafka, topic, f"^{topic}(\\..*)?")) as reader:
        until(lambda: reader.owned == everything(topic), reader)

        admin.create_topics([NewTopic(later, PARTITIONS, 1)])[later].result(PATIENCE_S)

        until(lambda: reader.owned == everything(topic, later), reader)


@pytest.mark.shows("groups", "range and uniform assignors of the server")
def test_the_range_assignor_gives_runs_of_partitions(kafka: str, topic: str) -> None:
    with ExitStack() as stack:
        readers = [
            stack.enter_context(closing(Reader(kafka, topic, topic, group_remote_assignor="range")))
            for _ in range(2)
        ]
        until(lambda: all(len(each.owned) == 2 for each in readers), *readers)

        runs = sorted(sorted(number for _, number in each.owned) for each in readers)
        assert runs == [[0, 1], [2, 3]]


@pytest.mark.shows("administration", "group configs", "groups of both protocols")
def test_a_group_is_described_listed_and_set_up(kafka: str, topic: str, admin: AdminClient) -> None:
    interval = ConfigEntry(
        "consumer.heartbeat.interval.ms", "500", incremental_operation=AlterConfigOpType.SET
    )
    settings = ConfigResource(ConfigResource.Type.GROUP, topic, incremental_configs=[interval])
    admin.incremental_alter_configs([settings])[settings].result(PATIENCE_S)
    asked = ConfigResource(ConfigResource.Type.GROUP, topic)
    with closing(Reader(kafka, topic, topic)) as reader:
        until(lambda: reader.owned == everything(topic), reader)
        reader.consumer.commit(offsets=[TopicPartition(topic, 0, 0)], asynchronous=False)

        shown = admin.describe_consumer_groups([topic])[topic].result(PATIENCE_S)
        listed = admin.list_consumer_groups().result(PATIENCE_S).valid
        configs = admin.describe_configs([asked])[asked].result(PATIENCE_S)
        (offsets,) = admin.list_consumer_group_offsets(
            [ConsumerGroupTopicPartitions(topic)]
        ).values()

    assert shown.state is ConsumerGroupState.STABLE
    (member,) = shown.members
    found = {(each.topic, each.partition) for each in member.assignment.topic_partitions}
    assert found == everything(topic)
    (one,) = [each for each in listed if each.group_id == topic]
    assert one.type is ConsumerGroupType.CONSUMER
    assert configs["consumer.heartbeat.interval.ms"].value == "500"
    assert [each.offset for each in offsets.result(PATIENCE_S).topic_partitions] == [0]


@pytest.mark.shows("groups", "from the classic protocol to the consumer protocol and back")
def test_an_empty_group_goes_from_one_protocol_to_the_other_and_keeps_its_offsets(
    kafka: str, topic: str
) -> None:
    for number, protocol in enumerate(("classic", "consumer", "classic", "consumer")):
        publish(kafka, topic, str(number))

        with closing(Reader(kafka, topic, topic, group_protocol=protocol)) as reader:
            until(lambda: bool(reader.values), reader)
            reader.consumer.commit(asynchronous=False)

        assert reader.values == [str(number)]


@pytest.mark.shows("groups", "upgrade to the consumer protocol member by member")
@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_a_live_group_goes_from_one_protocol_to_the_other_and_back(
    kafka: str, topic: str, strategy: str
) -> None:
    classic = {
        "group_protocol": "classic",
        "partition_assignment_strategy": strategy,
        "heartbeat_interval_ms": "200",
        "session_timeout_ms": "30000",
    }

    rounds = count()

    def share(*readers: Reader) -> None:
        """Wait until all have their share, and read everything that is new."""
        until(lambda: len(readers) * len(readers[0].owned) == PARTITIONS, *readers)
        until(lambda: {at for each in readers for at in each.owned} == everything(topic), *readers)
        turn = next(rounds)
        new = {f"{turn}-{number}" for number in range(20)}
        publish(kafka, topic, *new)
        # A member of the classic protocol may have to join once more, and then what it has read and
        # not committed comes again: to it, or to the other one.
        until(lambda: new <= {value for each in readers for value in each.values}, *readers)
        for each in readers:
            with suppress(KafkaException):
                each.consumer.commit(asynchronous=False)

    with ExitStack() as stack:
        old = [stack.enter_context(closing(Reader(kafka, topic, topic, **classic))) for _ in "ab"]
        share(*old)

        new = stack.enter_context(closing(Reader(kafka, topic, topic)))
        old.pop().close()
        share(old[0], new)

        old.pop().close()
        share(new)

        old.append(stack.enter_context(closing(Reader(kafka, topic, topic, **classic))))
        share(old[0], new)

        new.close()
        share(old[0])

        places = [TopicPartition(topic, number) for number in range(PARTITIONS)]
        assert [at.offset for at in old[0].consumer.committed(places)] == [25] * PARTITIONS


@pytest.mark.shows("groups", "members survive a restart of the server")
def test_a_restart_of_the_server_moves_nothing(tmp_path: Path) -> None:
    with ExitStack() as stack:
        with serving(tmp_path) as address:
            admin = AdminClient({"bootstrap.servers": address})
            admin.create_topics([NewTopic("t", PARTITIONS, 1)])["t"].result(PATIENCE_S)
            readers = [stack.enter_context(closing(Reader(address, "g", "t"))) for _ in range(2)]
            until(lambda: all(len(each.owned) == 2 for each in readers), *readers)
            # Only now, as what one has read and not committed would come again to the other.
            publish(address, "t", *map(str, range(50)))
            until(lambda: sum(len(each.values) for each in readers) == 50, *readers)
            had = [each.owned for each in readers]

        with serving(tmp_path, int(address.rpartition(":")[2])):
            publish(address, "t", *map(str, range(50, 100)))
            until(lambda: sum(len(each.values) for each in readers) == 100, *readers)
            for each in readers:
                each.consumer.commit(asynchronous=False)
            assert [each.owned for each in readers] == had
            stack.close()

    assert sorted((value for each in readers for value in each.values), key=int) == [
        str(each) for each in range(100)
    ]
