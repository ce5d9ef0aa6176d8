"""Metrics: they match what real Kafka clients did, and all of them are documented."""

import re
import socket
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic
from prometheus_client.parser import text_string_to_metric_families
from tests.heads.admin.web import answer_to, connect, get
from tests.heads.kafka.raw_peers import Peer
from tests.heads.kafka.share_member import ACCEPT, REJECT, RELEASE, Sharer, configure, put
from tests.in_process_server import server

from mainstem.broker.door import DelayedEvent
from mainstem.connectors.settings import ConnectorSettings
from mainstem.core.event import Event
from mainstem.core.topic_settings import Overload, TopicSettings
from mainstem.feeds import NngFeed, ZmqFeed
from mainstem.heads import HEADS
from mainstem.heads.moldudp64.feeds import Feed, FeedDefinitions
from mainstem.heads.nng.settings import NngSettings
from mainstem.heads.zmq.settings import ZmqSettings
from mainstem.node.config import Config
from mainstem.node.metrics import METRICS
from mainstem.node.node import Node, open_node
from mainstem.node.scrape import Scrape
from mainstem.node.server import Running

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "metrics.md"
GUIDE = PAGE.parents[1] / "guides" / "monitoring.md"
INTRODUCTION = """\
# Metrics

`mainstem serve` has these metrics at `http://127.0.0.1:9644/metrics` (`--admin` sets the address),
in the text format of Prometheus. Counters start at zero when the server starts. At most 10,000
partitions and 10,000 cursors (committed offsets of groups) are included;
`mainstem_metrics_left_out` counts the rest.

Generated from `node/metrics.py` by `python -m tests.node.test_metrics`.

| name | kind | labels | meaning |
|---|---|---|---|
"""
NOW_MS = 1_800_000_000_000

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def page() -> str:
    rows = [
        f"| `{each.name}` | {each.kind} | {', '.join(each.labels)} | {each.sentence} |"
        for each in METRICS
    ]
    return INTRODUCTION + "\n".join(rows) + "\n"


class Metrics:
    """What a parser that we did not write makes of the text."""

    def __init__(self, text: str) -> None:
        self.families = {each.name: each for each in text_string_to_metric_families(text)}
        self._samples: Samples = {
            (sample.name, frozenset(sample.labels.items())): sample.value
            for family in self.families.values()
            for sample in family.samples
        }

    def value(self, name: str, **labels: str) -> float:
        return self._samples[name, frozenset(labels.items())]

    def labels(self, name: str, label: str) -> set[str]:
        return {dict(labels)[label] for each, labels in self._samples if each == name}


def metrics_of(running: Running) -> Metrics:
    answer = get(str(running.admin), "/metrics")
    assert answer.status == 200
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    return Metrics(answer.text)


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    with server(tmp_path, now_ms=lambda: NOW_MS) as found:
        yield found


@pytest.fixture
def node() -> Iterator[Node]:
    found = open_node(None, Config(), now_ms=lambda: NOW_MS)
    yield found
    found.close()


def produce(running: Running, topic: str, count: int, *, first_ms: int = NOW_MS) -> None:
    producer = Producer({"bootstrap.servers": str(running.kafka), "linger.ms": 50})
    for number in range(count):
        producer.produce(topic, b"%d" % number, partition=0, timestamp=first_ms + number)
    assert producer.flush(20) == 0


def consumer_of(running: Running, group: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": str(running.kafka),
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )


def test_queues_tell_what_is_left_out_again_and_dead(running: Running) -> None:
    topic = "metrics.queue"
    with Peer(str(running.kafka)) as peer:
        put(peer, topic, 5)
    member = Sharer(str(running.kafka), topic)
    configure(member.peer, topic, "share.auto.offset.reset", "earliest")
    member.joined().fetch()

    member.acknowledge([(0, 0, [ACCEPT]), (1, 2, [RELEASE]), (3, 3, [REJECT])])
    member.fetch(max_records=1, mode=1)

    found = metrics_of(running)
    labels = {"topic": topic, "queue": topic}
    assert found.value("mainstem_queue_backlog", **labels) == 3
    assert found.value("mainstem_queue_out", **labels) == 2
    assert found.value("mainstem_queue_redelivered_total", **labels) == 1
    assert found.value("mainstem_queue_dead_total", **labels) == 1
    member.close()


def test_the_reference_page_has_the_metrics_of_today() -> None:
    assert PAGE.read_text() == page(), "run: python -m tests.node.test_metrics"


def test_the_guide_names_only_metrics_that_there_are() -> None:
    named = set(re.findall(r"\b(?:mainstem|kafka|process)_\w+", GUIDE.read_text()))

    known = {each.name for each in METRICS}
    assert len(named) > 10
    assert {re.sub("_(bucket|sum|count)$", "", each) for each in named} <= known


def test_every_metric_says_in_a_sentence_what_it_is_and_has_a_name_of_its_kind() -> None:
    assert len({each.name for each in METRICS}) == len(METRICS)
    for each in METRICS:
        assert each.sentence.endswith("."), each.name
        assert each.name.endswith("_total") == (each.kind == "counter"), each.name


def test_what_producers_did_is_counted(running: Running) -> None:
    produce(running, "orders", 100)

    found = metrics_of(running)

    assert found.value("kafka_topic_partition_current_offset", topic="orders", partition="0") == 100
    assert found.value("kafka_topic_partition_oldest_offset", topic="orders", partition="0") == 0
    assert found.value("kafka_topic_partitions", topic="orders") == 4
    assert found.value("mainstem_kafka_produced_events_total") == 100
    batches = found.value("mainstem_kafka_produced_batches_total")
    assert 1 <= batches <= 100
    assert found.value("mainstem_kafka_requests_total", api="Produce") <= batches
    size = found.value("mainstem_kafka_produced_bytes_total")
    assert found.value("mainstem_topic_size_bytes", topic="orders") == size
    assert found.value("mainstem_received_bytes_total", head="kafka") > size
    assert found.value("mainstem_sent_bytes_total", head="kafka") > 0
    assert found.value("mainstem_connections_accepted_total", head="kafka") >= 1
    assert found.value("mainstem_connections", head="admin") == 1


def test_commits_to_disk_are_counted_timed_and_sized(running: Running) -> None:
    produce(running, "orders", 100)

    found = metrics_of(running)

    commits = found.value("mainstem_log_fsync_seconds_count")
    assert commits > 0
    assert found.value("mainstem_log_fsync_seconds_bucket", le="+Inf") == commits
    assert found.value("mainstem_log_fsync_seconds_sum") > 0
    assert found.value("mainstem_log_commit_appends_count") == commits
    assert found.value("mainstem_log_commit_appends_sum") >= commits


def test_how_far_a_group_is_behind_is_shown_in_events_and_seconds(running: Running) -> None:
    produce(running, "orders", 100, first_ms=NOW_MS - 90_000)
    place = {"consumergroup": "billing", "topic": "orders", "partition": "0"}
    consumer = consumer_of(running, "billing")
    consumer.subscribe(["orders"])

    assert len(consumer.consume(40, 20)) == 40
    consumer.commit(offsets=[TopicPartition("orders", 0, 40)], asynchronous=False)
    found = metrics_of(running)

    assert found.value("kafka_consumergroup_current_offset", **place) == 40
    assert found.value("kafka_consumergroup_lag", **place) == 60
    assert found.value("kafka_consumergroup_members", consumergroup="billing") == 1
    # The event at offset 40 is 40 ms younger than the first.
    behind = found.value("mainstem_consumergroup_lag_seconds", consumergroup="billing")
    assert behind == pytest.approx(89.96)

    consumer.commit(offsets=[TopicPartition("orders", 0, 100)], asynchronous=False)
    consumer.close()
    found = metrics_of(running)

    assert found.value("kafka_consumergroup_lag", **place) == 0
    assert found.value("kafka_consumergroup_members", consumergroup="billing") == 0
    assert found.value("mainstem_consumergroup_lag_seconds", consumergroup="billing") == 0
    assert found.value("mainstem_kafka_fetched_bytes_total") > 0


def test_what_is_refused_is_counted_by_request_and_code(running: Running) -> None:
    admin = AdminClient({"bootstrap.servers": str(running.kafka)})
    admin.create_topics([NewTopic("orders", 1)])["orders"].result(20)

    with pytest.raises(KafkaException):
        admin.create_topics([NewTopic("orders", 1)])["orders"].result(20)
    with pytest.raises(KafkaException):
        admin.describe_configs([missing := ConfigResource(ConfigResource.Type.TOPIC, "none")])[
            missing
        ].result(20)
    found = metrics_of(running)

    assert found.value("mainstem_kafka_requests_total", api="CreateTopics") == 2
    refused = {"api": "CreateTopics", "code": "TOPIC_ALREADY_EXISTS"}
    assert found.value("mainstem_kafka_errors_total", **refused) == 1
    unknown = {"api": "DescribeConfigs", "code": "UNKNOWN_TOPIC_OR_PARTITION"}
    assert found.value("mainstem_kafka_errors_total", **unknown) == 1


def test_peers_that_are_cut_off_are_counted(running: Running) -> None:
    for address in (running.kafka, running.admin):
        with connect(str(address)) as hostile:
            answer_to(hostile, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")

    found = metrics_of(running)

    assert found.value("mainstem_connections_cut_off_total", head="kafka") == 1
    assert found.value("mainstem_connections_cut_off_total", head="admin") == 1
    assert found.value("mainstem_connections", head="kafka") == 0


def test_the_process_and_what_runs_in_it_are_described(running: Running) -> None:
    found = metrics_of(running)

    assert found.value("mainstem_ready") == 1
    assert found.value("mainstem_log_stopped") == 0
    assert found.labels("mainstem_build_info", "version")
    assert found.value("process_resident_memory_bytes") > 1 << 20
    assert found.value("process_open_fds") > 5
    assert found.value("process_cpu_seconds_total") > 0
    assert found.value("process_start_time_seconds") > 1_500_000_000


def test_every_metric_is_shown_by_a_server_in_use_with_the_kind_that_is_declared(
    tmp_path: Path,
) -> None:
    zmq = ZmqSettings(pull="trades=127.0.0.1:0", push="trades/workers=127.0.0.1:0")
    nng = NngSettings(
        topics="trades",
        pull="trades=127.0.0.1:0",
        push="trades/workers=127.0.0.1:0",
        subscribers="trades/desk=127.0.0.1:0",
    )
    config = msgspec.structs.replace(Config(), heads=Config().heads | {"zmq": zmq, "nng": nng})
    everywhere = config.listening(**{head.name: "127.0.0.1:0" for head in HEADS})
    define_connector(tmp_path)
    define_feed(tmp_path)
    with (
        server(tmp_path, config=everywhere) as running,
        ZmqFeed(f"tcp://{running.addresses['zmq']}", "trades"),
        NngFeed(f"tcp://{running.addresses['nng']}", "trades"),
    ):
        use(running)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            sender.sendto(b"no metric", running.addresses["statsd"].pair)
            sender.sendto(b"no request", running.addresses["moldudp64"].pair)
        counted = {
            "mainstem_statsd_bad_lines",
            "mainstem_moldudp64_requests",
            "mainstem_zmq_published",
        }
        while not counted <= metrics_of(running).families.keys():
            pass
        found = {family.name: family.type for family in metrics_of(running).families.values()}

    assert found == {each.name.removesuffix("_total"): each.kind for each in METRICS}


def define_connector(directory: Path) -> None:
    """Leave a connector behind, whose database is away."""
    node = open_node(directory, Config())
    settings = ConnectorSettings(name="shop", url="postgres://127.0.0.1:1/shop")
    value = msgspec.json.encode(settings)
    node.broker.definitions.open("connectors").set("config", "shop", value).wait()
    node.close()


def define_feed(directory: Path) -> None:
    """Leave a multicast feed and a queue behind."""
    node = open_node(directory, Config())
    topic = node.broker.create_topic("trades").topic
    node.broker.queues.create("trades", "workers").wait()
    stored = FeedDefinitions(node.broker.definitions.open("moldudp64"))
    stored.create(Feed("S1", "trades", 0, "239.255.77.9:30998", topic_id=topic.id)).wait()
    node.close()


def use(running: Running) -> None:
    """Do what makes the metrics of the Kafka head and of groups be there."""
    produce(running, "orders", 1)
    admin = AdminClient({"bootstrap.servers": str(running.kafka)})
    with pytest.raises(KafkaException):
        admin.create_topics([NewTopic("orders", 1)])["orders"].result(20)
    consumer = consumer_of(running, "billing")
    consumer.commit(offsets=[TopicPartition("orders", 0, 0)], asynchronous=False)
    consumer.close()
    member = Sharer(str(running.kafka), "orders").joined()
    member.close()


def test_drops_and_holds_are_shown_per_topic(node: Node) -> None:
    settings = TopicSettings(overload=Overload.DROP_NEWEST, max_backlog=1)
    node.broker.create_topic("full", settings)
    node.broker.publish("full", [Event(b"1")])
    with pytest.raises(Exception, match="max_backlog"):
        node.broker.publish("full", [Event(b"2")])
    scrape = Scrape(lambda: None, "1")
    scrape.node = node

    found = Metrics(scrape.text())

    assert found.value("mainstem_topic_refused_events_total", topic="full") == 1
    assert found.value("mainstem_topic_dropped_events_total", topic="full") == 0
    assert found.value("mainstem_topic_held_requests_total", topic="full") == 0


def test_delayed_events_are_counted_and_the_next_one_has_its_time(node: Node) -> None:
    node.broker.create_topic("t")
    later = [DelayedEvent(Event(b""), due_ms, "t") for due_ms in (2**42, 2**41)]
    node.broker.publish_all((), delayed=later)
    scrape = Scrape(lambda: None, "1")
    scrape.node = node

    found = Metrics(scrape.text())

    assert found.value("mainstem_delayed_events") == 2
    assert found.value("mainstem_delayed_next_due_timestamp_seconds") == 2**41 / 1000
    assert found.value("mainstem_delayed_dropped_events_total") == 0


def test_a_group_may_have_any_name(node: Node) -> None:
    name = 'a"b\\c\\nd}e,f=ü'
    node.broker.create_topic("orders")
    node.broker.commit(name, {("orders", 0): 0})
    scrape = Scrape(lambda: None, "1")
    scrape.node = node

    found = Metrics(scrape.text())

    assert found.labels("kafka_consumergroup_lag", "consumergroup") == {name}


def test_of_too_many_topics_and_groups_some_are_shown_and_the_rest_is_counted(node: Node) -> None:
    for number in range(20):
        node.broker.create_topic(f"topic-{number}")
        node.broker.commit(f"group-{number}", {(f"topic-{number}", 0): 0})
    scrape = Scrape(lambda: None, "1", max_partitions=5)
    scrape.node = node

    found = Metrics(scrape.text())

    assert len(found.labels("kafka_topic_partition_current_offset", "topic")) == 5
    assert len(found.labels("kafka_consumergroup_lag", "consumergroup")) == 5
    assert found.value("mainstem_metrics_left_out", kind="topic") == 15
    assert found.value("mainstem_metrics_left_out", kind="group") == 15


def test_a_server_that_is_still_recovering_has_metrics_too() -> None:
    scrape = Scrape(lambda: "recovering", "1")

    found = Metrics(scrape.text())

    assert found.value("mainstem_ready") == 0
    assert found.value("process_open_fds") > 0


if __name__ == "__main__":
    PAGE.write_text(page())
