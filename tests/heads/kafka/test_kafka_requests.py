"""Requests that no client library sends in every form, over a real socket."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.heads.kafka.raw_peers import Peer, produce, served

from mainstem.core.event import Event
from mainstem.core.records import build
from mainstem.heads.kafka.adapter.fetching.leader_epochs import end_of
from mainstem.kafka_protocol.error_codes import Code
from mainstem.kafka_protocol.messages.configs import (
    LIST_CONFIG_RESOURCES,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from mainstem.kafka_protocol.messages.fetch import (
    FETCH,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)
from mainstem.kafka_protocol.messages.log_dirs import (
    DESCRIBE_LOG_DIRS,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    LogDirsTopic,
)
from mainstem.kafka_protocol.messages.metadata import (
    METADATA,
    MetadataRequest,
    MetadataResponse,
    MetadataTopicName,
)
from mainstem.kafka_protocol.messages.offsets import (
    LIST_OFFSETS,
    OFFSET_FOR_LEADER_EPOCH,
    EpochPartition,
    EpochTopic,
    ListedOffset,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
)
from mainstem.kafka_protocol.messages.produce import (
    PRODUCE,
    ProducePartition,
    ProduceRequest,
    ProduceResponse,
    ProduceTopic,
)
from mainstem.kafka_protocol.messages.topic_partitions import (
    DESCRIBE_TOPIC_PARTITIONS,
    DescribeTopicName,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
)
from mainstem.kafka_protocol.messages.topics import (
    DELETE_TOPICS,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)
from mainstem.node.config import Config
from mainstem.node.node import open_node

TIMES = [5, 9, 3, 9, 7]


@pytest.fixture(scope="module")
def peer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peer]:
    """A client of a server that has a topic of four partitions, with events in the first."""
    path: Path = tmp_path_factory.mktemp("served")
    with served(path) as address, Peer(address) as found:
        for time_ms in TIMES:
            assert produce(found, "t", bytes(build([Event(value=b"v")], now_ms=time_ms))).index == 0
        yield found


def offset(peer: Peer, timestamp: int, *, version: int = 9, partition: int = 0) -> ListedOffset:
    place = ListOffsetsPartition(partition, timestamp=timestamp)
    wish = ListOffsetsRequest(-1, 0, (ListOffsetsTopic("t", (place,)),))
    answer = peer.ask(LIST_OFFSETS, version, wish, ListOffsetsResponse)
    return answer.topics[0].partitions[0]


@pytest.mark.parametrize(
    ("timestamp", "expected"), [(-1, 5), (-2, 0), (-3, 1), (-4, 0), (-5, -1), (6, 1), (10, -1)]
)
def test_offsets_by_time_and_at_the_ends(peer: Peer, timestamp: int, expected: int) -> None:
    found = offset(peer, timestamp)

    assert found.error_code == 0
    assert found.offset == expected


@pytest.mark.parametrize("version", range(1, 12))
def test_offsets_in_every_version(peer: Peer, version: int) -> None:
    assert offset(peer, -1, version=version).offset == 5


def test_an_empty_partition_has_no_latest_time(peer: Peer) -> None:
    found = offset(peer, -3, partition=1)

    assert (found.error_code, found.offset, found.timestamp) == (0, -1, -1)


def test_a_time_that_means_nothing_is_refused(peer: Peer) -> None:
    assert Code(offset(peer, -99).error_code) is Code.UNSUPPORTED_VERSION


def ended(peer: Peer, epoch: int, current: int = -1) -> tuple[int, int, int]:
    place = EpochPartition(0, current, epoch)
    wish = OffsetForLeaderEpochRequest(topics=(EpochTopic("t", (place,)),))
    answer = peer.ask(OFFSET_FOR_LEADER_EPOCH, 4, wish, OffsetForLeaderEpochResponse)
    found = answer.topics[0].partitions[0]
    return found.error_code, found.leader_epoch, found.end_offset


def test_the_current_epoch_ends_at_the_tail(peer: Peer) -> None:
    epoch = offset(peer, -1).leader_epoch

    assert ended(peer, epoch, epoch) == (0, epoch, 5)
    assert ended(peer, epoch + 1) == (0, -1, -1)
    assert ended(peer, epoch, epoch + 1)[0] == Code.UNKNOWN_LEADER_EPOCH


def test_an_earlier_epoch_ends_where_the_next_began() -> None:
    node = open_node(None, Config())
    broker = node.broker
    broker.create_topic("t")
    for _ in range(3):
        for _ in range(5):
            broker.publish("t", [Event(value=b"v")] * 2)
        # Takes the last event back, and begins an epoch.
        broker.truncate("t", 0, broker.bounds("t", 0).tail - 1)
    first = broker.bounds("t", 0).epoch - 3

    found = [end_of(broker, "t", 0, first + number) for number in range(4)]

    assert found == [(first, 9), (first + 1, 18), (first + 2, 27), (first + 2, 27)]
    node.close()


@pytest.mark.parametrize("version", [13, 15, 17, 18])
def test_a_fetch_names_topics_by_id(peer: Peer, version: int) -> None:
    topics = (MetadataTopicName(name="t"),)
    known = peer.ask(METADATA, 12, MetadataRequest(topics), MetadataResponse).topics[0].topic_id
    places = (FetchPartition(0, fetch_offset=3, partition_max_bytes=1 << 20),)
    wish = FetchRequest(
        min_bytes=1,
        topics=(
            FetchTopic(topic_id=known, partitions=places),
            FetchTopic(topic_id=bytes(15) + b"x", partitions=places),
        ),
    )

    found, unknown = peer.ask(FETCH, version, wish, FetchResponse).responses

    assert (found.topic_id, found.partitions[0].high_watermark) == (known, 5)
    assert found.partitions[0].records
    assert Code(unknown.partitions[0].error_code) is Code.UNKNOWN_TOPIC_ID


def test_a_fetch_session_that_nobody_began_is_not_found(peer: Peer) -> None:
    wish = FetchRequest(max_wait_ms=1000, min_bytes=1, session_id=5, session_epoch=3)

    answer = peer.ask(FETCH, 12, wish, FetchResponse)

    assert Code(answer.error_code) is Code.FETCH_SESSION_ID_NOT_FOUND


def test_log_dirs_tell_sizes(peer: Peer) -> None:
    wish = DescribeLogDirsRequest((LogDirsTopic("t", (0, 1, 99)), LogDirsTopic("none", (0,))))

    (found,) = peer.ask(DESCRIBE_LOG_DIRS, 4, wish, DescribeLogDirsResponse).results
    (everything,) = peer.ask(
        DESCRIBE_LOG_DIRS, 1, DescribeLogDirsRequest(None), DescribeLogDirsResponse
    ).results

    sizes = {each.partition_index: each.partition_size for each in found.topics[0].partitions}
    assert sizes[0] > 0
    assert sizes[1] == 0
    assert len(found.topics) == 1
    assert [each.name for each in everything.topics] == ["t"]


def test_partitions_are_described_page_by_page(peer: Peer) -> None:
    topics = (DescribeTopicName("t"), DescribeTopicName("none"))
    wish = DescribeTopicPartitionsRequest(topics, 3)

    first = peer.ask(DESCRIBE_TOPIC_PARTITIONS, 0, wish, DescribeTopicPartitionsResponse)
    wish = DescribeTopicPartitionsRequest(topics, 3, first.next_cursor)
    second = peer.ask(DESCRIBE_TOPIC_PARTITIONS, 0, wish, DescribeTopicPartitionsResponse)

    assert [each.name for each in first.topics] == ["none", "t"]
    assert first.topics[0].error_code == Code.UNKNOWN_TOPIC_OR_PARTITION
    assert [each.partition_index for each in first.topics[1].partitions] == [0, 1, 2]
    assert [each.partition_index for each in second.topics[0].partitions] == [3]
    assert second.next_cursor is None


def test_what_has_settings_is_listed_by_kind(peer: Peer) -> None:
    def listed(version: int, *kinds: int) -> tuple[Code, list[tuple[str, int]]]:
        wish = ListConfigResourcesRequest(kinds)
        answer = peer.ask(LIST_CONFIG_RESOURCES, version, wish, ListConfigResourcesResponse)
        found = [(each.resource_name, each.resource_type) for each in answer.config_resources]
        return Code(answer.error_code), found

    assert listed(1) == (Code.NONE, [("t", 2), ("1", 4)])
    assert listed(1, 2) == (Code.NONE, [("t", 2)])
    assert listed(1, 4, 16) == (Code.NONE, [("1", 4)])
    assert listed(1, 99) == (Code.UNSUPPORTED_VERSION, [])
    assert listed(0) == (Code.NONE, [])


def test_a_producer_names_topics_by_id_and_is_not_taken_to_one_of_the_same_name() -> None:
    batch = memoryview(bytes(build([Event(value=b"v")], now_ms=1)))

    def written(peer: Peer, topic_id: bytes) -> Code:
        topic = ProduceTopic(topic_id, partition_data=(ProducePartition(0, batch),))
        wish = ProduceRequest(acks=-1, timeout_ms=1000, topic_data=(topic,))
        (answer,) = peer.ask(PRODUCE, 13, wish, ProduceResponse).responses
        assert answer.topic_id == topic_id
        return Code(answer.partition_responses[0].error_code)

    def created(peer: Peer) -> bytes:
        asked = MetadataRequest((MetadataTopicName(name="t"),), allow_auto_topic_creation=True)
        return peer.ask(METADATA, 12, asked, MetadataResponse).topics[0].topic_id

    with served(None) as address, Peer(address) as peer:
        before = created(peer)
        assert [written(peer, before) for _ in range(3)] == [Code.NONE] * 3
        wish = DeleteTopicsRequest(topic_names=("t",), timeout_ms=1000)
        peer.ask(DELETE_TOPICS, 5, wish, DeleteTopicsResponse)
        after = created(peer)

        assert written(peer, before) is Code.UNKNOWN_TOPIC_ID
        assert written(peer, after) is Code.NONE
