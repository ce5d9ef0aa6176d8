"""Names, metadata and members that only somebody hostile or broken sends, over a real socket."""

import struct
from collections.abc import Iterator

import pytest
from tests.heads.kafka.classic_members import join, joining, leave
from tests.heads.kafka.raw_peers import Healthy, Peer, produce, request, served

from mainstem.core.event import Event
from mainstem.core.records import build
from mainstem.kafka_protocol.error_codes import Code
from mainstem.kafka_protocol.messages.commits import (
    OFFSET_COMMIT,
    OFFSET_FETCH,
    CommitPartition,
    CommitTopic,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
)
from mainstem.kafka_protocol.messages.metadata import (
    METADATA,
    MetadataRequest,
    MetadataResponse,
    MetadataTopicName,
)

BATCH = bytes(build([Event(value=b"v", key=b"k")], now_ms=1))


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with served(tmp_path_factory.mktemp("abused")) as found:
        yield found


illegal = {
    "empty": "",
    "dot": ".",
    "dots": "..",
    "parent": "../x",
    "absolute": "/etc/passwd",
    "NUL": "a\0b",
    "newline": "a\nb",
    "space": "a b",
    "250 characters": "x" * 250,
    "30,000 characters": "x" * 30_000,
    "look-alike": "orders\u0430",
    "right to left": "\u202eabc",
    "percent": "%2e%2e%2f",
    "our own": "__mainstem_other",
    "star": "*",
}


@pytest.mark.parametrize("name", illegal.values(), ids=illegal.keys())
def test_no_topic_is_created_by_an_illegal_name(peer: Peer, healthy: Healthy, name: str) -> None:
    asked = peer.ask(
        METADATA, 9, MetadataRequest((MetadataTopicName(name=name),)), MetadataResponse
    )
    produced = produce(peer, name, BATCH)

    refusals = {Code.INVALID_TOPIC_EXCEPTION, Code.UNKNOWN_TOPIC_OR_PARTITION}
    assert Code(asked.topics[0].error_code) in refusals
    assert Code(produced.error_code) in refusals
    everything = peer.ask(METADATA, 9, MetadataRequest(None), MetadataResponse)
    assert name not in {each.name for each in everything.topics}


def test_nobody_writes_into_our_own_topics(peer: Peer, healthy: Healthy) -> None:
    produced = produce(peer, "__mainstem_topics", BATCH)

    assert Code(produced.error_code) is Code.INVALID_TOPIC_EXCEPTION


def test_topics_named_at_random_are_created_up_to_what_one_request_may_name(
    peer: Peer, healthy: Healthy
) -> None:
    names = tuple(MetadataTopicName(name=f"random.{number}") for number in range(200))

    answer = peer.ask(METADATA, 9, MetadataRequest(names), MetadataResponse)

    assert {each.error_code for each in answer.topics} == {0}
    healthy.check()


def commit(peer: Peer, group: str, metadata: str) -> Code:
    place = CommitPartition(0, committed_offset=1, committed_metadata=metadata)
    wish = OffsetCommitRequest(group, topics=(CommitTopic(name="named", partitions=(place,)),))
    answer = peer.ask(OFFSET_COMMIT, 8, wish, OffsetCommitResponse)
    return Code(answer.topics[0].partitions[0].error_code)


def test_metadata_beside_an_offset_is_kept_up_to_a_limit(peer: Peer, healthy: Healthy) -> None:
    assert produce(peer, "named", BATCH).error_code == 0

    assert commit(peer, "g", "m" * 4096) is Code.NONE
    assert commit(peer, "g", "n" * 4097) is Code.OFFSET_METADATA_TOO_LARGE
    assert commit(peer, "g", "\u20ac" * 2000) is Code.OFFSET_METADATA_TOO_LARGE
    assert commit(peer, "g", "o" * 32767) is Code.OFFSET_METADATA_TOO_LARGE

    answer = peer.ask(
        OFFSET_FETCH, 7, OffsetFetchRequest(group_id="g", topics=None), OffsetFetchResponse
    )
    assert answer.topics[0].partitions[0].metadata == "m" * 4096


def test_a_mebibyte_beside_an_offset_is_no_string_of_the_protocol(
    address: str, healthy: Healthy
) -> None:
    small = CommitPartition(0, committed_offset=1, committed_metadata="m")
    wish = OffsetCommitRequest("g", topics=(CommitTopic(name="named", partitions=(small,)),))
    frame = request(OFFSET_COMMIT, 8, wish)[4:]
    # Its length is one more, in as many bytes as it takes.
    large = frame.replace(b"\2m", b"\x81\x80\x40" + b"m" * (1 << 20))

    with Peer(address) as hostile:
        hostile.send(struct.pack(">i", len(large)) + large)

        assert hostile.is_cut_off()


@pytest.mark.parametrize("group", ["", "x" * 300, "a\nb"], ids=["empty", "long", "newline"])
def test_a_group_by_an_illegal_name_is_refused(peer: Peer, healthy: Healthy, group: str) -> None:
    assert produce(peer, "named", BATCH).error_code == 0

    assert commit(peer, group, "") is Code.INVALID_GROUP_ID
    assert Code(join(peer, joining(group)).error_code) is Code.INVALID_GROUP_ID


def test_members_that_join_and_leave_without_end_leave_nothing(
    peer: Peer, healthy: Healthy
) -> None:
    for _ in range(300):
        given = join(peer, joining("flapping")).member_id
        joined = join(peer, joining("flapping", given))
        assert joined.error_code == 0
        assert leave(peer, "flapping", given).error_code == 0

    healthy.check()


def test_a_member_that_nobody_knows_is_told_so(peer: Peer, healthy: Healthy) -> None:
    assert Code(join(peer, joining("g2", "made-up")).error_code) is Code.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("timeout_ms", [-1, 0, 2**31 - 1])
def test_a_session_timeout_beyond_the_limits_is_refused(peer: Peer, timeout_ms: int) -> None:
    refused = join(peer, joining("g3", timeout_ms=timeout_ms))

    assert Code(refused.error_code) is Code.INVALID_SESSION_TIMEOUT
