"""Acknowledgements of share group members, and their refusals."""

from collections.abc import Mapping
from contextlib import closing

import pytest
from tests.heads.kafka.raw_peers import Peer
from tests.heads.kafka.share.groups import position
from tests.heads.kafka.share_answers import ack_code, code, partition_of, runs
from tests.heads.kafka.share_member import (
    ACCEPT,
    REJECT,
    RELEASE,
    RENEW,
    Acks,
    Sharer,
    configure,
    put,
)
from tests.in_process_server import server

from mainstem.broker.queues.records import Settlement
from mainstem.heads.kafka.adapter.share import share_acknowledgements
from mainstem.kafka_protocol.error_codes import Code
from mainstem.kafka_protocol.messages.share_fetch import (
    SHARE_ACKNOWLEDGE,
    Acknowledgement,
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
)
from mainstem.node.config import load_config


def test_acknowledgements_come_with_the_next_fetch(ann: Sharer, peer: Peer) -> None:
    ann.fetch()
    put(peer, ann.topic, 1)

    found = ann.fetch(acks=[(0, 9, [ACCEPT])])

    assert partition_of(found).acknowledge_error_code == Code.NONE
    assert runs(found) == [(10, 10, 1)]
    assert position(peer, ann.topic) == (10, 1)


def test_what_is_not_acquired_cannot_be_acknowledged_and_nothing_of_it_is(
    ann: Sharer, bob: Sharer, peer: Peer
) -> None:
    ann.fetch(max_records=5, mode=1)
    bob.fetch(max_records=5, mode=1)

    assert ack_code(ann.acknowledge([(0, 5, [ACCEPT])])) is Code.INVALID_RECORD_STATE
    assert position(peer, ann.topic) == (0, 10)
    assert ack_code(ann.acknowledge([(1, 3, [ACCEPT])])) is Code.NONE
    assert ack_code(ann.acknowledge([(1, 3, [ACCEPT])])) is Code.INVALID_RECORD_STATE


def test_who_comes_too_late_hears_of_it_also_if_all_before_is_settled(ann: Sharer) -> None:
    ann.fetch()
    ann.acknowledge([(0, 3, [ACCEPT])])

    assert ack_code(ann.acknowledge([(0, 3, [ACCEPT])])) is Code.INVALID_RECORD_STATE
    assert ack_code(ann.acknowledge([(3, 5, [ACCEPT])])) is Code.INVALID_RECORD_STATE


@pytest.mark.parametrize(
    "acks", [[(10, 10, [ACCEPT])], [(8, 20, [ACCEPT])], [(0, 0, [ACCEPT]), (100, 101, [0])]]
)
def test_of_what_was_never_fetched_nothing_can_be_said(ann: Sharer, peer: Peer, acks: Acks) -> None:
    ann.fetch()
    put(peer, ann.topic, 1)

    assert ack_code(ann.acknowledge(acks)) is Code.INVALID_REQUEST
    assert position(peer, ann.topic) == (0, 11)


@pytest.mark.parametrize(
    "acks",
    [
        [(5, 4, [ACCEPT])],
        [(-1, 0, [ACCEPT])],
        [(0, 1, [])],
        [(0, 3, [ACCEPT, ACCEPT])],
        [(0, 1, [5])],
        [(0, 1, [-1])],
        [(0, 1, [RENEW])],
        [(2, 4, [ACCEPT]), (0, 3, [ACCEPT])],
        [(0, 3, [ACCEPT]), (2, 4, [ACCEPT])],
    ],
)
def test_acknowledgements_that_mean_nothing_are_refused(ann: Sharer, acks: Acks) -> None:
    ann.fetch()

    assert ack_code(ann.acknowledge(acks)) is Code.INVALID_REQUEST


def test_an_offset_that_is_acknowledged_twice_is_settled_by_then(ann: Sharer) -> None:
    ann.fetch()

    answer = ann.acknowledge([(0, 3, [ACCEPT]), (3, 4, [ACCEPT])])

    assert ack_code(answer) is Code.INVALID_RECORD_STATE


def test_a_range_of_all_offsets_there_are_is_refused_at_once(ann: Sharer) -> None:
    ann.fetch()

    answer = ann.acknowledge([(0, 2**62, [0])])

    assert ack_code(answer) is Code.INVALID_REQUEST


def test_what_is_said_of_records_need_not_come_by_offset(ann: Sharer, peer: Peer) -> None:
    ann.fetch()

    answer = ann.acknowledge([(7, 9, [ACCEPT]), (0, 2, [ACCEPT, RELEASE, ACCEPT]), (4, 6, [0])])

    assert ack_code(answer) is Code.NONE
    assert runs(ann.fetch()) == [(1, 1, 2)]
    assert position(peer, ann.topic) == (1, 2)


def test_ranges_are_taken_apart_only_where_there_are_such_records(
    ann: Sharer, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[object] = []

    def count(*said: object) -> Settlement:
        made.append(said)
        return Settlement(*said)  # type: ignore[arg-type]

    monkeypatch.setattr(share_acknowledgements, "Settlement", count)
    ann.fetch()

    codes = _say(ann, {0: [(0, 49_999, [ACCEPT])], 7: [(0, 49_999, [ACCEPT])]})

    assert codes == {0: Code.INVALID_REQUEST, 7: Code.UNKNOWN_TOPIC_OR_PARTITION}
    assert made == []
    assert _say(ann, {0: [(0, 9, [ACCEPT])]}) == {0: Code.NONE}
    assert len(made) == 10


def test_a_request_speaks_of_so_many_offsets_in_all(ann: Sharer) -> None:
    ann.fetch()

    codes = _say(ann, {number: [(0, 59_999, [ACCEPT])] for number in range(5, 10)})

    unknown, too_many = Code.UNKNOWN_TOPIC_OR_PARTITION, Code.INVALID_REQUEST
    assert codes == {5: unknown, 6: unknown, 7: unknown, 8: too_many, 9: too_many}


def test_a_topic_that_is_named_again_and_again_is_settled_once(ann: Sharer, peer: Peer) -> None:
    ann.fetch()

    codes = _say(ann, {0: [(0, 4, [ACCEPT])]}, times=400)

    assert codes == {0: Code.NONE}
    assert position(peer, ann.topic) == (5, 5)


def test_a_request_names_so_many_partitions_at_most() -> None:
    config = load_config(None, {}, {"kafka.max_fetch_partitions": 3})
    with server(None, config=config) as running, closing(Sharer(str(running.kafka), "t")) as ann:
        put(ann.peer, "t", 1)
        ann.joined().fetch()

        said = {number: [(0, 0, [ACCEPT])] for number in range(4)}
        assert _say(ann, said) is Code.INVALID_REQUEST
        del said[3]
        assert _say(ann, said) is not Code.INVALID_REQUEST
        assert _say(ann, {0: [(0, 0, [ACCEPT])]}, times=4) is Code.INVALID_REQUEST


def test_gaps_are_no_mistake(ann: Sharer, peer: Peer) -> None:
    ann.fetch()

    assert ack_code(ann.acknowledge([(0, 1, [ACCEPT]), (2, 9, [0])])) is Code.NONE
    assert ack_code(ann.acknowledge([(0, 5, [0])])) is Code.NONE
    assert position(peer, ann.topic) == (10, 0)


def test_a_renewed_record_stays_with_its_member(ann: Sharer, bob: Sharer) -> None:
    ann.fetch()

    answer = ann.acknowledge([(0, 4, [RENEW]), (5, 9, [ACCEPT])], renews=True)

    assert (ack_code(answer), answer.acquisition_lock_timeout_ms) == (Code.NONE, 30_000)
    assert runs(bob.fetch()) == []
    renewal = [(0, 4, [RENEW])]
    fetched = ann.fetch(acks=renewal, renews=True, max_records=0, max_bytes=0, min_bytes=0)
    assert [each.partition_index for each in fetched.responses[0].partitions] == [0]
    assert partition_of(fetched).acknowledge_error_code == Code.NONE


def test_a_fetch_that_renews_asks_for_no_records(ann: Sharer) -> None:
    def renew(max_records: int, max_bytes: int, min_bytes: int, wait_ms: int) -> Code:
        answer = ann.fetch(
            acks=[(0, 4, [RENEW])],
            renews=True,
            max_records=max_records,
            max_bytes=max_bytes,
            min_bytes=min_bytes,
            max_wait_ms=wait_ms,
        )
        return code(answer)

    ann.fetch()

    for wrong in ((1, 0, 0, 0), (0, 1, 0, 0), (0, 0, 1, 0), (0, 0, 0, 1)):
        assert renew(*wrong) is Code.INVALID_REQUEST
    assert renew(0, 0, 0, 0) is Code.NONE, "the epoch of the session is as it was"


def test_an_acquire_mode_that_there_is_not_is_refused(ann: Sharer) -> None:
    assert code(ann.fetch(mode=2)) is code(ann.fetch(mode=-1)) is Code.INVALID_REQUEST


def test_renewing_can_be_turned_off(ann: Sharer, peer: Peer) -> None:
    ann.fetch()

    configure(peer, ann.topic, "share.renew.acknowledge.enable", "false")

    answer = ann.acknowledge([(0, 3, [ACCEPT]), (4, 4, [RENEW])], renews=True)
    assert ack_code(answer) is Code.INVALID_RECORD_STATE
    assert position(peer, ann.topic) == (0, 10)


def test_a_rejected_record_becomes_a_dead_letter(ann: Sharer, address: str) -> None:
    ann.fetch()

    ann.acknowledge([(0, 8, [ACCEPT]), (9, 9, [REJECT])])

    letters = Sharer(address, f"{ann.topic}.dead")
    assert letters.topic_id != bytes(16)
    letters.close()


def _say(ann: Sharer, said: Mapping[int, Acks], times: int = 1) -> dict[int, Code] | Code:
    """Acknowledge in several partitions at once; return the code of each, or that of all."""
    places = [
        AcknowledgePartition(number, [Acknowledgement(*each) for each in acks])
        for number, acks in said.items()
    ]
    body = ShareAcknowledgeRequest(
        group_id=ann.topic,
        member_id=ann.member,
        share_session_epoch=ann.session_epoch,
        topics=[AcknowledgeTopic(ann.topic_id, places)] * times,
    )
    answer = ann.peer.ask(SHARE_ACKNOWLEDGE, 2, body, ShareAcknowledgeResponse)
    if answer.error_code:
        return Code(answer.error_code)
    ann.session_epoch += 1
    (topic,) = answer.responses
    return {each.partition_index: Code(each.error_code) for each in topic.partitions}
