"""OffsetCommit, OffsetFetch and OffsetDelete in forms that few client libraries send."""

from collections.abc import Iterator

import pytest
from tests.heads.kafka.classic_members import join, joining, sync
from tests.heads.kafka.raw_peers import Peer, produce, served
from tests.heads.kafka.transactional_producer import TransactionalProducer

from mainstem.broker.groups.classic.coordinator import GroupDescription, MemberDescription
from mainstem.broker.groups.classic.group import Phase
from mainstem.core.event import Event
from mainstem.core.records import build
from mainstem.heads.kafka.adapter.apis.offset_delete import read_by
from mainstem.kafka_protocol.classic_group_metadata import encode_blob
from mainstem.kafka_protocol.error_codes import Code
from mainstem.kafka_protocol.messages import commits
from mainstem.kafka_protocol.messages.consumer_protocol import (
    ConsumerPartitions,
    ConsumerProtocolSubscription,
)
from mainstem.kafka_protocol.messages.metadata import METADATA, MetadataRequest, MetadataResponse

NO_SUCH_ID = bytes(15) + b"x"


@pytest.fixture(scope="module")
def peer() -> Iterator[Peer]:
    """A client of a server that has topics ``t`` and ``u``."""
    with served(None) as address, Peer(address) as found:
        for topic in ("t", "u"):
            produce(found, topic, bytes(build([Event(value=b"v")], now_ms=1)))
        yield found


def ids(peer: Peer) -> dict[str | None, bytes]:
    answer = peer.ask(METADATA, 12, MetadataRequest(None), MetadataResponse)
    return {each.name: each.topic_id for each in answer.topics}


def commit(peer: Peer, group: str, *topics: str, offset: int = 1) -> None:
    wanted = tuple(
        commits.CommitTopic(name=topic, partitions=(commits.CommitPartition(0, offset),))
        for topic in topics
    )
    answer = peer.ask(
        commits.OFFSET_COMMIT,
        9,
        commits.OffsetCommitRequest(group, topics=wanted),
        commits.OffsetCommitResponse,
    )
    assert {each.partitions[0].error_code for each in answer.topics} == {0}


def fetched(
    peer: Peer,
    group: str,
    topics: tuple[commits.OffsetFetchTopic, ...] | None,
    *,
    stable: bool = False,
) -> list[tuple[bytes, int, Code]]:
    """Return what is answered about partition 0 of topics: their ids, offsets and codes."""
    wish = commits.OffsetFetchRequest(
        (commits.OffsetFetchGroup(group, topics=topics),), require_stable=stable
    )
    answer = peer.ask(commits.OFFSET_FETCH, 10, wish, commits.OffsetFetchResponse)
    return [
        (topic.topic_id, each.committed_offset, Code(each.error_code))
        for topic in answer.groups[0].topics
        for each in topic.partitions
    ]


def test_cursors_are_moved_and_told_by_the_ids_of_topics(peer: Peer) -> None:
    t = ids(peer)["t"]
    places = (commits.CommitPartition(0, 7),)
    wanted = (
        commits.CommitTopic(t, partitions=places),
        commits.CommitTopic(NO_SUCH_ID, partitions=places),
    )

    wish = commits.OffsetCommitRequest("by-id", topics=wanted)
    answer = peer.ask(commits.OFFSET_COMMIT, 10, wish, commits.OffsetCommitResponse)

    codes = [(each.topic_id, Code(each.partitions[0].error_code)) for each in answer.topics]
    assert codes == [(t, Code.NONE), (NO_SUCH_ID, Code.UNKNOWN_TOPIC_ID)]
    asked = (commits.OffsetFetchTopic(t, "", (0,)), commits.OffsetFetchTopic(NO_SUCH_ID, "", (0,)))
    assert fetched(peer, "by-id", asked) == [
        (t, 7, Code.NONE),
        (NO_SUCH_ID, -1, Code.UNKNOWN_TOPIC_ID),
    ]
    assert fetched(peer, "by-id", None) == [(t, 7, Code.NONE)]


@pytest.mark.parametrize("offset", [-1, -2, -5])
def test_an_offset_below_zero_is_kept_and_told_as_it_was_committed(peer: Peer, offset: int) -> None:
    group = f"unset{offset}"
    t = ids(peer)["t"]
    commit(peer, group, "t", offset=3)

    commit(peer, group, "t", offset=offset)

    asked = (commits.OffsetFetchTopic(t, "", (0,)),)
    assert fetched(peer, group, asked) == [(t, offset, Code.NONE)]
    assert fetched(peer, group, None) == [(t, offset, Code.NONE)]


def test_an_offset_below_zero_moves_with_its_transaction(peer: Peer) -> None:
    commit(peer, "unset by a transaction", "t", offset=3)
    producer = TransactionalProducer(peer, "unsets")
    assert producer.commit_offset(5, "unset by a transaction", -2) is Code.NONE
    producer.end(5)

    found = fetched(peer, "unset by a transaction", None, stable=True)

    assert [each[1:] for each in found] == [(-2, Code.NONE)]


def test_a_cursor_that_a_transaction_is_going_to_move_is_not_stable(peer: Peer) -> None:
    asked = (commits.OffsetFetchTopic(ids(peer)["t"], "", (0,)),)
    commit(peer, "unstable", "t", offset=3)
    producer = TransactionalProducer(peer, "tx")
    producer.commit_offset(5, "unstable", 5)

    before = fetched(peer, "unstable", asked, stable=True)
    careless = fetched(peer, "unstable", asked)
    producer.end(5)
    after = fetched(peer, "unstable", asked, stable=True)

    assert [each[1:] for each in before] == [(-1, Code.UNSTABLE_OFFSET_COMMIT)]
    assert [each[1:] for each in careless] == [(3, Code.NONE)]
    assert [each[1:] for each in after] == [(5, Code.NONE)]


def read_topic(peer: Peer, group: str, topic: str, protocol: str = "consumer") -> None:
    """Let the only member of a group read a topic."""
    blob = encode_blob(0, ConsumerProtocolSubscription((topic,)))
    joined = join(peer, joining(group, protocol_type=protocol, subscription=blob), version=3)
    assert joined.error_code == 0
    sync(peer, group, joined, b"", version=2)


def deleted(peer: Peer, group: str, *topics: str) -> list[Code]:
    wanted = tuple(
        commits.OffsetDeleteTopic(topic, (commits.OffsetDeletePartition(0),)) for topic in topics
    )
    answer = peer.ask(
        commits.OFFSET_DELETE,
        0,
        commits.OffsetDeleteRequest(group, wanted),
        commits.OffsetDeleteResponse,
    )
    codes = [Code(topic.partitions[0].error_code) for topic in answer.topics]
    return codes if not answer.error_code else [Code(answer.error_code)]


def test_cursors_in_topics_that_a_live_group_reads_are_not_forgotten(peer: Peer) -> None:
    commit(peer, "reading", "t", "u")
    read_topic(peer, "reading", "t")

    assert deleted(peer, "reading", "t", "u") == [Code.GROUP_SUBSCRIBED_TO_TOPIC, Code.NONE]
    assert len(fetched(peer, "reading", None)) == 1


def test_cursors_of_a_group_without_members_are_forgotten(peer: Peer) -> None:
    commit(peer, "idle", "t", "u")

    assert deleted(peer, "idle", "t", "none") == [Code.NONE, Code.UNKNOWN_TOPIC_OR_PARTITION]
    assert len(fetched(peer, "idle", None)) == 1


def described(*subscriptions: bytes) -> GroupDescription:
    members = [
        MemberDescription(f"m{number}", None, "", "", metadata, b"")
        for number, metadata in enumerate(subscriptions)
    ]
    return GroupDescription("g", Phase.STABLE, "consumer", "range", 1, tuple(members))


def wish(*topics: str, owned: int = 0) -> bytes:
    partitions = (ConsumerPartitions("owned", (owned,)),)
    return encode_blob(3, ConsumerProtocolSubscription(topics, b"x", partitions, 1, "rack"))


def test_what_members_read_is_what_they_subscribe_to() -> None:
    assert read_by(described()) == set()
    assert read_by(described(wish())) == set()
    assert read_by(described(wish("t", "é"), wish("t", "é", "u"))) == {"t", "é", "u"}
    assert read_by(described(*(wish(f"t{number}") for number in range(40)))) == {
        f"t{number}" for number in range(40)
    }
    assert read_by(described(wish("t"), b"\0")) is None


def test_of_members_that_subscribe_to_the_same_topics_one_is_looked_into() -> None:
    alike = [wish("t", "u", "v", owned=number) for number in range(100)]

    assert read_by(described(*alike), most=3) == {"t", "u", "v"}
    assert read_by(described(*alike, wish("t")), most=3) is None


def test_who_knows_what_members_read_that_subscribe_to_too_much_together() -> None:
    different = [wish("t", f"u{number}") for number in range(10)]

    assert read_by(described(*different), most=20) is not None
    assert read_by(described(*different), most=19) is None


def test_a_live_group_that_reads_who_knows_what_is_left_alone(peer: Peer) -> None:
    commit(peer, "workers", "t")
    read_topic(peer, "workers", "t", protocol="connect")

    assert deleted(peer, "workers", "t") == [Code.NON_EMPTY_GROUP]
    assert deleted(peer, "nobody", "t") == [Code.GROUP_ID_NOT_FOUND]
