"""What an administrator asks of share groups, and what is said to that."""

from collections.abc import Mapping, Sequence

from tests.heads.kafka.raw_peers import Peer

from mainstem.kafka_protocol.error_codes import Code
from mainstem.kafka_protocol.messages.groups import (
    DELETE_GROUPS,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)
from mainstem.kafka_protocol.messages.share_groups import (
    ALTER_SHARE_GROUP_OFFSETS,
    DELETE_SHARE_GROUP_OFFSETS,
    DESCRIBE_SHARE_GROUP_OFFSETS,
    SHARE_GROUP_DESCRIBE,
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsResponse,
    AlterShareOffset,
    AlterShareOffsetsTopic,
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
    DeleteShareOffsetsTopic,
    DescribedShareOffsets,
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsResponse,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
    ShareOffsetsGroup,
    ShareOffsetsTopic,
)

Answer = Code | dict[object, Code]


def described(peer: Peer, group: str) -> Code | tuple[str, list[str]]:
    """Return the state of a group and its members, or what is said instead."""
    asked = ShareGroupDescribeRequest((group,))
    (found,) = peer.ask(SHARE_GROUP_DESCRIBE, 1, asked, ShareGroupDescribeResponse).groups
    if found.error_code:
        return Code(found.error_code)
    return found.group_state, [each.member_id for each in found.members]


def deleted(peer: Peer, group: str) -> Code:
    """Delete a group with all it knows; return what was said to that."""
    answer = peer.ask(DELETE_GROUPS, 2, DeleteGroupsRequest((group,)), DeleteGroupsResponse)
    return Code(answer.results[0].error_code)


def moved(peer: Peer, group: str, topic: str | None, offsets: Mapping[int, int]) -> Answer:
    """Return what was said to the whole request, of one topic or none, or to each partition."""
    wanted = [
        AlterShareOffsetsTopic(each, [AlterShareOffset(*at) for at in offsets.items()])
        for each in [topic]
        if each is not None
    ]
    asked = AlterShareGroupOffsetsRequest(group, wanted)
    answer = peer.ask(ALTER_SHARE_GROUP_OFFSETS, 0, asked, AlterShareGroupOffsetsResponse)
    if answer.error_code:
        return Code(answer.error_code)
    return {
        each.partition_index: Code(each.error_code)
        for found in answer.responses
        for each in found.partitions
    }


def forgotten(peer: Peer, group: str, *topics: str) -> Answer:
    """Return what was said to the whole request, or else to each topic."""
    asked = DeleteShareGroupOffsetsRequest(group, [DeleteShareOffsetsTopic(it) for it in topics])
    answer = peer.ask(DELETE_SHARE_GROUP_OFFSETS, 0, asked, DeleteShareGroupOffsetsResponse)
    if answer.error_code:
        return Code(answer.error_code)
    return {each.topic_name: Code(each.error_code) for each in answer.responses}


def told(
    peer: Peer, group: str, topics: Sequence[ShareOffsetsTopic] | None = None
) -> DescribedShareOffsets:
    """Return what is said of where a group starts, in these topics or in all it has."""
    asked = DescribeShareGroupOffsetsRequest((ShareOffsetsGroup(group, topics),))
    api = DESCRIBE_SHARE_GROUP_OFFSETS
    (found,) = peer.ask(api, 1, asked, DescribeShareGroupOffsetsResponse).groups
    return found


def starts(peer: Peer, group: str, topic: str) -> list[int]:
    """Return where a group starts in the first two partitions of a topic."""
    (found,) = told(peer, group, [ShareOffsetsTopic(topic, (0, 1))]).topics
    return [each.start_offset for each in found.partitions]


def position(peer: Peer, group: str) -> tuple[int, int]:
    """Return where a group starts in the first partition of its only topic, and what is left."""
    (topic,) = told(peer, group).topics
    return topic.partitions[0].start_offset, topic.partitions[0].lag
