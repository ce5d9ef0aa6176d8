"""Where share groups start: told, altered and deleted for several topics and partitions at once."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import count

import pytest
from tests.heads.kafka.attack import Peer, served
from tests.heads.kafka.sharing import Sharer, put, runs

from mainstem.heads.kafka.adapter.errors import Code
from mainstem.heads.kafka.messages.consumer_groups import (
    CONSUMER_GROUP_HEARTBEAT,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from mainstem.heads.kafka.messages.share_groups import (
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

_names = count()
Answer = Code | dict[object, Code]


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with served(None) as found:
        yield found


@pytest.fixture
def peer(address: str) -> Iterator[Peer]:
    with Peer(address) as found:
        yield found


@pytest.fixture
def topic(peer: Peer) -> str:
    """A topic with ten events, and the name of a group that is not there."""
    return made(peer)


def made(peer: Peer) -> str:
    name = f"orders.{next(_names)}"
    put(peer, name, 10)
    return name


def altered(peer: Peer, group: str, topic: str, offsets: Mapping[int, int]) -> Answer:
    """Return what was said to the whole request, or else to each partition."""
    wanted = AlterShareOffsetsTopic(topic, [AlterShareOffset(*each) for each in offsets.items()])
    asked = AlterShareGroupOffsetsRequest(group, (wanted,))
    answer = peer.ask(ALTER_SHARE_GROUP_OFFSETS, 0, asked, AlterShareGroupOffsetsResponse)
    if answer.error_code:
        return Code(answer.error_code)
    (found,) = answer.responses
    return {each.partition_index: Code(each.error_code) for each in found.partitions}


def deleted(peer: Peer, group: str, *topics: str) -> Answer:
    """Return what was said to the whole request, or else to each topic."""
    asked = DeleteShareGroupOffsetsRequest(group, [DeleteShareOffsetsTopic(it) for it in topics])
    answer = peer.ask(DELETE_SHARE_GROUP_OFFSETS, 0, asked, DeleteShareGroupOffsetsResponse)
    if answer.error_code:
        return Code(answer.error_code)
    return {each.topic_name: Code(each.error_code) for each in answer.responses}


def told(
    peer: Peer, group: str, topics: Sequence[ShareOffsetsTopic] | None = None
) -> DescribedShareOffsets:
    asked = DescribeShareGroupOffsetsRequest((ShareOffsetsGroup(group, topics),))
    api = DESCRIBE_SHARE_GROUP_OFFSETS
    (found,) = peer.ask(api, 1, asked, DescribeShareGroupOffsetsResponse).groups
    return found


def starts(peer: Peer, group: str, topic: str) -> list[int]:
    (found,) = told(peer, group, [ShareOffsetsTopic(topic, (0, 1))]).topics
    return [each.start_offset for each in found.partitions]


def state(peer: Peer, group: str) -> str:
    asked = ShareGroupDescribeRequest((group,))
    (found,) = peer.ask(SHARE_GROUP_DESCRIBE, 1, asked, ShareGroupDescribeResponse).groups
    return found.group_state


def test_offsets_of_topics_that_a_group_has_are_deleted_beside_those_it_has_not(
    peer: Peer, topic: str
) -> None:
    other = made(peer)
    altered(peer, topic, topic, {0: 2})

    assert deleted(peer, topic, topic, other, "no.such.topic") == {
        topic: Code.NONE,
        other: Code.UNKNOWN_TOPIC_OR_PARTITION,
        "no.such.topic": Code.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert starts(peer, topic, topic) == [-1, -1]


def test_a_topic_named_twice_is_deleted_once(peer: Peer, topic: str) -> None:
    altered(peer, topic, topic, {0: 2})

    assert deleted(peer, topic, topic, topic) == {topic: Code.NONE}


def test_offsets_of_a_group_that_is_not_there_are_not_deleted(peer: Peer, topic: str) -> None:
    assert deleted(peer, topic, topic) is Code.GROUP_ID_NOT_FOUND
    assert deleted(peer, topic) is Code.GROUP_ID_NOT_FOUND
    assert deleted(peer, "", topic) is Code.INVALID_GROUP_ID


def test_partitions_that_are_there_are_moved_beside_those_that_are_not(
    peer: Peer, topic: str
) -> None:
    altered(peer, topic, topic, {0: 1})

    assert altered(peer, topic, topic, {0: 2, 9: 0, -1: 0, 1: 77}) == {
        0: Code.NONE,
        9: Code.UNKNOWN_TOPIC_OR_PARTITION,
        -1: Code.UNKNOWN_TOPIC_OR_PARTITION,
        1: Code.OFFSET_OUT_OF_RANGE,
    }
    assert starts(peer, topic, topic) == [2, 0]


def test_a_group_is_put_somewhere_before_its_first_member(
    peer: Peer, topic: str, address: str
) -> None:
    assert altered(peer, topic, topic, {0: 7}) == {0: Code.NONE}

    assert state(peer, topic) == "Empty"
    ann = Sharer(address, topic).joined()
    assert runs(ann.fetch()) == [(7, 9, 1)]
    ann.close()


def test_a_group_that_could_not_be_put_anywhere_is_not_there(peer: Peer, topic: str) -> None:
    assert altered(peer, topic, "no.such.topic", {0: 1}) == {0: Code.UNKNOWN_TOPIC_OR_PARTITION}
    assert altered(peer, topic, topic, {9: 1}) == {9: Code.UNKNOWN_TOPIC_OR_PARTITION}
    assert altered(peer, "", topic, {0: 1}) is Code.INVALID_GROUP_ID

    assert state(peer, topic) == "Dead"


def test_of_a_group_that_is_not_there_it_is_told_that_it_has_not_begun(
    peer: Peer, topic: str
) -> None:
    everything = told(peer, topic)

    assert everything.error_code == Code.NONE
    assert not everything.topics
    assert starts(peer, topic, topic) == [-1, -1]


def test_a_group_of_another_kind_that_has_members_is_left_alone(peer: Peer, topic: str) -> None:
    body = ConsumerGroupHeartbeatRequest(
        group_id=topic,
        member_id="me",
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=(topic,),
        topic_partitions=(),
    )
    heard = peer.ask(CONSUMER_GROUP_HEARTBEAT, 1, body, ConsumerGroupHeartbeatResponse)
    assert heard.error_code == Code.NONE

    assert altered(peer, topic, topic, {0: 1}) is Code.GROUP_ID_NOT_FOUND
    assert deleted(peer, topic, topic) is Code.GROUP_ID_NOT_FOUND
    assert state(peer, topic) == "Dead"
