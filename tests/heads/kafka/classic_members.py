"""Members of classic groups over raw connections: join, sync, heartbeat, leave."""

from tests.heads.kafka.raw_peers import Peer

from mainstem.kafka_protocol.error_codes import Code
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


def joining(
    group: str,
    member: str = "",
    *,
    instance: str | None = None,
    timeout_ms: int = 30_000,
    protocol_type: str = "consumer",
    protocol: str = "range",
    subscription: bytes = b"x",
) -> JoinGroupRequest:
    protocols = (JoinProtocol(protocol, subscription),)
    return JoinGroupRequest(
        group, timeout_ms, timeout_ms, member, instance, protocol_type, protocols
    )


def join(peer: Peer, body: JoinGroupRequest, version: int = 5) -> JoinGroupResponse:
    return peer.ask(JOIN_GROUP, version, body, JoinGroupResponse)


def sync(
    peer: Peer,
    group: str,
    joined: JoinGroupResponse,
    assigned: bytes | None = None,
    *,
    instance: str | None = None,
    version: int = 3,
) -> SyncGroupResponse:
    """Sync after a join; a leader assigns something to itself."""
    assignments = () if assigned is None else (MemberAssignment(joined.member_id, assigned),)
    body = SyncGroupRequest(
        group, joined.generation_id, joined.member_id, instance, assignments=assignments
    )
    return peer.ask(SYNC_GROUP, version, body, SyncGroupResponse)


def only_member(peer: Peer, body: JoinGroupRequest, version: int = 5) -> HeartbeatRequest:
    """Join and sync as the only member of a group; return its heartbeat."""
    joined = join(peer, body, version)
    assert joined.error_code == 0
    group, instance = body.group_id, body.group_instance_id
    assert sync(peer, group, joined, instance=instance).error_code == 0
    return HeartbeatRequest(group, joined.generation_id, joined.member_id, instance)


def heartbeat(peer: Peer, body: HeartbeatRequest, version: int = 3) -> Code:
    return Code(peer.ask(HEARTBEAT, version, body, HeartbeatResponse).error_code)


def leave(peer: Peer, group: str, member: str, version: int = 4) -> LeaveGroupResponse:
    body = LeaveGroupRequest(group, members=(LeavingMember(member),))
    return peer.ask(LEAVE_GROUP, version, body, LeaveGroupResponse)
