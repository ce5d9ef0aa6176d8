"""SIGTERM under load: running requests are finished, and clients continue after a restart."""

import signal
from contextlib import closing
from pathlib import Path

import pytest
from tests.faults.kafka.test_kafka_kill_produce import PARTITIONS, Line, verdict
from tests.faults.killable_server import Mortal, create, until
from tests.heads.kafka.classic_members import joining, only_member
from tests.heads.kafka.raw_peers import Peer, fetching, produce, production, request
from tests.heads.server_process import Process

from mainstem.core.event import Event
from mainstem.core.records import build
from mainstem.heads.transport.answers import MAX_UNANSWERED
from mainstem.kafka_protocol.error_codes import Code
from mainstem.kafka_protocol.messages.commits import (
    OFFSET_COMMIT,
    CommitPartition,
    CommitTopic,
    OffsetCommitRequest,
    OffsetCommitResponse,
)
from mainstem.kafka_protocol.messages.consumer_groups import (
    CONSUMER_GROUP_HEARTBEAT,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from mainstem.kafka_protocol.messages.fetch import FETCH, FetchResponse
from mainstem.kafka_protocol.messages.membership import (
    HEARTBEAT,
    JOIN_GROUP,
    SYNC_GROUP,
    HeartbeatResponse,
    JoinGroupResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from mainstem.kafka_protocol.messages.produce import PRODUCE, ProduceResponse
from mainstem.kafka_protocol.messages.share_groups import (
    SHARE_GROUP_HEARTBEAT,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)
from mainstem.kafka_protocol.messages.topics import (
    CREATE_TOPICS,
    CreateConfig,
    CreateTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from mainstem.node.config import Config
from mainstem.node.node import open_node

NEVER = 2**31 - 1
PATIENT = "import os; os.environ['MAINSTEM_DRAIN_MS'] = '600000'"
"""Only a second signal ends the draining."""
BATCH = bytes(build([Event(value=b"x")], now_ms=1))


@pytest.mark.parametrize("idempotent", [True, False])
def test_a_server_told_to_stop_under_load_loses_and_doubles_nothing(
    tmp_path: Path, idempotent: bool
) -> None:
    with Mortal(tmp_path / "data") as server:
        create(server.address, "t", PARTITIONS)
        in_flight = 5 if idempotent else 1
        config = {"enable.idempotence": idempotent, "max.in.flight": in_flight}
        line = Line(server.address, **config)
        for _ in range(3):
            assert line.done.wait_for(500)
            server.tell(signal.SIGTERM)
            assert server.wait() == 0
            server.start()
        assert line.done.wait_for(500)
        line.finish()

        assert "unclean" not in server.said
        assert verdict(server, line) == []


def test_whoever_waits_is_answered_with_what_there_is(tmp_path: Path) -> None:
    with Mortal(tmp_path / "data") as server, Peer(server.address) as reader:
        assert produce(reader, "t", BATCH).error_code == 0
        wish = fetching("t", 0, max_wait_ms=NEVER, min_bytes=NEVER)
        reader.send(request(FETCH, 12, wish))
        with Peer(server.address) as other:
            assert produce(other, "t", BATCH).error_code == 0

        server.tell(signal.SIGTERM)

        fetched = reader.answer(FETCH, 12, FetchResponse).responses[0].partitions[0]
        assert fetched.error_code == 0
        assert fetched.high_watermark == 2
        assert reader.is_cut_off()
        reader.socket.close()
        assert server.wait() == 0


def test_a_peer_that_neither_reads_nor_closes_does_not_keep_the_server(tmp_path: Path) -> None:
    with (
        Mortal(tmp_path / "data", crash=PATIENT) as server,
        Peer(server.address, receive_buffer=4096) as deaf,
        Peer(server.address) as silent,
    ):
        assert produce(silent, "t", bytes(build([Event(bytes(900_000))], now_ms=1))).error_code == 0
        deaf.send(request(FETCH, 12, fetching("t", 0)) * 50)
        deaf.socket.recv(1)

        server.tell(signal.SIGTERM)
        assert silent.is_cut_off()
        server.tell(signal.SIGTERM)

        assert server.wait() == 0
        assert "unclean" not in server.said


def test_what_comes_while_the_server_stops_is_told_to_come_again_or_done_for_good(
    tmp_path: Path,
) -> None:
    with Process(tmp_path) as server, Peer(server.address) as peer:
        assert produce(peer, "t", BATCH).error_code == 0
        there = only_member(peer, joining("g"), version=3)
        member = (there.group_id, there.generation_id, there.member_id)
        poll = request(FETCH, 12, fetching("t", 1, max_wait_ms=NEVER))
        place = CommitTopic(name="t", partitions=(CommitPartition(0, committed_offset=1),))
        newcomer = ConsumerGroupHeartbeatRequest(
            "new",
            "m",
            rebalance_timeout_ms=1000,
            subscribed_topic_names=("t",),
            topic_partitions=(),
        )
        sharer = ShareGroupHeartbeatRequest("shared", "m", subscribed_topic_names=("t",))
        fetches = 'mainstem_kafka_requests_total{api="Fetch"}'
        peer.send(poll * (MAX_UNANSWERED - 1))
        until(lambda: server.metric(fetches) == MAX_UNANSWERED - 1)
        # So many are taken before any is answered: those behind it are read, and wait.
        last_and_behind = [
            poll,
            request(PRODUCE, 9, production("t", BATCH)),
            request(JOIN_GROUP, 3, joining("other")),
            request(SYNC_GROUP, 3, SyncGroupRequest(*member)),
            request(HEARTBEAT, 3, there),
            request(CONSUMER_GROUP_HEARTBEAT, 1, newcomer),
            request(SHARE_GROUP_HEARTBEAT, 1, sharer),
            request(OFFSET_COMMIT, 8, OffsetCommitRequest("h", topics=(place,))),
            request(FETCH, 12, fetching("t", 1, max_wait_ms=NEVER)),
        ]
        peer.send(b"".join(last_and_behind))
        until(lambda: server.metric(fetches) == MAX_UNANSWERED)

        server.tell(signal.SIGTERM)

        for _ in range(MAX_UNANSWERED):
            assert peer.answer(FETCH, 12, FetchResponse).error_code == 0
        produced = peer.answer(PRODUCE, 9, ProduceResponse).responses[0].partition_responses[0]
        assert Code(produced.error_code) is Code.NOT_LEADER_OR_FOLLOWER
        again = Code.COORDINATOR_NOT_AVAILABLE
        assert Code(peer.answer(JOIN_GROUP, 3, JoinGroupResponse).error_code) is again
        assert Code(peer.answer(SYNC_GROUP, 3, SyncGroupResponse).error_code) is again
        assert Code(peer.answer(HEARTBEAT, 3, HeartbeatResponse).error_code) is again
        heard = peer.answer(CONSUMER_GROUP_HEARTBEAT, 1, ConsumerGroupHeartbeatResponse)
        assert Code(heard.error_code) is again
        shared = peer.answer(SHARE_GROUP_HEARTBEAT, 1, ShareGroupHeartbeatResponse)
        assert Code(shared.error_code) is again
        committed = peer.answer(OFFSET_COMMIT, 8, OffsetCommitResponse)
        assert committed.topics[0].partitions[0].error_code == 0
        fetched = peer.answer(FETCH, 12, FetchResponse).responses[0].partitions[0]
        assert fetched.high_watermark == 1
        assert peer.is_cut_off()
        peer.socket.close()
        assert server.wait() == 0

    with closing(open_node(tmp_path, Config())) as node:
        assert node.recovery is not None
        assert node.recovery.clean
        assert node.broker.bounds("t", 0).tail == 1
        cursor = node.broker.cursor("h", "t", 0)
        assert cursor is not None
        assert cursor.offset == 1


def test_who_waits_for_others_or_for_room_is_told_to_come_again(tmp_path: Path) -> None:
    full = CreateTopic(
        "full",
        1,
        1,
        configs=(
            CreateConfig("mainstem.overload", "backpressure"),
            CreateConfig("mainstem.max_backlog", "1"),
            CreateConfig("mainstem.hold_ms", str(NEVER)),
        ),
    )
    with (
        Process(tmp_path) as server,
        Peer(server.address) as first,
        Peer(server.address) as second,
        Peer(server.address) as held,
    ):
        made = held.ask(CREATE_TOPICS, 5, CreateTopicsRequest((full,), 1000), CreateTopicsResponse)
        assert made.topics[0].error_code == 0
        assert produce(held, "full", BATCH).error_code == 0
        held.send(request(PRODUCE, 9, production("full", BATCH, timeout_ms=NEVER)))
        only_member(first, joining("g"), version=3)
        # It waits for the first member to join again.
        second.send(request(JOIN_GROUP, 3, joining("g")))
        until(lambda: server.metric("mainstem_topic_held_requests_total") == 1)
        until(lambda: server.metric('mainstem_kafka_requests_total{api="JoinGroup"}') == 2)

        server.tell(signal.SIGTERM)

        joined = second.answer(JOIN_GROUP, 3, JoinGroupResponse)
        assert Code(joined.error_code) is Code.COORDINATOR_NOT_AVAILABLE
        answer = held.answer(PRODUCE, 9, ProduceResponse).responses[0].partition_responses[0]
        assert Code(answer.error_code) is Code.NOT_LEADER_OR_FOLLOWER
        for each in (first, second, held):
            each.socket.close()
        assert server.wait() == 0
