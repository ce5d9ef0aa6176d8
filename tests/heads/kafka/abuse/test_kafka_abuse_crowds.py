"""Many groups, sessions and producers that are left behind: the memory used is bounded.

The server is a process of its own, so that its memory is not the attacker's.
"""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.heads.kafka.classic_members import join, joining, leave
from tests.heads.kafka.raw_peers import NEVER, Healthy, Peer, fetching, produce, production, request
from tests.heads.server_process import Process, beside

from mainstem.core.event import Event
from mainstem.core.records import build
from mainstem.kafka_protocol.error_codes import Code
from mainstem.kafka_protocol.messages.fetch import FETCH, FetchRequest, FetchResponse
from mainstem.kafka_protocol.messages.metadata import (
    METADATA,
    MetadataRequest,
    MetadataResponse,
    MetadataTopicName,
)
from mainstem.kafka_protocol.messages.produce import PRODUCE, ProduceResponse
from mainstem.kafka_protocol.messages.producers import (
    DESCRIBE_PRODUCERS,
    DescribeProducersRequest,
    DescribeProducersResponse,
    ProducersTopic,
)
from mainstem.kafka_protocol.messages.topics import (
    CREATE_TOPICS,
    CreateTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

FETCHES = 'mainstem_kafka_requests_total{api="Fetch"}'
MAX_PRODUCERS = 1_000
MAX_PARTITIONS = 2_000


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    path: Path = tmp_path_factory.mktemp("crowded")
    with Process(path, durability="disk", producers__max_producers=MAX_PRODUCERS) as process:
        yield process


def test_ten_thousand_long_polls_cost_little_and_all_are_answered(
    server: Process, healthy: Healthy
) -> None:
    peers, each = 40, 250
    batch = bytes(build([Event(b"x")], now_ms=1))
    poll = request(FETCH, 12, fetching("polled", 1, max_wait_ms=NEVER))
    before = server.metric(FETCHES)
    with contextlib.ExitStack() as stack, beside(healthy, server), Peer(server.address) as writer:
        assert produce(writer, "polled", batch).error_code == 0
        waiting = [stack.enter_context(Peer(server.address)) for _ in range(peers)]
        for peer in waiting:
            peer.send(poll * each)
        while server.metric(FETCHES) < before + peers * each:
            pass

        assert produce(writer, "polled", batch).error_code == 0

        for peer in waiting:
            for _ in range(each):
                found = peer.answer(FETCH, 12, FetchResponse).responses[0].partitions[0]
                assert found.high_watermark == 2


@pytest.mark.parametrize(
    ("max_wait_ms", "min_bytes", "max_bytes"),
    [(50, NEVER, NEVER), (0, NEVER, 1), (-1, NEVER, 1), (-NEVER, -1, -1), (50, 1 << 30, 0)],
)
def test_who_asks_for_more_than_there_is_gets_what_there_is_when_its_time_is_over(
    server: Process, healthy: Healthy, max_wait_ms: int, min_bytes: int, max_bytes: int
) -> None:
    with Peer(server.address) as peer:
        assert produce(peer, "little", bytes(build([Event(b"x")], now_ms=1))).error_code == 0
        wish = fetching("little", max_wait_ms=max_wait_ms, min_bytes=min_bytes, max_bytes=max_bytes)

        found = peer.ask(FETCH, 12, wish, FetchResponse).responses[0].partitions[0]

        assert found.error_code == 0
        assert found.records


def test_fetch_sessions_that_nobody_goes_on_with_take_a_bounded_room(
    server: Process, healthy: Healthy
) -> None:
    with Peer(server.address) as peer, beside(healthy, server):
        assert produce(peer, "sessions", bytes(build([Event(b"x")], now_ms=1))).error_code == 0
        plain = fetching("sessions")
        begin = FetchRequest(max_bytes=1 << 20, session_epoch=0, topics=plain.topics)
        given = set()
        for _ in range(20):
            peer.send(request(FETCH, 12, begin) * 250)
            for _ in range(250):
                answer = peer.answer(FETCH, 12, FetchResponse)
                assert answer.responses[0].partitions[0].high_watermark >= 1
                given.add(answer.session_id)

        # Those beyond the limit are answered without one.
        assert 0 in given
        assert len(given) <= 1001


def test_topics_named_at_random_are_created_up_to_a_limit(tmp_path: Path) -> None:
    with (
        Process(tmp_path, durability="disk", topics__max_partitions=MAX_PARTITIONS) as server,
        server.within_bounds(),
    ):
        healthy = Healthy(server.address)
        with Peer(server.address) as peer, beside(healthy, server):
            codes: list[int] = []
            for begin in range(0, 1000, 500):
                numbers = range(begin, begin + 500)
                names = tuple(MetadataTopicName(name=f"random.{number}") for number in numbers)
                answer = peer.ask(METADATA, 9, MetadataRequest(names), MetadataResponse)
                codes += [each.error_code for each in answer.topics]
            million = CreateTopicsRequest((CreateTopic("million", 1_000_000, 1),), 1000)
            refused = peer.ask(CREATE_TOPICS, 5, million, CreateTopicsResponse).topics[0]
        healthy.close()

    created = codes.count(0)
    assert MAX_PARTITIONS // 4 - 50 < created < MAX_PARTITIONS // 4
    assert codes == [0] * created + [Code.INVALID_CONFIG] * (1000 - created)
    assert Code(refused.error_code) is Code.INVALID_CONFIG
    assert f"over {MAX_PARTITIONS} of all topics" in (refused.error_message or "")


def written_by(producer_id: int) -> bytes:
    batch = build(
        [Event(b"x")], now_ms=1, producer_id=producer_id, producer_epoch=0, base_sequence=0
    )
    return request(PRODUCE, 9, production("abandoned", bytes(batch)))


def test_producers_that_wrote_once_and_never_again_are_forgotten_beyond_a_limit(
    server: Process, healthy: Healthy
) -> None:
    count = 4 * MAX_PRODUCERS
    with Peer(server.address) as peer, beside(healthy, server):
        for begin in range(0, count, 500):
            peer.send(b"".join(written_by(number) for number in range(begin, begin + 500)))
            for _ in range(500):
                answer = peer.answer(PRODUCE, 9, ProduceResponse)
                assert answer.responses[0].partition_responses[0].error_code == 0

        asked = DescribeProducersRequest((ProducersTopic("abandoned", (0,)),))
        known = peer.ask(DESCRIBE_PRODUCERS, 0, asked, DescribeProducersResponse)
        ids = {each.producer_id for each in known.topics[0].partitions[0].active_producers}

    assert len(ids) <= MAX_PRODUCERS
    # Those that wrote last are known.
    assert ids > set(range(count - MAX_PRODUCERS // 2, count))


def test_a_group_whose_members_come_and_go_serves_the_one_who_stays(
    server: Process, healthy: Healthy
) -> None:
    with Peer(server.address) as flapping, beside(healthy, server):
        for number in range(300):
            group = f"flapping-{number % 50}"
            member = join(flapping, joining(group, subscription=bytes(10_000)), version=3)
            assert member.error_code == 0
            left = leave(flapping, group, member.member_id)
            assert left.members[0].error_code == 0
