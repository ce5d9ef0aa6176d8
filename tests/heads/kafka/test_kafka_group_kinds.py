"""Requests of one group protocol to a group whose members use another."""

from collections.abc import Iterator

import pytest
from tests.heads.kafka.raw_peers import Peer, served
from tests.heads.kafka.share_member import Sharer, put

from mainstem.kafka_protocol.error_codes import Code
from mainstem.kafka_protocol.messages import commits
from mainstem.kafka_protocol.messages.consumer_groups import (
    CONSUMER_GROUP_HEARTBEAT,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)

LEAVE, JOIN, STAY = -1, 0, 1


@pytest.fixture
def address() -> Iterator[str]:
    with served(None) as found:
        yield found


@pytest.fixture(autouse=True)
def topic(peer: Peer) -> None:
    put(peer, "t", 1)


@pytest.fixture
def sharer(address: str, topic: None) -> Iterator[Sharer]:
    """A client that is, or would be, a member of a share group ``t``."""
    found = Sharer(address, "t")
    yield found
    found.close()


def consume(peer: Peer, epoch: int) -> Code:
    """Send a heartbeat to a consumer group ``t``; return what was said to it."""
    body = ConsumerGroupHeartbeatRequest(
        group_id="t",
        member_id="me",
        member_epoch=epoch,
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=("t",),
        topic_partitions=(),
    )
    answer = peer.ask(CONSUMER_GROUP_HEARTBEAT, 1, body, ConsumerGroupHeartbeatResponse)
    return Code(answer.error_code)


def commit(peer: Peer, offset: int) -> Code:
    topic = commits.CommitTopic(name="t", partitions=(commits.CommitPartition(0, offset),))
    body = commits.OffsetCommitRequest("t", -1, "", None, -1, (topic,))
    answer = peer.ask(commits.OFFSET_COMMIT, 9, body, commits.OffsetCommitResponse)
    return Code(answer.topics[0].partitions[0].error_code)


def delete(peer: Peer) -> Code:
    topic = commits.OffsetDeleteTopic("t", (commits.OffsetDeletePartition(0),))
    body = commits.OffsetDeleteRequest("t", (topic,))
    return Code(peer.ask(commits.OFFSET_DELETE, 0, body, commits.OffsetDeleteResponse).error_code)


@pytest.mark.parametrize("epoch", [JOIN, STAY, LEAVE])
def test_a_consumer_group_with_members_is_no_share_group(
    peer: Peer, sharer: Sharer, epoch: int
) -> None:
    assert consume(peer, JOIN) is Code.NONE

    answer = sharer.beat(epoch=epoch, topics=["t"])

    assert answer.error_code == Code.GROUP_ID_NOT_FOUND


@pytest.mark.parametrize("epoch", [JOIN, STAY, LEAVE])
def test_a_share_group_with_members_is_no_consumer_group(
    peer: Peer, sharer: Sharer, epoch: int
) -> None:
    sharer.joined()

    assert consume(peer, epoch) is Code.GROUP_ID_NOT_FOUND


def test_a_share_group_with_members_has_no_cursors(peer: Peer, sharer: Sharer) -> None:
    assert commit(peer, 1) is Code.NONE
    sharer.joined()

    assert commit(peer, 0) is Code.GROUP_ID_NOT_FOUND
    assert delete(peer) is Code.GROUP_ID_NOT_FOUND


@pytest.mark.parametrize("epoch", [STAY, LEAVE])
def test_a_member_that_nobody_remembers_is_told_so_that_it_joins_again(
    peer: Peer, sharer: Sharer, epoch: int
) -> None:
    assert consume(peer, epoch) is Code.UNKNOWN_MEMBER_ID
    assert sharer.beat(epoch=epoch).error_code == Code.UNKNOWN_MEMBER_ID
