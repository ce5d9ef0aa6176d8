"""What members of a share group say of records, and what is refused of it."""

import pytest
from tests.heads.kafka.attack import Peer
from tests.heads.kafka.share.groups import position
from tests.heads.kafka.sharing import (
    ACCEPT,
    REJECT,
    RENEW,
    Acks,
    Sharer,
    ack_code,
    code,
    configure,
    partition_of,
    put,
    runs,
)

from mainstem.heads.kafka.adapter.errors import Code


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
        [(3, 4, [ACCEPT]), (0, 1, [ACCEPT])],
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
            wait_ms=wait_ms,
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
