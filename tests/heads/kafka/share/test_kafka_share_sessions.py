"""Sessions of share groups: their epochs, their partitions, and what their end gives back."""

from tests.heads.kafka.raw_peers import Peer
from tests.heads.kafka.share_answers import ack_code, code, partition_of, runs
from tests.heads.kafka.share_member import ACCEPT, END, Sharer, configure, put

from mainstem.kafka_protocol.error_codes import Code


def test_the_epoch_of_a_session_is_watched(ann: Sharer) -> None:
    assert code(ann.fetch(epoch=1)) is Code.SHARE_SESSION_NOT_FOUND
    ann.fetch()
    assert code(ann.fetch(epoch=7)) is Code.INVALID_SHARE_SESSION_EPOCH
    assert code(ann.acknowledge([(0, 0, [ACCEPT])], epoch=7)) is Code.INVALID_SHARE_SESSION_EPOCH
    assert code(ann.acknowledge([(0, 0, [ACCEPT])], epoch=0)) is Code.INVALID_SHARE_SESSION_EPOCH
    assert code(ann.fetch()) is Code.NONE


def test_who_takes_from_no_topic_is_told_the_time_of_its_group(ann: Sharer, peer: Peer) -> None:
    ann.topic_id = bytes(16)
    configure(peer, ann.topic, "share.record.lock.duration.ms", "20000")

    assert ann.fetch().acquisition_lock_timeout_ms == 20_000


def test_a_session_of_a_group_or_member_that_cannot_be_is_refused(address: str, topic: str) -> None:
    for group, member in ((topic, ""), (topic, "m" * 37), ("g" * 256, "ann")):
        sharer = Sharer(address, group, member)
        assert code(sharer.fetch(partitions=[])) is Code.INVALID_REQUEST
        sharer.close()


def test_a_new_session_has_nothing_to_acknowledge(ann: Sharer) -> None:
    assert code(ann.fetch(acks=[(0, 0, [ACCEPT])])) is Code.INVALID_REQUEST


def test_a_session_that_ends_gives_back_what_was_delivered_once(ann: Sharer, bob: Sharer) -> None:
    ann.fetch()

    ann.acknowledge([(0, 4, [ACCEPT])], epoch=END)

    assert runs(bob.fetch()) == [(5, 9, 2)]
    assert code(ann.fetch()) is Code.SHARE_SESSION_NOT_FOUND


def test_a_connection_that_is_lost_gives_back_what_may_have_failed(
    ann: Sharer, bob: Sharer
) -> None:
    ann.fetch()
    bob.send_fetch(max_wait_ms=60_000)

    ann.peer.reset()

    assert runs(bob.fetched()) == [(0, 9, 2)]


def test_a_partition_that_is_forgotten_is_not_taken_from(ann: Sharer, peer: Peer) -> None:
    ann.fetch(partitions=[0, 1])
    put(peer, ann.topic, 3, partition=1)

    assert runs(ann.fetch(partitions=[], forgotten=[1]), 1) == []
    assert runs(ann.fetch(partitions=[1]), 1) == [(0, 2, 1)]


def test_a_member_that_begins_anew_keeps_what_it_holds(ann: Sharer, bob: Sharer) -> None:
    ann.fetch()

    assert runs(ann.fetch(epoch=0, partitions=[1])) == runs(bob.fetch()) == []
    assert ack_code(ann.acknowledge([(0, 3, [ACCEPT])], epoch=1)) is Code.NONE
    ann.acknowledge([(4, 5, [ACCEPT])], epoch=END)
    assert runs(bob.fetch()) == [(6, 9, 2)]


def test_partitions_and_topics_that_are_not_there_are_named(ann: Sharer) -> None:
    found = ann.fetch(partitions=[0, 99])

    assert runs(found) == [(0, 9, 1)]
    assert partition_of(found, 99).error_code == Code.UNKNOWN_TOPIC_OR_PARTITION
    ann.topic_id = b"\xff" * 16
    answer = ann.acknowledge([(0, 0, [ACCEPT])])
    assert ack_code(answer) is Code.UNKNOWN_TOPIC_ID
    found = ann.fetch(partitions=[5])
    assert partition_of(found, 5).error_code == Code.UNKNOWN_TOPIC_ID


def test_who_never_joined_takes_nothing(address: str, peer: Peer) -> None:
    put(peer, "unshared", 1)
    stranger = Sharer(address, "unshared")

    found = stranger.fetch()

    assert partition_of(found).error_code == Code.GROUP_ID_NOT_FOUND
    stranger.close()
