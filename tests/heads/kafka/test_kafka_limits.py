"""Settings of the Kafka head are honoured, and what is beyond a limit is refused by code."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from tests.heads.kafka.raw_peers import Healthy, Peer, fetching, produce, production, request
from tests.in_process_server import server

from mainstem.core.event import Event
from mainstem.core.records import build
from mainstem.kafka_protocol.api import Api
from mainstem.kafka_protocol.error_codes import Code
from mainstem.kafka_protocol.fields import Wire
from mainstem.kafka_protocol.messages.commits import (
    OFFSET_FETCH,
    OffsetFetchGroup,
    OffsetFetchRequest,
)
from mainstem.kafka_protocol.messages.configs import (
    DESCRIBE_CONFIGS,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from mainstem.kafka_protocol.messages.consumer_groups import (
    CONSUMER_GROUP_DESCRIBE,
    ConsumerGroupDescribeRequest,
)
from mainstem.kafka_protocol.messages.fetch import (
    FETCH,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)
from mainstem.kafka_protocol.messages.groups import (
    DELETE_GROUPS,
    DESCRIBE_GROUPS,
    DeleteGroupsRequest,
    DescribeGroupsRequest,
)
from mainstem.kafka_protocol.messages.membership import (
    FIND_COORDINATOR,
    LEAVE_GROUP,
    FindCoordinatorRequest,
    LeaveGroupRequest,
    LeavingMember,
)
from mainstem.kafka_protocol.messages.metadata import (
    METADATA,
    MetadataRequest,
    MetadataResponse,
    MetadataTopicName,
)
from mainstem.kafka_protocol.messages.produce import PRODUCE
from mainstem.kafka_protocol.messages.producers import (
    DESCRIBE_TRANSACTIONS,
    DescribeTransactionsRequest,
)
from mainstem.kafka_protocol.messages.transactions import (
    INIT_PRODUCER_ID,
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from mainstem.node.config import load_config

BATCH = bytes(build([Event(b"v")], now_ms=1))
BROKER = 4


@contextmanager
def served(**settings: object) -> Iterator[Peer]:
    """Serve a log in memory with some settings; gives a peer."""
    named = {name.replace("__", "."): value for name, value in settings.items()}
    config = load_config(None, {}, named)
    with server(None, config=config) as running, Peer(str(running.kafka)) as peer:
        yield peer


def metadata(peer: Peer, name: str) -> MetadataResponse:
    return peer.ask(METADATA, 9, MetadataRequest((MetadataTopicName(name=name),)), MetadataResponse)


def test_topics_are_only_created_by_naming_them_where_that_is_wanted() -> None:
    with served(auto_create=False) as peer:
        assert Code(produce(peer, "t", BATCH).error_code) is Code.UNKNOWN_TOPIC_OR_PARTITION
        named = metadata(peer, "t").topics[0]
        assert Code(named.error_code) is Code.UNKNOWN_TOPIC_OR_PARTITION
        assert peer.ask(METADATA, 9, MetadataRequest(None), MetadataResponse).topics == ()


def test_topics_created_by_naming_them_have_as_many_partitions_as_is_set() -> None:
    with served(kafka__auto_create_partitions=7) as peer:
        assert len(metadata(peer, "t").topics[0].partitions) == 7


def test_a_request_over_the_limit_is_cut_off() -> None:
    with served(kafka__max_frame_bytes=2000) as peer:
        assert produce(peer, "t", BATCH).error_code == 0
        large = bytes(build([Event(bytes(3000))], now_ms=1))

        peer.send(request(PRODUCE, 9, production("t", large)))

        assert peer.is_cut_off()


def test_a_fetch_of_more_partitions_than_the_limit_is_refused() -> None:
    places = tuple(FetchPartition(number, partition_max_bytes=1) for number in range(4))
    with served(kafka__max_fetch_partitions=3) as peer:
        assert produce(peer, "t", BATCH).error_code == 0

        def ask(count: int) -> FetchResponse:
            wish = FetchRequest(topics=(FetchTopic(topic="t", partitions=places[:count]),))
            return peer.ask(FETCH, 12, wish, FetchResponse)

        assert ask(3).error_code == 0
        assert Code(ask(4).error_code) is Code.INVALID_REQUEST


NAMES = ("a", "b", "c", "d")


def naming(count: int) -> list[tuple[Api, int, Wire]]:
    """Return requests that name some groups, members or transactions."""
    names = NAMES[:count]
    wishes = [OffsetFetchGroup(name, topics=None) for name in names]
    members = [LeavingMember(name) for name in names]
    return [
        (DESCRIBE_GROUPS, 6, DescribeGroupsRequest(names)),
        (DELETE_GROUPS, 2, DeleteGroupsRequest(names)),
        (CONSUMER_GROUP_DESCRIBE, 1, ConsumerGroupDescribeRequest(names)),
        (LEAVE_GROUP, 4, LeaveGroupRequest("g", members=members)),
        (OFFSET_FETCH, 8, OffsetFetchRequest(wishes)),
        (DESCRIBE_TRANSACTIONS, 0, DescribeTransactionsRequest(names)),
        (FIND_COORDINATOR, 4, FindCoordinatorRequest(coordinator_keys=names)),
    ]


@pytest.mark.parametrize("which", range(7), ids=[each[0].name for each in naming(0)])
def test_a_request_with_more_names_than_the_limit_is_cut_off(which: int) -> None:
    with served(kafka__max_names=3) as peer:
        peer.send(request(*naming(3)[which]))
        assert peer.frame()

        peer.send(request(*naming(4)[which]))

        assert peer.is_cut_off()


def test_a_fetch_waits_no_longer_than_the_limit() -> None:
    with served(kafka__max_wait_ms=1) as peer:
        assert produce(peer, "t", BATCH).error_code == 0

        answer = peer.ask(FETCH, 12, fetching("t", 1, max_wait_ms=2**31 - 1), FetchResponse)

        assert answer.responses[0].partitions[0].high_watermark == 1


def test_a_transaction_may_not_take_longer_than_the_limit() -> None:
    with served(transactions__max_timeout_ms=1000) as peer:
        asked = [InitProducerIdRequest("t", timeout_ms) for timeout_ms in (1000, 1001)]

        answers = [peer.ask(INIT_PRODUCER_ID, 4, each, InitProducerIdResponse) for each in asked]

    codes = [Code(each.error_code) for each in answers]
    assert codes == [Code.NONE, Code.INVALID_TRANSACTION_TIMEOUT]


def test_topics_in_memory_are_refused_what_is_over_the_limit_and_take_more_when_there_is_room() -> (
    None
):
    large = bytes(build([Event(bytes(100_000))], now_ms=1))
    with served(max_memory_bytes=1_000_000) as peer:
        codes = [produce(peer, "t", large).error_code for _ in range(20)]

        accepted = codes.count(0)
        assert 5 < accepted < 11
        assert codes[accepted:] == [Code.KAFKA_STORAGE_ERROR] * (20 - accepted)
        # What was acknowledged is there, and others are served.
        found = peer.ask(FETCH, 12, fetching("t"), FetchResponse).responses[0].partitions[0]
        assert found.high_watermark == accepted


def test_a_server_that_is_full_in_memory_says_so_to_everybody_and_serves_who_reads() -> None:
    large = bytes(build([Event(bytes(100_000))], now_ms=1))
    with served(max_memory_bytes=1_000_000) as peer:
        host, port = peer.socket.getpeername()
        healthy = Healthy(f"{host}:{port}")
        while produce(peer, "t", large).error_code == 0:
            pass

        healthy.check()
        healthy.close()


@pytest.mark.parametrize(
    ("setting", "value", "name"),
    [
        ("kafka__max_frame_bytes", 54_321, "socket.request.max.bytes"),
        ("kafka__max_connections", 123, "max.connections"),
        ("kafka__auto_create_partitions", 9, "num.partitions"),
        ("kafka__max_fetch_sessions", 17, "max.incremental.fetch.session.cache.slots"),
        ("groups__initial_delay_ms", 3, "group.initial.rebalance.delay.ms"),
        ("groups__min_session_timeout_ms", 7, "group.min.session.timeout.ms"),
        ("groups__max_session_timeout_ms", 70_000, "group.max.session.timeout.ms"),
        ("groups__max_members", 5, "group.max.size"),
        ("producers__expire_ms", 99_000, "producer.id.expiration.ms"),
        ("transactions__max_timeout_ms", 98_000, "transaction.max.timeout.ms"),
        ("transactions__expire_ms", 97_000, "transactional.id.expiration.ms"),
    ],
)
def test_administrators_see_limits_by_the_names_that_kafka_has_for_them(
    setting: str, value: int, name: str
) -> None:
    asked = DescribeConfigsRequest((DescribeConfigsResource(BROKER, "1", None),))
    with served(**{setting: value}) as peer:
        answer = peer.ask(DESCRIBE_CONFIGS, 4, asked, DescribeConfigsResponse)

    shown = {each.name: each.value for each in answer.results[0].configs}
    assert shown[name] == str(value)
