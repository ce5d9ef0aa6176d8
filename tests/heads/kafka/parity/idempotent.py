"""Scenarios of idempotent producers: sequences, epochs, and batches that come twice."""

from collections.abc import Iterator

from tests.heads.kafka.parity.batches import (
    ATTRIBUTES,
    COUNT,
    PRODUCER,
    PRODUCER_EPOCH,
    SEQUENCE,
    batch,
    changed,
    put,
)
from tests.heads.kafka.parity.compared_server import Said, Side, alike, unlike, until

from mainstem.kafka_protocol.messages.transactions import (
    INIT_PRODUCER_ID,
    InitProducerIdRequest,
    InitProducerIdResponse,
)

_VERSION = 5
"""The last that Apache Kafka offers: another is for transactions in two phases."""
_TIMEOUT_MS = 60_000
_UNKNOWN = 2**40
"""A producer that no server has ever named."""


def _new(side: Side) -> int:
    """Ask for a producer id."""
    body = InitProducerIdRequest(None, _TIMEOUT_MS)
    found: list[int] = []

    def is_given() -> bool:
        answer = side.ask(INIT_PRODUCER_ID, body, InitProducerIdResponse, version=_VERSION)
        found.append(answer.producer_id)
        return not answer.error_code

    until(is_given)
    return found[-1]


def _sent(producer: int, sequence: int, epoch: int = 0, count: int = 2) -> bytes:
    fields = (PRODUCER, producer), (PRODUCER_EPOCH, epoch), (SEQUENCE, sequence)
    return changed(*fields, of=batch(count))


@alike
def sequences_in_order(side: Side) -> Iterator[Said]:
    topic, one = side.topic(), _new(side)
    for sequence in (0, 2, 4):
        yield sequence, put(side, topic, _sent(one, sequence))
    for again in (4, 2, 0):
        yield "again", again, put(side, topic, _sent(one, again))
    yield "goes on", put(side, topic, _sent(one, 6))


@alike
def sequences_out_of_order(side: Side) -> Iterator[Said]:
    topic, one = side.topic(), _new(side)
    yield put(side, topic, _sent(one, 0))
    for sequence in (1, 3, 4, 100, 2**31 - 1):
        yield sequence, put(side, topic, _sent(one, sequence))
    yield "more of the same", put(side, topic, _sent(one, 0, count=3))
    yield "less of the same", put(side, topic, _sent(one, 0, count=1))
    yield "goes on", put(side, topic, _sent(one, 2))


@alike
def batches_from_long_ago(side: Side) -> Iterator[Said]:
    topic, one = side.topic(), _new(side)
    for sequence in range(0, 14, 2):
        yield put(side, topic, _sent(one, sequence))
    for sequence in (0, 2, 4, 12):
        yield sequence, put(side, topic, _sent(one, sequence))


@alike
def epochs_of_a_producer(side: Side) -> Iterator[Said]:
    topic, one = side.topic(), _new(side)
    yield put(side, topic, _sent(one, 0, epoch=3))
    yield "before", put(side, topic, _sent(one, 2, epoch=2))
    yield "later, in the middle", put(side, topic, _sent(one, 2, epoch=4))
    yield "later, from the start", put(side, topic, _sent(one, 0, epoch=4))
    yield "before", put(side, topic, _sent(one, 2, epoch=3))
    yield "goes on", put(side, topic, _sent(one, 2, epoch=4))


@alike
def producers_nobody_knows(side: Side) -> Iterator[Said]:
    topic = side.topic()
    yield "first", put(side, topic, _sent(_UNKNOWN, 0))
    yield "second", put(side, topic, _sent(_UNKNOWN, 2))


@alike
def a_producer_that_begins_in_the_middle(side: Side) -> Iterator[Said]:
    topic, one = side.topic(), _new(side)
    yield put(side, topic, _sent(one, 7))
    yield put(side, topic, _sent(one, 9))


@alike
def producers_by_halves(side: Side) -> Iterator[Said]:
    topic, one = side.topic(), _new(side)
    yield "no sequence", put(side, topic, _sent(one, -1))
    yield "sequence below", put(side, topic, _sent(one, -2))
    yield "only an epoch", put(side, topic, _sent(-1, -1))
    yield "only a sequence", put(side, topic, _sent(-1, 0, epoch=-1))


@unlike("a producer has an id and an epoch, or neither")
def producers_without_an_epoch(side: Side) -> Iterator[Said]:
    yield "no epoch", put(side, side.topic(), _sent(_new(side), 0, epoch=-1))
    yield "epoch below", put(side, side.topic(), _sent(_new(side), 0, epoch=-2))
    yield "id below", put(side, side.topic(), _sent(-2, 0))


@alike
def two_batches_of_a_producer(side: Side) -> Iterator[Said]:
    topic, one = side.topic(), _new(side)
    yield put(side, topic, _sent(one, 0) + _sent(one, 2))


@alike
def sequences_of_each_partition(side: Side) -> Iterator[Said]:
    topic, one = side.topic(partitions=2), _new(side)
    yield put(side, topic, _sent(one, 0))
    yield put(side, topic, _sent(one, 2))
    yield put(side, topic, _sent(one, 0), partition=1)
    yield put(side, topic, _sent(one, 4), partition=1)


@unlike("there are no rules of access to fail: what is wrong with it is told instead")
def transactional_batches_of_no_transaction(side: Side) -> Iterator[Said]:
    topic, one = side.topic(), _new(side)
    whole = _sent(one, 0)
    transactional = changed((ATTRIBUTES, 0x10), of=whole)
    yield "no name", put(side, topic, transactional, version=11)
    yield "control", put(side, topic, changed((ATTRIBUTES, 0x30), (COUNT, 1), of=whole))
