"""A disk that is really full, as clients see it: they wait, and go on when there is space."""

from collections.abc import Callable

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from tests.faults.test_full_disk import SmallDisk, disk
from tests.heads.kafka.attack import Peer, produce, served

from mainstem.core.errors import StorageFull
from mainstem.core.event import Event
from mainstem.core.records import build
from mainstem.heads.kafka.adapter.errors import Code, code_in
from mainstem.heads.kafka.codec import RequestHeader
from mainstem.heads.kafka.messages.commits import (
    OFFSET_COMMIT,
    CommitPartition,
    CommitTopic,
    OffsetCommitRequest,
    OffsetCommitResponse,
)

__all__ = ["disk"]

PATIENCE_S = 60
_MANY = 2_000


def commit(peer: Peer, metadata: str = "") -> Code:
    """Move a cursor; a long note takes a lot of space."""
    topics = (CommitTopic(name="t", partitions=(CommitPartition(0, 1, -1, metadata),)),)
    wish = OffsetCommitRequest("g", topics=topics)
    answer = peer.ask(OFFSET_COMMIT, 8, wish, OffsetCommitResponse)
    return Code(answer.topics[0].partitions[0].error_code)


def write(peer: Peer, size: int) -> Code:
    batch = bytes(build([Event(value=bytes(size))], now_ms=1))
    return Code(produce(peer, "t", batch).error_code)


def refused(disk: SmallDisk, deed: Callable[[], Code]) -> Code:
    """Do something until it is refused, whatever space becomes free meanwhile."""
    for _ in range(_MANY):
        disk.fill()
        code = deed()
        if code is not Code.NONE:
            return code
    raise AssertionError("the disk was never full")


def test_a_full_disk_is_told_to_each_in_its_own_terms_and_waited_for(disk: SmallDisk) -> None:
    with served(disk.data) as address, Peer(address) as peer:
        assert write(peer, 10) is Code.NONE
        sender = Producer({"bootstrap.servers": address, "transactional.id": "tx"})
        sender.init_transactions(PATIENCE_S)
        sender.begin_transaction()
        sender.produce("t", b"in the transaction", partition=1)
        assert sender.flush(PATIENCE_S) == 0

        assert refused(disk, lambda: write(peer, 10_000)) is Code.KAFKA_STORAGE_ERROR
        assert refused(disk, lambda: commit(peer, "x" * 4000)) is Code.COORDINATOR_NOT_AVAILABLE
        disk.free()
        sender.commit_transaction(PATIENCE_S)

        assert commit(peer) is Code.NONE
        reader = Consumer({"bootstrap.servers": address, "group.id": "readers"})
        reader.assign([TopicPartition("t", 1, 0)])
        (found,) = reader.consume(1, PATIENCE_S)
        assert found.value() == b"in the transaction"
        reader.close()


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        (0, Code.KAFKA_STORAGE_ERROR),
        (8, Code.COORDINATOR_NOT_AVAILABLE),
        (26, Code.COORDINATOR_NOT_AVAILABLE),
        (22, Code.COORDINATOR_LOAD_IN_PROGRESS),
    ],
)
def test_everybody_is_told_so_in_terms_that_make_it_try_again(key: int, expected: Code) -> None:
    assert code_in(RequestHeader(key, 3, 7, "me"), StorageFull("full")) is expected
