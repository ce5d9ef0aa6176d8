"""Scenarios of share groups: members that come, stay and go, and what administrators see."""

from collections.abc import Iterator

from tests.heads.kafka.parity.compared_server import Said, Side, alike, word
from tests.heads.kafka.parity.members import (
    ANN,
    BOB,
    JOIN,
    LEAVE,
    LEAVE_FOR_A_WHILE,
    join_share,
    listed,
    share_beat,
)

from mainstem.kafka_protocol.messages.groups import (
    DELETE_GROUPS,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)
from mainstem.kafka_protocol.messages.share_groups import (
    SHARE_GROUP_DESCRIBE,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
)


def described(side: Side, group: str) -> Said:
    """Return a share group as an administrator sees it."""
    body = ShareGroupDescribeRequest([group])
    (found,) = side.ask(SHARE_GROUP_DESCRIBE, body, ShareGroupDescribeResponse).groups
    members = [
        (
            it.member_id,
            it.rack_id,
            it.client_id,
            len(it.subscribed_topic_names),
            sum(len(each.partitions) for each in it.assignment.topic_partitions),
        )
        for it in found.members
    ]
    return word(found.error_code), found.group_state, found.assignor_name, sorted(members)


def deleted(side: Side, group: str) -> str:
    """Delete a group."""
    body = DeleteGroupsRequest([group])
    return word(side.ask(DELETE_GROUPS, body, DeleteGroupsResponse).results[0].error_code)


@alike
def a_share_heartbeat_that_names_too_little(side: Side) -> Iterator[Said]:
    group = side.group()
    yield "no group", share_beat(side, "", ANN, JOIN, [side.one])
    yield "a blank group", share_beat(side, " ", ANN, JOIN, [side.one])
    yield "no member", share_beat(side, group, "", JOIN, [side.one])
    yield "a blank member", share_beat(side, group, " ", JOIN, [side.one])
    yield "a short member", share_beat(side, group, "a", JOIN, [side.one])[0]
    yield "a long member", share_beat(side, group, "a" * 36, JOIN, [side.one])[0]
    yield "a member too long", share_beat(side, group, "a" * 37, JOIN, [side.one])
    yield "an empty rack", share_beat(side, group, ANN, JOIN, [side.one], rack="")
    yield "a blank rack", share_beat(side, group, ANN, JOIN, [side.one], rack=" ")[0]
    yield "no topics", share_beat(side, group, ANN, JOIN, None)
    yield "an empty list of topics", share_beat(side, group, ANN, JOIN, [])
    yield "an empty name of a topic", share_beat(side, group, ANN, JOIN, [""])[0]
    yield "a name no topic can have", share_beat(side, group, ANN, JOIN, ["a b/c"])[0]
    yield "a topic there is not", share_beat(side, group, BOB, JOIN, ["nothing"])[0]


@alike
def a_share_heartbeat_of_nobody(side: Side) -> Iterator[Said]:
    group = side.group()
    for epoch in (LEAVE_FOR_A_WHILE, -3):
        yield "a member of no group", epoch, share_beat(side, group, ANN, epoch)[0]
    join_share(side, group, [side.one])
    for epoch in (1, 7, LEAVE, LEAVE_FOR_A_WHILE, -3):
        yield "no member of a group", epoch, share_beat(side, group, BOB, epoch)[0]


@alike
def a_share_heartbeat_of_another_epoch(side: Side) -> Iterator[Said]:
    group = side.group()
    epoch = join_share(side, group, [side.one])
    yield "the same", share_beat(side, group, ANN, epoch)[0::2]
    yield "later", share_beat(side, group, ANN, epoch + 1)
    yield "much later", share_beat(side, group, ANN, epoch + 100)
    epoch = share_beat(side, group, ANN, epoch, [side.one, side.two])[1]
    yield "the one before", share_beat(side, group, ANN, epoch - 1)[0]


@alike
def a_sharer_that_joins_again(side: Side) -> Iterator[Said]:
    group = side.group()
    epoch = join_share(side, group, [side.two])
    again = share_beat(side, group, ANN, JOIN, [side.two])
    yield again[0], again[1] == epoch, again[2]
    yield "without topics", share_beat(side, group, ANN, JOIN, None)


@alike
def a_sharer_that_leaves(side: Side) -> Iterator[Said]:
    group = side.group()
    join_share(side, group, [side.one])
    yield "leaves", share_beat(side, group, ANN, LEAVE)
    yield "leaves again", share_beat(side, group, ANN, LEAVE)
    yield "stays", share_beat(side, group, ANN, 1)
    join_share(side, group, [side.one])
    yield "leaves for a while", share_beat(side, group, ANN, LEAVE_FOR_A_WHILE)[0]


@alike
def a_share_group_as_it_is_shown(side: Side) -> Iterator[Said]:
    group = side.group()
    yield "nothing", described(side, group), listed(side, group)
    join_share(side, group, [side.two])
    yield "one member", described(side, group), listed(side, group)
    join_share(side, group, [side.one], BOB)
    yield "two members", described(side, group), listed(side, group)
    share_beat(side, group, ANN, LEAVE)
    share_beat(side, group, BOB, LEAVE)
    yield "nobody", described(side, group), listed(side, group)
    yield "no name", described(side, "")


@alike
def lists_of_groups(side: Side) -> Iterator[Said]:
    group = side.group()
    join_share(side, group, [side.one])
    for states in ([], ["Stable"], ["stable"], ["Empty"], ["Empty", "Stable"], ["Dead"], ["x"]):
        yield states, listed(side, group, states)
    for types in (["share"], ["Share"], ["classic"], ["consumer"], ["share", "classic"], ["x"]):
        yield types, listed(side, group, (), types)
    yield "both", listed(side, group, ["Empty"], ["share"])
    yield "both", listed(side, group, ["Stable"], ["share"])


@alike
def deleting_share_groups(side: Side) -> Iterator[Said]:
    group = side.group()
    yield "no group", deleted(side, group)
    join_share(side, group, [side.one])
    yield "with a member", deleted(side, group)
    share_beat(side, group, ANN, LEAVE)
    yield "empty", deleted(side, group)
    yield "again", deleted(side, group)
    yield "as it is shown", described(side, group), listed(side, group)
