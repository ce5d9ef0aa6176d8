"""Members of groups of every kind, in few words."""

from collections.abc import Sequence

from tests.heads.kafka.parity.compared_server import Side, Topic, count, until, word
from tests.heads.kafka.raw_peers import Peer
from tests.heads.kafka.share_member import configure

from mainstem.kafka_protocol.error_codes import Code
from mainstem.kafka_protocol.messages import membership
from mainstem.kafka_protocol.messages.configs import (
    DESCRIBE_CONFIGS,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from mainstem.kafka_protocol.messages.consumer_groups import (
    CONSUMER_GROUP_HEARTBEAT,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    OwnedPartitions,
)
from mainstem.kafka_protocol.messages.groups import (
    LIST_GROUPS,
    ListGroupsRequest,
    ListGroupsResponse,
)
from mainstem.kafka_protocol.messages.share_groups import (
    SHARE_GROUP_HEARTBEAT,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)

ANN, BOB = "aaaaaaaaaaaaaaaaaaaaaa", "bbbbbbbbbbbbbbbbbbbbbb"
"""Ids of members."""
JOIN, LEAVE, LEAVE_FOR_A_WHILE = 0, -1, -2
_GROUP = 32
Told = tuple[str, int, int | None]
"""Code, epoch, and how many partitions are assigned, None if that is as before."""


# Share groups


def share_beat(
    side: Side,
    group: str,
    member: str = ANN,
    epoch: int = JOIN,
    topics: Sequence[Topic | str] | None = None,
    *,
    rack: str | None = None,
) -> Told:
    """Show a member of a share group."""
    names = None if topics is None else [it if isinstance(it, str) else it.name for it in topics]
    body = ShareGroupHeartbeatRequest(group, member, epoch, rack, names)
    answer = side.ask(SHARE_GROUP_HEARTBEAT, body, ShareGroupHeartbeatResponse)
    told = answer.assignment
    places = None if told is None else count(told.topic_partitions)
    return word(answer.error_code), answer.member_epoch, places


def join_share(side: Side, group: str, topics: Sequence[Topic], member: str = ANN) -> int:
    """Join a share group, until all partitions are assigned; return the member's epoch."""
    wanted = sum(side.partitions(each) for each in topics)
    found = share_beat(side, group, member, JOIN, topics)

    def is_assigned() -> bool:
        nonlocal found
        if found[2] == wanted:
            return True
        found = share_beat(side, group, member, found[1], topics)
        assert found[0] == "NONE", found
        return False

    until(is_assigned)
    return found[1]


def share_group(side: Side) -> str:
    """Return a new share group with one member."""
    group = side.group()
    join_share(side, group, [side.one])
    return group


def set_group(side: Side, group: str, name: str, value: str) -> None:
    """Set something for a group, and wait until that is so."""
    assert configure(side.peer, group, name, value) is Code.NONE
    asked = DescribeConfigsRequest([DescribeConfigsResource(_GROUP, group, [name])])

    def is_so() -> bool:
        answer = side.ask(DESCRIBE_CONFIGS, asked, DescribeConfigsResponse)
        return any(each.value == value for each in answer.results[0].configs)

    until(is_so)


# Consumer groups


def consumer_beat(
    side: Side,
    group: str,
    member: str = ANN,
    epoch: int = JOIN,
    topics: Sequence[Topic | str] | None = None,
    *,
    timeout_ms: int = -1,
    owned: Sequence[tuple[Topic, Sequence[int]]] | None = None,
    instance: str | None = None,
    rack: str | None = None,
    regex: str | None = None,
    assignor: str | None = None,
    version: int = 1,
) -> Told:
    """Show a member of a consumer group."""
    names = None if topics is None else [it if isinstance(it, str) else it.name for it in topics]
    held = (
        None if owned is None else [OwnedPartitions(topic.id, numbers) for topic, numbers in owned]
    )
    body = ConsumerGroupHeartbeatRequest(
        group, member, epoch, instance, rack, timeout_ms, names, regex, assignor, held
    )
    answer = side.ask(
        CONSUMER_GROUP_HEARTBEAT, body, ConsumerGroupHeartbeatResponse, version=version
    )
    told = answer.assignment
    places = None if told is None else count(told.topic_partitions)
    return word(answer.error_code), answer.member_epoch, places


def join_consumers(
    side: Side,
    group: str,
    topics: Sequence[Topic | str] | None = None,
    member: str = ANN,
    *,
    instance: str | None = None,
    regex: str | None = None,
    assignor: str | None = None,
    rack: str | None = None,
) -> Told:
    """Join a consumer group with all that has to be said."""
    return consumer_beat(
        side,
        group,
        member,
        JOIN,
        topics,
        timeout_ms=60_000,
        owned=(),
        instance=instance,
        regex=regex,
        assignor=assignor,
        rack=rack,
    )


def since(first: int, told: Told) -> Told:
    """Return what a member was told, with its epoch since the first: that differs by server."""
    return told[0], told[1] - first * (told[1] > 0), told[2]


# Classic groups


def join_classic(
    side: Side, group: str, *, kind: str = "other", peer: Peer | None = None
) -> tuple[str, str]:
    """Join a classic group, and get its assignment; return the code and the member's id."""
    peer = peer or side.peer
    member = ""
    while True:
        body = membership.JoinGroupRequest(
            group_id=group,
            session_timeout_ms=30_000,
            rebalance_timeout_ms=30_000,
            member_id=member,
            protocol_type=kind,
            protocols=[membership.JoinProtocol("mine", b"")],
        )
        joined = peer.ask(membership.JOIN_GROUP, 9, body, membership.JoinGroupResponse)
        if joined.error_code != Code.MEMBER_ID_REQUIRED:
            break
        member = joined.member_id
    if joined.error_code:
        return word(joined.error_code), member
    sync = membership.SyncGroupRequest(group, joined.generation_id, member, None, kind, "mine")
    synced = peer.ask(membership.SYNC_GROUP, 5, sync, membership.SyncGroupResponse)
    return word(synced.error_code), member


def leave_classic(side: Side, group: str, member: str) -> str:
    """Leave a classic group."""
    body = membership.LeaveGroupRequest(group, [membership.LeavingMember(member)])
    return word(side.ask(membership.LEAVE_GROUP, body, membership.LeaveGroupResponse).error_code)


# All groups


def listed(
    side: Side, group: str, states: Sequence[str] = (), types: Sequence[str] = ()
) -> list[tuple[str, str, str]]:
    """Return a group as it is listed among those that pass, if it is."""
    answer = side.ask(LIST_GROUPS, ListGroupsRequest(states, types), ListGroupsResponse)
    found = [it for it in answer.groups if it.group_id == group]
    return [(it.protocol_type, it.group_state, it.group_type) for it in found]
