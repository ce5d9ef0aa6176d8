"""Scenarios of requests of the classic protocol, about groups of the newer ones."""

from collections.abc import Iterator

from tests.heads.kafka.parity.compared_server import Said, Side, alike, word
from tests.heads.kafka.parity.group_admin import consumers_described
from tests.heads.kafka.parity.members import (
    ANN,
    BOB,
    LEAVE,
    consumer_beat,
    join_classic,
    join_consumers,
    join_share,
    share_beat,
)
from tests.heads.kafka.parity.share_members import deleted

from mainstem.kafka_protocol.messages.groups import (
    DESCRIBE_GROUPS,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from mainstem.kafka_protocol.messages.membership import (
    HEARTBEAT,
    LEAVE_GROUP,
    SYNC_GROUP,
    HeartbeatRequest,
    HeartbeatResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    LeavingMember,
    SyncGroupRequest,
    SyncGroupResponse,
)


def left(side: Side, group: str, member: str = "", instance: str | None = None) -> Said:
    """Take a member out, as an administrator does."""
    body = LeaveGroupRequest(group, [LeavingMember(member, instance)])
    answer = side.ask(LEAVE_GROUP, body, LeaveGroupResponse)
    return word(answer.error_code), [word(each.error_code) for each in answer.members]


def beaten(side: Side, group: str, member: str, generation: int) -> str:
    """Send a heartbeat of the classic protocol."""
    body = HeartbeatRequest(group, generation, member)
    return word(side.ask(HEARTBEAT, body, HeartbeatResponse).error_code)


def synced(side: Side, group: str, member: str, generation: int) -> str:
    """Ask for an assignment by the classic protocol."""
    body = SyncGroupRequest(group, generation, member, None, "consumer", "range")
    return word(side.ask(SYNC_GROUP, body, SyncGroupResponse).error_code)


def shown(side: Side, group: str) -> Said:
    """Return a group as the classic protocol describes it."""
    body = DescribeGroupsRequest([group])
    (found,) = side.ask(DESCRIBE_GROUPS, body, DescribeGroupsResponse).groups
    return word(found.error_code), found.group_state, found.protocol_type, len(found.members)


def _asked(side: Side, group: str, epoch: int) -> Iterator[Said]:
    yield "described", shown(side, group)
    for member in (ANN, BOB):
        yield "heartbeat", beaten(side, group, member, epoch)
        yield "sync", synced(side, group, member, epoch)
    yield "not there", left(side, group, BOB)
    yield "no such instance", left(side, group, "", "j")


@alike
def a_consumer_group_in_older_words(side: Side) -> Iterator[Said]:
    group = side.group()
    epoch = join_consumers(side, group, [side.one], instance="i")[1]
    yield from _asked(side, group, epoch)
    yield "another with its instance", left(side, group, BOB, "i")
    yield "by its instance", left(side, group, "", "i")
    yield "is gone", consumer_beat(side, group, ANN, epoch, instance="i")
    epoch = join_consumers(side, group, [side.one])[1]
    yield "by its id", left(side, group, ANN)
    yield "is gone", consumer_beat(side, group, ANN, epoch)
    yield "empty", shown(side, group), consumers_described(side, group)[:3]
    yield "classic members of no readable wish", join_classic(side, group, kind="consumer")[0]


@alike
def a_share_group_in_older_words(side: Side) -> Iterator[Said]:
    group = side.group()
    epoch = join_share(side, group, [side.one])
    yield from _asked(side, group, epoch)
    yield "by its id", left(side, group, ANN)
    yield "is there", share_beat(side, group, ANN, epoch)[0]
    share_beat(side, group, ANN, LEAVE)
    yield "empty", shown(side, group)
    yield deleted(side, group)


@alike
def no_group_in_older_words(side: Side) -> Iterator[Said]:
    yield from _asked(side, side.group(), 1)
