"""ConsumerGroupHeartbeat and what goes with it, in forms that no client library sends."""

from collections.abc import Iterator

import pytest
from tests.heads.kafka.classic_members import join, joining, sync
from tests.heads.kafka.raw_peers import Peer, produce, served

from mainstem.core.event import Event
from mainstem.core.records import build
from mainstem.kafka_protocol.classic_group_metadata import decode_blob, encode_blob
from mainstem.kafka_protocol.error_codes import Code
from mainstem.kafka_protocol.messages import commits
from mainstem.kafka_protocol.messages.consumer_groups import (
    CONSUMER_GROUP_DESCRIBE,
    CONSUMER_GROUP_HEARTBEAT,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    OwnedPartitions,
)
from mainstem.kafka_protocol.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)
from mainstem.kafka_protocol.messages.groups import (
    DESCRIBE_GROUPS,
    LIST_GROUPS,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    ListGroupsRequest,
    ListGroupsResponse,
)
from mainstem.kafka_protocol.messages.metadata import (
    METADATA,
    MetadataRequest,
    MetadataResponse,
    MetadataTopicName,
)


@pytest.fixture(scope="module")
def peer() -> Iterator[Peer]:
    """A client of a server that has the topics ``t`` and ``u``."""
    with served(None) as address, Peer(address) as found:
        for topic in "tu":
            assert produce(found, topic, bytes(build([Event(b"v")], now_ms=1))).error_code == 0
        yield found


@pytest.fixture
def group(request: pytest.FixtureRequest) -> str:
    """A group named after the test."""
    return str(request.node.name)[:200]


def beat(peer: Peer, group: str, **said: object) -> ConsumerGroupHeartbeatResponse:
    """Send a heartbeat; it joins unless something else is said."""
    joining: dict[str, object] = {
        "group_id": group,
        "member_id": "me",
        "rebalance_timeout_ms": 60_000,
        "subscribed_topic_names": ("t",),
        "topic_partitions": (),
    }
    body = ConsumerGroupHeartbeatRequest(**(joining | said))  # type: ignore[arg-type]
    return peer.ask(CONSUMER_GROUP_HEARTBEAT, 1, body, ConsumerGroupHeartbeatResponse)


def test_the_first_version_gives_out_ids(peer: Peer, group: str) -> None:
    body = ConsumerGroupHeartbeatRequest(
        group_id=group, rebalance_timeout_ms=1, subscribed_topic_names=("t",), topic_partitions=()
    )

    heard = peer.ask(CONSUMER_GROUP_HEARTBEAT, 0, body, ConsumerGroupHeartbeatResponse)

    assert heard.member_id
    assert heard.member_epoch == 1


@pytest.mark.parametrize(
    "said",
    [
        {"group_id": ""},
        {"group_id": "  "},
        {"member_id": ""},
        {"member_id": "  "},
        {"instance_id": ""},
        {"rack_id": ""},
        {"member_epoch": -3},
        {"member_epoch": -2},
        {"rebalance_timeout_ms": -1},
        {"instance_id": " "},
        {"rack_id": " "},
        {"topic_partitions": None},
        {"topic_partitions": (OwnedPartitions(bytes(16), (0,)),)},
        {"subscribed_topic_names": None},
        {"member_id": "m" * 301},
        {"instance_id": "i" * 10_000},
    ],
)
def test_a_join_that_cannot_be_is_an_invalid_request(peer: Peer, said: dict[str, object]) -> None:
    heard = beat(peer, "g.invalid", **said)

    assert heard.error_code == Code.INVALID_REQUEST
    assert heard.error_message


@pytest.mark.parametrize(
    "said",
    [
        {"subscribed_topic_names": ()},
        {"subscribed_topic_names": None, "subscribed_topic_regex": ""},
        {"subscribed_topic_names": (), "subscribed_topic_regex": ""},
    ],
)
def test_who_wants_no_topic_yet_joins_and_says_later_what_it_wants(
    peer: Peer, group: str, said: dict[str, object]
) -> None:
    joined = beat(peer, group, **said)
    later = beat(peer, group, member_epoch=joined.member_epoch)

    assert joined.error_code == Code.NONE
    assert joined.assignment is not None
    assert not joined.assignment.topic_partitions
    assert later.assignment is not None
    assert len(later.assignment.topic_partitions) == 1


@pytest.mark.parametrize(
    ("said", "code"),
    [
        ({"server_assignor": "magic"}, Code.UNSUPPORTED_ASSIGNOR),
        ({"subscribed_topic_regex": "("}, Code.INVALID_REGULAR_EXPRESSION),
        ({"subscribed_topic_regex": "a" * 2_000}, Code.INVALID_REGULAR_EXPRESSION),
        ({"subscribed_topic_regex": "(a{1000}){1000}"}, Code.INVALID_REGULAR_EXPRESSION),
        ({"member_epoch": 7}, Code.UNKNOWN_MEMBER_ID),
        ({"member_epoch": -1}, Code.UNKNOWN_MEMBER_ID),
        ({"group_id": "\0"}, Code.INVALID_GROUP_ID),
    ],
)
def test_what_cannot_be_done_has_its_own_code(
    peer: Peer, said: dict[str, object], code: Code
) -> None:
    heard = beat(peer, "g.refused", **said)

    assert heard.error_code == code
    assert heard.error_message


def test_a_member_is_fenced_by_its_epoch_and_its_instance(peer: Peer, group: str) -> None:
    joined = beat(peer, group, instance_id="one")

    ahead = beat(peer, group, instance_id="one", member_epoch=joined.member_epoch + 1)
    taken = beat(peer, group, instance_id="one", member_id="you")
    other = beat(peer, group, instance_id="one", member_id="you", member_epoch=1)

    assert ahead.error_code == Code.FENCED_MEMBER_EPOCH
    assert taken.error_code == Code.UNRELEASED_INSTANCE_ID
    assert other.error_code == Code.FENCED_INSTANCE_ID


@pytest.mark.parametrize(
    ("version", "epoch", "member", "code"),
    [
        (9, 1, "me", Code.NONE),
        (9, 0, "me", Code.STALE_MEMBER_EPOCH),
        (9, 2, "me", Code.STALE_MEMBER_EPOCH),
        (8, 2, "me", Code.UNSUPPORTED_VERSION),
        (8, 1, "me", Code.UNSUPPORTED_VERSION),
        (9, 1, "you", Code.UNKNOWN_MEMBER_ID),
        (9, -1, "", Code.UNKNOWN_MEMBER_ID),
    ],
)
def test_only_a_member_in_its_epoch_commits(
    peer: Peer, version: int, epoch: int, member: str, code: Code
) -> None:
    group = f"g.commit.{version}.{epoch}.{member}"
    assert beat(peer, group).member_epoch == 1
    topics = (commits.CommitTopic(name="t", partitions=(commits.CommitPartition(0, 1),)),)
    body = commits.OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=epoch,
        member_id=member,
        topics=topics,
    )

    found = peer.ask(commits.OFFSET_COMMIT, version, body, commits.OffsetCommitResponse)

    assert found.topics[0].partitions[0].error_code == code


@pytest.mark.parametrize(
    ("epoch", "member", "code"),
    [
        (1, "me", Code.NONE),
        (-1, None, Code.NONE),
        (2, "me", Code.STALE_MEMBER_EPOCH),
        (1, "you", Code.UNKNOWN_MEMBER_ID),
        (-1, "me", Code.STALE_MEMBER_EPOCH),
        (1, None, Code.UNKNOWN_MEMBER_ID),
    ],
)
def test_only_a_member_in_its_epoch_is_told_offsets(
    peer: Peer, epoch: int, member: str | None, code: Code
) -> None:
    assert beat(peer, "g.fetch").error_code == 0
    wish = commits.OffsetFetchGroup(
        group_id="g.fetch", member_id=member, member_epoch=epoch, topics=None
    )

    found = peer.ask(
        commits.OFFSET_FETCH,
        9,
        commits.OffsetFetchRequest(groups=(wish,)),
        commits.OffsetFetchResponse,
    )

    assert found.groups[0].error_code == code


def test_offsets_of_topics_that_members_read_are_not_deleted(peer: Peer, group: str) -> None:
    assert beat(peer, group).error_code == 0
    topics = [commits.OffsetDeleteTopic(name, (commits.OffsetDeletePartition(0),)) for name in "tu"]

    found = peer.ask(
        commits.OFFSET_DELETE,
        0,
        commits.OffsetDeleteRequest(group, topics),
        commits.OffsetDeleteResponse,
    )

    assert [each.partitions[0].error_code for each in found.topics] == [
        Code.GROUP_SUBSCRIBED_TO_TOPIC,
        Code.NONE,
    ]


def test_groups_are_found_by_what_they_are(peer: Peer, group: str) -> None:
    assert beat(peer, group).error_code == 0

    older = peer.ask(
        DESCRIBE_GROUPS, 6, DescribeGroupsRequest(groups=(group,)), DescribeGroupsResponse
    )
    names = ConsumerGroupDescribeRequest(group_ids=(group, "nobody", ""))
    newer = peer.ask(CONSUMER_GROUP_DESCRIBE, 1, names, ConsumerGroupDescribeResponse)
    kinds = {
        kind: peer.ask(
            LIST_GROUPS, 5, ListGroupsRequest(types_filter=(kind,)), ListGroupsResponse
        ).groups
        for kind in ("classic", "Consumer")
    }

    assert older.groups[0].error_code == Code.GROUP_ID_NOT_FOUND
    assert [each.error_code for each in newer.groups] == [
        Code.NONE,
        Code.GROUP_ID_NOT_FOUND,
        Code.INVALID_GROUP_ID,
    ]
    (member,) = newer.groups[0].members
    assert (member.member_type, member.subscribed_topic_regex) == (1, "")
    assert group not in [each.group_id for each in kinds["classic"]]
    assert group in [each.group_id for each in kinds["Consumer"]]


def test_a_member_has_what_it_has_yet_to_give_up(peer: Peer, group: str) -> None:
    beat(peer, group)
    beat(peer, group, member_id="you")
    told = beat(peer, group, member_epoch=1, topic_partitions=None)
    assert told.assignment is not None
    assert sum(len(each.partitions) for each in told.assignment.topic_partitions) == 2

    asked = ConsumerGroupDescribeRequest(group_ids=(group,))
    (found,) = peer.ask(CONSUMER_GROUP_DESCRIBE, 1, asked, ConsumerGroupDescribeResponse).groups

    mine = found.members[0].assignment.topic_partitions
    assert sum(len(each.partitions) for each in mine) == 4


def test_a_member_may_be_given_no_time_to_give_up_partitions(peer: Peer, group: str) -> None:
    assert beat(peer, group, rebalance_timeout_ms=0).error_code == Code.NONE


def test_a_group_of_other_programs_is_no_consumer_group(peer: Peer, group: str) -> None:
    body = joining(group, protocol_type="connect", protocol="sessioned", subscription=b"")
    assert join(peer, body, version=3).error_code == 0

    for epoch in (0, 1, -1):
        assert beat(peer, group, member_epoch=epoch).error_code == Code.GROUP_ID_NOT_FOUND


def test_an_older_member_is_a_guest_and_told_in_its_own_words(peer: Peer, group: str) -> None:
    assert beat(peer, group).error_code == 0
    wish = encode_blob(1, ConsumerProtocolSubscription(topics=("t",)))

    joined = join(peer, joining(group, "guest", subscription=wish))
    synced = sync(peer, group, joined)

    assert joined.error_code == synced.error_code == 0
    assert decode_blob(ConsumerProtocolAssignment, synced.assignment).assigned_partitions == ()
    refused = join(peer, joining(group, "other", subscription=b"\xff" * 9))
    assert refused.error_code == Code.INCONSISTENT_GROUP_PROTOCOL


def test_topics_are_found_by_id_beside_an_empty_name(peer: Peer) -> None:
    everything = peer.ask(METADATA, 12, MetadataRequest(topics=None), MetadataResponse)
    ids = [each.topic_id for each in everything.topics]
    wishes = tuple(MetadataTopicName(each, "") for each in ids)

    found = peer.ask(METADATA, 12, MetadataRequest(topics=wishes), MetadataResponse)

    assert [each.name for each in found.topics] == [each.name for each in everything.topics]
