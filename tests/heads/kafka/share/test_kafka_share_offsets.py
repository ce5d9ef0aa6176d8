"""Where share groups start: told, altered and deleted for several topics and partitions at once."""

from tests.heads.kafka.raw_peers import Peer
from tests.heads.kafka.share.groups import described, forgotten, moved, starts, told
from tests.heads.kafka.share_answers import runs
from tests.heads.kafka.share_member import Sharer

from mainstem.kafka_protocol.error_codes import Code
from mainstem.kafka_protocol.messages.consumer_groups import (
    CONSUMER_GROUP_HEARTBEAT,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from mainstem.kafka_protocol.messages.share_groups import ShareOffsetsTopic


def test_offsets_of_topics_that_a_group_has_are_deleted_beside_those_it_has_not(
    peer: Peer, topic: str, other: str
) -> None:
    moved(peer, topic, topic, {0: 2})

    assert forgotten(peer, topic, topic, other, "no.such.topic") == {
        topic: Code.NONE,
        other: Code.UNKNOWN_TOPIC_OR_PARTITION,
        "no.such.topic": Code.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert starts(peer, topic, topic) == [-1, -1]


def test_a_topic_named_twice_is_deleted_once(peer: Peer, topic: str) -> None:
    moved(peer, topic, topic, {0: 2})

    assert forgotten(peer, topic, topic, topic) == {topic: Code.NONE}


def test_offsets_of_a_group_that_is_not_there_are_not_deleted(peer: Peer, topic: str) -> None:
    assert forgotten(peer, topic, topic) is Code.GROUP_ID_NOT_FOUND
    assert forgotten(peer, topic) is Code.GROUP_ID_NOT_FOUND
    assert forgotten(peer, "", topic) is Code.INVALID_GROUP_ID


def test_partitions_that_are_there_are_moved_beside_those_that_are_not(
    peer: Peer, topic: str
) -> None:
    moved(peer, topic, topic, {0: 1})

    assert moved(peer, topic, topic, {0: 2, 9: 0, -1: 0, 1: 77}) == {
        0: Code.NONE,
        9: Code.UNKNOWN_TOPIC_OR_PARTITION,
        -1: Code.UNKNOWN_TOPIC_OR_PARTITION,
        1: Code.OFFSET_OUT_OF_RANGE,
    }
    assert starts(peer, topic, topic) == [2, 0]


def test_a_group_is_put_somewhere_before_its_first_member(
    peer: Peer, topic: str, address: str
) -> None:
    assert moved(peer, topic, topic, {0: 7}) == {0: Code.NONE}

    assert described(peer, topic) == ("Empty", [])
    ann = Sharer(address, topic).joined()
    assert runs(ann.fetch()) == [(7, 9, 1)]
    ann.close()


def test_a_group_that_could_not_be_put_anywhere_is_not_there(peer: Peer, topic: str) -> None:
    assert moved(peer, topic, "no.such.topic", {0: 1}) == {0: Code.UNKNOWN_TOPIC_OR_PARTITION}
    assert moved(peer, topic, topic, {9: 1}) == {9: Code.UNKNOWN_TOPIC_OR_PARTITION}
    assert moved(peer, "", topic, {0: 1}) is Code.INVALID_GROUP_ID

    assert described(peer, topic) is Code.GROUP_ID_NOT_FOUND


def test_of_a_group_that_is_not_there_it_is_told_that_it_has_not_begun(
    peer: Peer, topic: str
) -> None:
    everything = told(peer, topic)

    assert everything.error_code == Code.NONE
    assert not everything.topics
    assert starts(peer, topic, topic) == [-1, -1]
    assert told(peer, "").error_code == Code.INVALID_GROUP_ID


def test_a_group_has_not_begun_with_what_is_not_there(peer: Peer, topic: str) -> None:
    assert moved(peer, topic, topic, {0: 1}) == {0: Code.NONE}

    found = told(peer, topic, [ShareOffsetsTopic("nothing", (0,)), ShareOffsetsTopic(topic, (9,))])

    assert [
        (it.start_offset, it.error_code) for each in found.topics for it in each.partitions
    ] == [(-1, Code.NONE)] * 2


def test_a_group_with_members_is_not_moved_nowhere_either(peer: Peer, ann: Sharer) -> None:
    assert moved(peer, ann.topic, None, {}) is Code.NON_EMPTY_GROUP


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

    assert moved(peer, topic, topic, {0: 1}) is Code.GROUP_ID_NOT_FOUND
    assert forgotten(peer, topic, topic) is Code.GROUP_ID_NOT_FOUND
    assert described(peer, topic) is Code.GROUP_ID_NOT_FOUND
