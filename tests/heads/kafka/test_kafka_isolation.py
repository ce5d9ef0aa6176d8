"""Fetch with ``read_committed``: open and aborted transactions, request by request.

Who reads so gets nothing at or after the first event of an open transaction (the last stable
offset), and beside the batches a list of aborted transactions, whose events it leaves out itself.
"""

from itertools import count

import pytest
from tests.heads.kafka.raw_peers import Peer, fetching, produce, request
from tests.heads.kafka.transactional_producer import TransactionalProducer

from mainstem.core.batch import batches, read_header
from mainstem.core.event import Event
from mainstem.core.records import build
from mainstem.kafka_protocol.messages.fetch import (
    FETCH,
    FetchedPartition,
    FetchResponse,
)

UNCOMMITTED, COMMITTED = 0, 1
VERSION = 12
_numbers = count()


@pytest.fixture
def topic(peer: Peer) -> str:
    """A topic with one event, at offset 0, that is part of no transaction."""
    name = f"t{next(_numbers)}"
    publish(peer, name, 1)
    return name


def publish(peer: Peer, topic: str, number: int) -> int:
    """Write events that are part of no transaction; return the offset of the first."""
    produced = produce(peer, topic, bytes(build([Event(value=b"v")] * number, now_ms=1)))
    assert produced.error_code == 0
    return produced.base_offset


class Producer:
    """A producer that counts its sequence numbers; its first write begins a transaction."""

    def __init__(self, peer: Peer) -> None:
        self._producer = TransactionalProducer(peer)
        self._sequence = 0

    @property
    def id(self) -> int:
        return self._producer.producer_id

    def write(self, topic: str, number: int = 2) -> int:
        """Write events in one batch; return the offset of the first."""
        produced = self._producer.write(12, self._sequence, topic=topic, values=[b"v"] * number)
        assert produced.error_code == 0
        self._sequence += number
        return produced.base_offset

    def end(self, *, commits: bool) -> None:
        ended = self._producer.end(5, committed=commits)
        assert ended.error_code == 0
        self._producer.producer_id, self._producer.epoch = ended.producer_id, ended.producer_epoch
        self._sequence = 0


def fetch(
    peer: Peer, topic: str, offset: int = 0, isolation: int = COMMITTED, *, max_bytes: int = 1 << 20
) -> FetchedPartition:
    wish = fetching(topic, offset, isolation=isolation, max_bytes=max_bytes)
    return one(peer.ask(FETCH, VERSION, wish, FetchResponse))


def one(answer: FetchResponse) -> FetchedPartition:
    """Return what is answered of the only partition."""
    found = answer.responses[0].partitions[0]
    assert found.error_code == 0
    return found


@pytest.fixture
def producer(peer: Peer) -> Producer:
    return Producer(peer)


def spans(found: FetchedPartition) -> list[tuple[int, int]]:
    """Return the first and the last offset of every batch, those of markers too."""
    data = found.records or b""
    assert isinstance(data, bytes | bytearray | memoryview)
    headers = [read_header(each) for each in batches(data)]
    return [(each.base_offset, each.last_offset) for each in headers]


def aborted(found: FetchedPartition) -> list[tuple[int, int]] | None:
    listed = found.aborted_transactions
    return None if listed is None else [(each.producer_id, each.first_offset) for each in listed]


def test_an_open_transaction_is_not_visible_nor_what_came_after_it(peer: Peer, topic: str) -> None:
    Producer(peer).write(topic)
    assert publish(peer, topic, 1) == 3

    found = fetch(peer, topic)

    assert spans(found) == [(0, 0)]
    assert (found.last_stable_offset, found.high_watermark) == (1, 4)
    assert aborted(found) == []


@pytest.mark.parametrize("offset", [1, 2, 3, 4])
def test_from_the_last_stable_offset_on_there_is_nothing(
    peer: Peer, topic: str, offset: int
) -> None:
    Producer(peer).write(topic)
    publish(peer, topic, 1)

    found = fetch(peer, topic, offset)

    assert spans(found) == []
    assert (found.last_stable_offset, found.high_watermark) == (1, 4)
    assert aborted(found) == []


def test_who_does_not_ask_for_what_is_committed_sees_everything(peer: Peer, topic: str) -> None:
    first, second = Producer(peer), Producer(peer)
    first.write(topic)
    first.end(commits=False)
    second.write(topic)

    found = fetch(peer, topic, isolation=UNCOMMITTED)

    assert spans(found) == [(0, 0), (1, 2), (3, 3), (4, 5)]
    assert found.high_watermark == 6
    assert not aborted(found)


def test_a_transaction_is_visible_once_it_is_committed(
    peer: Peer, topic: str, producer: Producer
) -> None:
    producer.write(topic)
    publish(peer, topic, 1)
    producer.end(commits=True)

    found = fetch(peer, topic)

    assert spans(found) == [(0, 0), (1, 2), (3, 3), (4, 4)]
    assert (found.last_stable_offset, found.high_watermark) == (5, 5)
    assert aborted(found) == []


def test_an_aborted_transaction_is_listed_with_its_producer_and_first_offset(
    peer: Peer, topic: str, producer: Producer
) -> None:
    wrote = producer.id
    producer.write(topic)
    producer.write(topic)
    producer.end(commits=False)

    found = fetch(peer, topic)

    assert spans(found) == [(0, 0), (1, 2), (3, 4), (5, 5)]
    assert found.last_stable_offset == found.high_watermark == 6
    assert aborted(found) == [(wrote, 1)]


@pytest.mark.parametrize("offset", [1, 2, 3, 4])
def test_a_fetch_from_amid_an_aborted_transaction_lists_it(
    peer: Peer, topic: str, producer: Producer, offset: int
) -> None:
    wrote = producer.id
    producer.write(topic)
    producer.write(topic)
    producer.end(commits=False)

    found = fetch(peer, topic, offset)

    # Batches are sent whole: who asks for its middle gets it from its beginning.
    assert spans(found)[0] == ((1, 2) if offset < 3 else (3, 4))
    assert aborted(found) == [(wrote, 1)]


def test_a_fetch_from_after_an_aborted_transaction_does_not_list_it(
    peer: Peer, topic: str, producer: Producer
) -> None:
    producer.write(topic)
    producer.end(commits=False)
    assert publish(peer, topic, 1) == 4

    found = fetch(peer, topic, 4)

    assert spans(found) == [(4, 4)]
    assert aborted(found) == []


def test_a_fetch_that_ends_before_an_aborted_transaction_does_not_list_it(
    peer: Peer, topic: str, producer: Producer
) -> None:
    producer.write(topic)
    producer.end(commits=False)

    found = fetch(peer, topic, max_bytes=1)

    assert spans(found) == [(0, 0)]
    assert aborted(found) == []
    assert found.last_stable_offset == 4


def test_of_two_transactions_the_older_one_holds_readers_back(peer: Peer, topic: str) -> None:
    older, younger = Producer(peer), Producer(peer)
    wrote = younger.id
    assert older.write(topic) == 1
    assert younger.write(topic) == 3
    assert fetch(peer, topic).last_stable_offset == 1
    younger.end(commits=False)
    before = fetch(peer, topic)
    older.end(commits=True)

    after = fetch(peer, topic)

    assert (spans(before), before.last_stable_offset, aborted(before)) == ([(0, 0)], 1, [])
    assert spans(after) == [(0, 0), (1, 2), (3, 4), (5, 5), (6, 6)]
    assert after.last_stable_offset == 7
    assert aborted(after) == [(wrote, 3)]


def test_the_first_transaction_of_a_producer_is_not_taken_for_the_next(
    peer: Peer, topic: str, producer: Producer
) -> None:
    wrote = producer.id
    producer.write(topic)
    producer.end(commits=False)
    producer.write(topic)
    producer.end(commits=True)

    whole, second = fetch(peer, topic), fetch(peer, topic, 4)

    assert aborted(whole) == [(wrote, 1)]
    assert spans(second) == [(4, 5), (6, 6)]
    assert aborted(second) == []


@pytest.mark.parametrize("commits", [True, False])
def test_a_reader_that_waits_at_an_open_transaction_is_answered_when_it_ends(
    address: str, peer: Peer, topic: str, producer: Producer, commits: bool
) -> None:
    wrote = producer.id
    producer.write(topic)
    with Peer(address) as reader:
        wish = fetching(topic, 1, isolation=COMMITTED, max_wait_ms=60_000)
        reader.send(request(FETCH, VERSION, wish))
        publish(peer, topic, 1)
        producer.end(commits=commits)

        found = one(reader.answer(FETCH, VERSION, FetchResponse))

    assert spans(found) == [(1, 2), (3, 3), (4, 4)]
    assert aborted(found) == ([] if commits else [(wrote, 1)])
