"""Members of classic groups over a restart of the server, request by request.

They are of Kafka Connect's protocol type: members of any type stay, and the server does not read
what they say to one another.
"""

from pathlib import Path

from tests.heads.kafka import classic_members
from tests.heads.kafka.raw_peers import Peer, produce, served

from mainstem.core.event import Event
from mainstem.core.records import build
from mainstem.kafka_protocol.error_codes import Code
from mainstem.kafka_protocol.messages.commits import (
    OFFSET_COMMIT,
    CommitPartition,
    CommitTopic,
    OffsetCommitRequest,
    OffsetCommitResponse,
)
from mainstem.kafka_protocol.messages.groups import (
    DESCRIBE_GROUPS,
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from mainstem.kafka_protocol.messages.membership import (
    HeartbeatRequest,
    JoinGroupResponse,
    SyncGroupResponse,
)


def join(peer: Peer, member_id: str = "", instance_id: str | None = None) -> JoinGroupResponse:
    body = classic_members.joining(
        "g",
        member_id,
        instance=instance_id,
        protocol_type="connect",
        protocol="sessioned",
        subscription=b"\xff\x00 not text",
    )
    answer = classic_members.join(peer, body, version=9)
    if answer.error_code == Code.MEMBER_ID_REQUIRED:
        return join(peer, answer.member_id, instance_id)
    assert answer.error_code == 0
    return answer


def sync(peer: Peer, joined: JoinGroupResponse, assigned: bytes | None = None) -> SyncGroupResponse:
    return classic_members.sync(peer, "g", joined, assigned, version=4)


def beat(peer: Peer, joined: JoinGroupResponse) -> Code:
    body = HeartbeatRequest("g", joined.generation_id, joined.member_id)
    return classic_members.heartbeat(peer, body, version=4)


def commit(peer: Peer, joined: JoinGroupResponse) -> Code:
    topic = CommitTopic(name="t", partitions=(CommitPartition(0, 1),))
    wish = OffsetCommitRequest("g", joined.generation_id, joined.member_id, topics=(topic,))
    answer = peer.ask(OFFSET_COMMIT, 9, wish, OffsetCommitResponse)
    return Code(answer.topics[0].partitions[0].error_code)


def described(peer: Peer) -> DescribedGroup:
    answer = peer.ask(DESCRIBE_GROUPS, 5, DescribeGroupsRequest(("g",)), DescribeGroupsResponse)
    return answer.groups[0]


def test_a_member_goes_on_in_its_generation_after_a_restart(tmp_path: Path) -> None:
    with served(tmp_path) as address, Peer(address) as peer:
        produce(peer, "t", bytes(build([Event(value=b"v")], now_ms=1)))
        joined = join(peer)
        assert sync(peer, joined, b"\xfe work").error_code == 0
        before = described(peer)

    with served(tmp_path) as address, Peer(address) as peer:
        assert described(peer) == before
        assert before.group_state == "Stable"
        assert beat(peer, joined) is Code.NONE
        assert commit(peer, joined) is Code.NONE
        assert sync(peer, joined).assignment == b"\xfe work"
        assert join(peer, joined.member_id).generation_id == joined.generation_id + 1


def test_a_member_that_had_joined_and_had_nothing_assigned_joins_again_with_its_id(
    tmp_path: Path,
) -> None:
    with served(tmp_path) as address, Peer(address) as peer:
        first = join(peer)
        sync(peer, first, b"work")
        joined = join(peer, first.member_id)

    with served(tmp_path) as address, Peer(address) as peer:
        assert beat(peer, joined) is Code.REBALANCE_IN_PROGRESS
        assert sync(peer, joined).error_code == Code.REBALANCE_IN_PROGRESS
        again = join(peer, joined.member_id)
        assert again.member_id == first.member_id
        assert again.generation_id == joined.generation_id + 1


def test_a_member_that_has_left_is_not_known_after_a_restart(tmp_path: Path) -> None:
    with served(tmp_path) as address, Peer(address) as peer:
        joined = join(peer)
        sync(peer, joined, b"work")
        left = classic_members.leave(peer, "g", joined.member_id, version=5)
        assert left.error_code == 0

    with served(tmp_path) as address, Peer(address) as peer:
        assert beat(peer, joined) is Code.UNKNOWN_MEMBER_ID
        assert described(peer).group_state == "Empty"
