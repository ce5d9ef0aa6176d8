"""Members of share groups: they join, stay and leave, and are told what they may take from."""

import pytest
from tests.heads.kafka.raw_peers import Peer
from tests.heads.kafka.share.groups import described
from tests.heads.kafka.share_answers import ack_code, code, runs
from tests.heads.kafka.share_member import END, REJECT, Sharer, configure, put

from mainstem.core.dead_letters import topic_of
from mainstem.kafka_protocol.error_codes import Code
from mainstem.kafka_protocol.messages.share_groups import (
    SHARE_GROUP_HEARTBEAT,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)


def test_members_join_stay_and_leave(ann: Sharer, topic: str, peer: Peer) -> None:
    first = ann.beat(epoch=0, topics=[topic])
    assert first.assignment is not None
    (assigned,) = first.assignment.topic_partitions
    assert (assigned.topic_id, list(assigned.partitions)) == (ann.topic_id, [0, 1, 2, 3])
    assert first.heartbeat_interval_ms == 5_000
    assert ann.beat().assignment is None
    assert described(peer, topic) == ("Stable", ["ann"])
    assert ann.beat(epoch=END).member_epoch == -1
    assert described(peer, topic) == ("Empty", [])
    assert code(ann.beat(epoch=1)) is Code.UNKNOWN_MEMBER_ID


def test_a_member_of_another_epoch_is_fenced(ann: Sharer, topic: str) -> None:
    was = ann.epoch

    ann.beat(topics=[topic, "later"])

    assert code(ann.beat(epoch=was + 5)) is Code.FENCED_MEMBER_EPOCH
    assert code(ann.beat(epoch=was)) is Code.NONE, "it may not have got the answer"


@pytest.mark.parametrize(
    ("member", "epoch", "topics"),
    [
        ("", 0, ["t"]),
        ("  ", 0, ["t"]),
        ("m" * 37, 0, ["t"]),
        ("ann", 0, None),
        ("ann", -2, None),
    ],
)
def test_heartbeats_that_mean_nothing_are_refused(
    address: str, member: str, epoch: int, topics: list[str] | None
) -> None:
    sharer = Sharer(address, "nothing", member)

    assert code(sharer.beat(epoch=epoch, topics=topics)) is Code.INVALID_REQUEST
    sharer.close()


@pytest.mark.parametrize(("group", "rack"), [("  ", None), ("", None), ("nothing", "")])
def test_a_group_without_a_name_and_an_empty_rack_are_refused(
    peer: Peer, group: str, rack: str | None
) -> None:
    body = ShareGroupHeartbeatRequest(group, "ann", 0, rack, ("t",))

    answer = peer.ask(SHARE_GROUP_HEARTBEAT, 1, body, ShareGroupHeartbeatResponse)

    assert code(answer) is Code.INVALID_REQUEST


def test_a_topic_that_comes_later_is_taken_from_its_beginning(address: str, peer: Peer) -> None:
    sharer = Sharer(address, "comes.later")
    sharer.beat(epoch=0, topics=["comes.later"])
    put(peer, "comes.later", 3)

    told = sharer.beat()

    assert told.assignment is not None
    sharer.topic_id = told.assignment.topic_partitions[0].topic_id
    assert runs(sharer.fetch()) == [(0, 2, 1)]
    sharer.close()


@pytest.mark.parametrize("length", [245, 249])
def test_a_topic_of_any_name_is_shared_and_has_dead_letters(
    address: str, peer: Peer, length: int
) -> None:
    topic = "x" * length
    put(peer, topic, 2)
    configure(peer, topic, "share.auto.offset.reset", "earliest")
    sharer = Sharer(address, topic).joined()

    assert described(peer, topic) == ("Stable", ["ann"])
    assert runs(sharer.fetch()) == [(0, 1, 1)]
    assert ack_code(sharer.acknowledge([(0, 1, [REJECT])])) is Code.NONE
    letters = Sharer(address, topic_of(topic))
    assert letters.topic_id != bytes(16)
    letters.close()
    sharer.close()


def test_a_group_begins_at_the_latest_unless_it_is_told_otherwise(address: str, peer: Peer) -> None:
    put(peer, "latest", 5)
    sharer = Sharer(address, "latest").joined()
    put(peer, "latest", 1)

    assert runs(sharer.fetch()) == [(5, 5, 1)]
    sharer.close()
