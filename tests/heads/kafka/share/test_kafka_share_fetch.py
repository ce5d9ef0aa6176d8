"""ShareFetch: which records a member acquires, how many, and when."""

import pytest
from tests.heads.kafka.raw_peers import Peer
from tests.heads.kafka.share_answers import partition_of, runs
from tests.heads.kafka.share_member import ACCEPT, RELEASE, Sharer, put

from mainstem.core.batch import batches, read_header


def test_records_come_as_they_are_stored_with_what_is_acquired_of_them(ann: Sharer) -> None:
    found = ann.fetch()

    assert runs(found) == [(0, 9, 1)]
    (batch,) = batches(bytes(partition_of(found).records))  # type: ignore[arg-type]
    assert read_header(batch).count == 10
    assert found.acquisition_lock_timeout_ms == 30_000


def test_what_is_acquired_by_one_is_not_to_be_had_by_another(ann: Sharer, bob: Sharer) -> None:
    assert runs(ann.fetch(max_records=4, mode=1)) == [(0, 3, 1)]
    assert runs(bob.fetch(max_records=4, mode=1)) == [(4, 7, 1)]
    assert runs(bob.fetch(max_records=4, mode=1)) == [(8, 9, 1)]
    assert runs(ann.fetch()) == []


def test_whole_batches_may_be_more_records_than_asked_for(ann: Sharer) -> None:
    assert runs(ann.fetch(max_records=4)) == [(0, 9, 1)]


def test_a_fetch_waits_until_there_is_something(ann: Sharer, bob: Sharer, peer: Peer) -> None:
    ann.fetch()

    bob.send_fetch(max_wait_ms=60_000)
    put(peer, ann.topic, 2)

    assert runs(bob.fetched()) == [(10, 11, 1)]


def test_a_fetch_that_waits_is_not_woken_by_partitions_that_it_does_not_want(
    ann: Sharer, bob: Sharer, peer: Peer
) -> None:
    bob.fetch(partitions=[1])
    ann.fetch()
    put(peer, ann.topic, 3, partition=1)

    ann.send_fetch(max_wait_ms=60_000)
    put(peer, ann.topic, 1)

    assert runs(ann.fetched()) == [(10, 10, 1)]
    assert runs(bob.fetch(partitions=[]), 1) == [(0, 2, 1)]


def test_the_first_fetch_takes_from_one_partition_so_that_others_get_some(
    ann: Sharer, bob: Sharer, peer: Peer
) -> None:
    put(peer, ann.topic, 3, partition=1)

    first, second = ann.fetch(partitions=[0, 1]), bob.fetch(partitions=[0, 1])

    taken = [[number for number in (0, 1) if runs(each, number)] for each in (first, second)]
    assert sorted(taken) == [[0], [1]]
    put(peer, ann.topic, 1)
    put(peer, ann.topic, 1, partition=1)
    third = ann.fetch(partitions=[])
    assert (runs(third), runs(third, 1)) == ([(10, 10, 1)], [(3, 3, 1)])


def test_who_wants_no_bytes_gets_nothing(ann: Sharer) -> None:
    assert runs(ann.fetch(max_bytes=0, max_wait_ms=1)) == []
    assert runs(ann.fetch()) == [(0, 9, 1)]


@pytest.mark.parametrize("max_bytes", [-1, 1])
def test_one_batch_is_sent_whatever_its_size(ann: Sharer, max_bytes: int) -> None:
    assert runs(ann.fetch(max_bytes=max_bytes, max_wait_ms=60_000)) == [(0, 9, 1)]


def test_a_fetch_that_waits_gets_what_another_gives_back(ann: Sharer, bob: Sharer) -> None:
    ann.fetch()

    bob.send_fetch(max_wait_ms=60_000)
    ann.acknowledge([(0, 8, [ACCEPT]), (9, 9, [RELEASE])])

    assert runs(bob.fetched()) == [(9, 9, 2)]


def test_records_of_another_delivery_are_runs_of_their_own(ann: Sharer) -> None:
    ann.fetch()
    ann.acknowledge([(0, 9, [1, 2, 2, 1, 1, 2, 1, 1, 1, 1])])

    assert runs(ann.fetch()) == [(1, 2, 2), (5, 5, 2)]
