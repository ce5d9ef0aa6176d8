"""Membership in classic consumer groups."""

from typing import Annotated

from mainstem.kafka_protocol.api import api
from mainstem.kafka_protocol.fields import IGNORABLE, NullSince, Since, Until, Wire
from mainstem.kafka_protocol.messages.responses import ThrottledSince1, ThrottledSince2
from mainstem.kafka_protocol.wire import Array, Bool, Bytes, Int8, Int16, Int32, String


class FindCoordinatorRequest(Wire, frozen=True):
    """Ask for the coordinator of groups (0), transactions (1) or share partitions (2)."""

    key: Annotated[String, Until(3)] = ""
    key_type: Annotated[Int8, Since(1)] = 0
    coordinator_keys: Annotated[Array[String], Since(4)] = ()


class Coordinator(Wire, frozen=True):
    """The broker that coordinates one group, transactional id or share partition."""

    key: String = ""
    node_id: Int32 = 0
    host: String = ""
    port: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = ""


class FindCoordinatorResponse(ThrottledSince1, frozen=True):
    """The coordinators, in a list since version 4."""

    coordinators: Annotated[Array[Coordinator], Since(4)] = ()
    error_code: Annotated[Int16, Until(3)] = 0
    error_message: Annotated[String | None, Since(1), Until(3), IGNORABLE] = ""
    node_id: Annotated[Int32, Until(3)] = 0
    host: Annotated[String, Until(3)] = ""
    port: Annotated[Int32, Until(3)] = 0


FIND_COORDINATOR = api(10, FindCoordinatorRequest, FindCoordinatorResponse, "0-6", "3+")


class JoinProtocol(Wire, frozen=True):
    """An assignor that the member supports, with the member's subscription as metadata."""

    name: String = ""
    metadata: Bytes = b""


class JoinGroupRequest(Wire, frozen=True):
    """Join a group, or join it again in a rebalance; ``protocols``: the supported assignors."""

    group_id: String = ""
    session_timeout_ms: Int32 = 0
    rebalance_timeout_ms: Annotated[Int32, Since(1), IGNORABLE] = -1
    member_id: String = ""
    group_instance_id: Annotated[String | None, Since(5)] = None
    protocol_type: String = ""
    protocols: Array[JoinProtocol] = ()
    reason: Annotated[String | None, Since(8), IGNORABLE] = None


class JoinedMember(Wire, frozen=True):
    """A member and its subscription, as the group's leader gets them."""

    member_id: String = ""
    group_instance_id: Annotated[String | None, Since(5), IGNORABLE] = None
    metadata: Bytes = b""


class JoinGroupResponse(ThrottledSince2, frozen=True):
    """The generation and assignor of the group; for its leader also all members."""

    error_code: Int16 = 0
    generation_id: Int32 = -1
    protocol_type: Annotated[String | None, Since(7), IGNORABLE] = None
    protocol_name: Annotated[String | None, NullSince(7)] = ""
    leader: String = ""
    skip_assignment: Annotated[Bool, Since(9)] = False
    member_id: String = ""
    members: Array[JoinedMember] = ()


JOIN_GROUP = api(11, JoinGroupRequest, JoinGroupResponse, "0-9", "6+")


class MemberAssignment(Wire, frozen=True):
    """The assignment that the leader made for one member."""

    member_id: String = ""
    assignment: Bytes = b""


class MemberRequest(Wire, frozen=True):
    """Base class: a request of a member of a generation."""

    group_id: String = ""
    generation_id: Int32 = 0
    member_id: String = ""
    group_instance_id: Annotated[String | None, Since(3)] = None


class SyncGroupRequest(MemberRequest, frozen=True):
    """Ask for the member's assignment; the leader sends the assignments of all members."""

    protocol_type: Annotated[String | None, Since(5), IGNORABLE] = None
    protocol_name: Annotated[String | None, Since(5), IGNORABLE] = None
    assignments: Array[MemberAssignment] = ()


class SyncGroupResponse(ThrottledSince1, frozen=True):
    """The member's assignment."""

    error_code: Int16 = 0
    protocol_type: Annotated[String | None, Since(5), IGNORABLE] = None
    protocol_name: Annotated[String | None, Since(5), IGNORABLE] = None
    assignment: Bytes = b""


SYNC_GROUP = api(14, SyncGroupRequest, SyncGroupResponse, "0-5", "4+")


class HeartbeatRequest(MemberRequest, frozen=True):
    """Keep the member's session alive."""


class HeartbeatResponse(ThrottledSince1, frozen=True):
    """The error code, which may tell the member to join again."""

    error_code: Int16 = 0


HEARTBEAT = api(12, HeartbeatRequest, HeartbeatResponse, "0-4", "4+")


class LeavingMember(Wire, frozen=True):
    """A member that leaves its group."""

    member_id: String = ""
    group_instance_id: String | None = None
    reason: Annotated[String | None, Since(5), IGNORABLE] = None


class LeaveGroupRequest(Wire, frozen=True):
    """Leave a group; since version 3 several members at once."""

    group_id: String = ""
    members: Annotated[Array[LeavingMember], Since(3)] = ()
    member_id: Annotated[String, Until(2)] = ""


class LeftMember(Wire, frozen=True):
    """For one member, whether it has left the group."""

    member_id: String = ""
    group_instance_id: String | None = ""
    error_code: Int16 = 0


class LeaveGroupResponse(ThrottledSince1, frozen=True):
    """For each member, whether it has left the group."""

    error_code: Int16 = 0
    members: Annotated[Array[LeftMember], Since(3)] = ()


LEAVE_GROUP = api(13, LeaveGroupRequest, LeaveGroupResponse, "0-5", "4+")
