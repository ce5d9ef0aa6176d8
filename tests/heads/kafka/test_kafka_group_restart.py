"""Members of classic groups over a restart of the server, request by request."""

from pathlib import Path

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
    HEARTBEAT,
    JOIN_GROUP,
    LEAVE_GROUP,
    SYNC_GROUP,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    JoinProtocol,
    LeaveGroupRequest,
    LeaveGroupResponse,
    LeavingMember,
    MemberAssignment,
    SyncGroupRequest,
    SyncGroupResponse,
)

TYPE = "connect"
"""Members of any type stay: the server does not read what they say to one another."""


def join(peer: Peer, member_id: str = "", instance_id: str | None = None) -> JoinGroupResponse:
    protocols = (JoinProtocol("sessioned", b"\xff\x00 not text"),)
    wish = JoinGroupRequest("g", 30_000, 60_000, member_id, instance_id, TYPE, protocols)
    answer = peer.ask(JOIN_GROUP, 9, wish, JoinGroupResponse)
    if answer.error_code == Code.MEMBER_ID_REQUIRED:
        return join(peer, answer.member_id, instance_id)
    assert answer.error_code == 0
    return answer


def sync(peer: Peer, joined: JoinGroupResponse, *assigned: MemberAssignment) -> SyncGroupResponse:
    wish = SyncGroupRequest("g", joined.generation_id, joined.member_id, assignments=assigned)
    return peer.ask(SYNC_GROUP, 4, wish, SyncGroupResponse)


def beat(peer: Peer, joined: JoinGroupResponse) -> Code:
    wish = HeartbeatRequest("g", joined.generation_id, joined.member_id)
    return Code(peer.ask(HEARTBEAT, 4, wish, HeartbeatResponse).error_code)


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
        assert sync(peer, joined, MemberAssignment(joined.member_id, b"\xfe work")).error_code == 0
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
        sync(peer, first, MemberAssignment(first.member_id, b"work"))
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
        sync(peer, joined, MemberAssignment(joined.member_id, b"work"))
        wish = LeaveGroupRequest("g", (LeavingMember(joined.member_id),))
        assert peer.ask(LEAVE_GROUP, 5, wish, LeaveGroupResponse).error_code == 0

    with served(tmp_path) as address, Peer(address) as peer:
        assert beat(peer, joined) is Code.UNKNOWN_MEMBER_ID
        assert described(peer).group_state == "Empty"
