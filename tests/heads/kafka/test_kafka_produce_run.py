"""Produce requests of one read: few writes, and each response when it is durable."""

import asyncio
import errno
from collections import Counter
from collections.abc import Sequence

import pytest
from tests.broker.brokers import LateLog
from tests.faults.disk.disk_steps import opened, refuse
from tests.faults.disk.simulated_disk import SimFiles, Write
from tests.heads.contexts import kafka_service

from mainstem.broker.broker import Broker
from mainstem.core.errors import StorageFailed
from mainstem.core.event import Event
from mainstem.core.records import build
from mainstem.core.topic_settings import Durability, TopicSettings
from mainstem.heads.conversation import Answer, Later
from mainstem.heads.kafka.head import KafkaConversation
from mainstem.heads.kafka.settings import KafkaSettings
from mainstem.kafka_protocol.client_codec import decode_response, encode_request
from mainstem.kafka_protocol.messages.produce import (
    PRODUCE,
    ProducePartition,
    ProduceRequest,
    ProduceResponse,
    ProduceTopic,
)
from mainstem.log.port import Appended, Batches

VERSION = 10
UNKNOWN_PARTITION, OUT_OF_ORDER, STORAGE_ERROR = 3, 45, 56
BATCH = build([Event(b"value"), Event(b"other")], now_ms=1)


class Place:
    """A broker on a simulated disk, whose commits are made by the test; and a conversation."""

    def __init__(self, durability: Durability) -> None:
        self.files = SimFiles()
        self.log = opened(self.files)
        self.broker = Broker(self.log, lambda: 0)
        # In one segment, so that nothing has to be given to the log again.
        settings = TopicSettings(partitions=3, durability=durability, segment_bytes=1 << 20)
        self.broker.create_topic("t", settings)
        service = kafka_service(self.broker, lambda: 0, KafkaSettings(), settings)
        self.conversation = KafkaConversation(service, "peer")
        for partition in (0, 1, 2):
            self.conversation.handle(memoryview(bytearray(frame(0, partition))))
        self.log.committer.commit()

    def ask(self, *partitions: int) -> Answer | Later:
        """Send a request for each partition, all in one read, numbered from 0."""
        return self.send(*[frame(number, each) for number, each in enumerate(partitions)])

    def send(self, *frames: bytes) -> Answer | Later:
        """Send requests in one read."""
        view = memoryview(bytearray(b"".join(frames)))
        found = self.conversation.handle_run(view)
        assert found is not None
        answer, size = found
        assert size == len(view)
        # The next read overwrites what this one brought.
        view[:] = bytes(len(view))
        return answer

    def ask_once(self, *partitions: int) -> Answer | Later:
        """Send one request for all these partitions."""
        view = memoryview(bytearray(frame(0, *partitions)))
        answer = self.conversation.handle(view)
        view[:] = bytes(len(view))
        return answer

    def writes(self, since: int) -> Counter[int]:
        """Return how often each file was written since a point of the disk's trace."""
        return Counter(each.node for each in self.files.trace[since:] if isinstance(each, Write))


def frame(number: int, *partitions: int, batch: bytearray = BATCH) -> bytes:
    parts = tuple(ProducePartition(partition, memoryview(batch)) for partition in partitions)
    body = ProduceRequest(None, -1, 1000, (ProduceTopic(name="t", partition_data=parts),))
    pieces = encode_request(PRODUCE, VERSION, number, "me", body)
    return b"".join(bytes(piece) for piece in pieces if isinstance(piece, bytes | memoryview))


def decoded(answer: Answer) -> list[tuple[int, int, int, int]]:
    """Return correlation id, partition, error code and offset of each answer, in order."""
    view = memoryview(b"".join(piece for piece in answer if isinstance(piece, bytes)))
    found = []
    while view:
        size = int.from_bytes(view[:4], "big") + 4
        response = decode_response(PRODUCE, VERSION, view[4:size])
        assert isinstance(response.body, ProduceResponse)
        number = response.correlation_id
        found += [
            (number, partition.index, partition.error_code, partition.base_offset)
            for partition in response.body.responses[0].partition_responses
        ]
        view = view[size:]
    return found


async def settled(later: Later) -> Answer:
    for _ in range(10):
        await asyncio.sleep(0)
    assert later.answer is not None
    return later.take()


def partitions_of(answers: Sequence[tuple[int, int, int, int]]) -> list[int]:
    return [partition for _, partition, _, _ in answers]


async def test_a_read_costs_one_write_for_each_partition() -> None:
    place = Place(Durability.DISK)
    since = len(place.files.trace)

    answer = place.ask(0, 1, 0, 0, 1, 0)

    assert not isinstance(answer, Later)
    expected = [(0, 0, 2), (1, 1, 2), (2, 0, 4), (3, 0, 6), (4, 1, 4), (5, 0, 8)]
    assert decoded(answer) == [(number, at, 0, offset) for number, at, offset in expected]
    assert sorted(place.writes(since).values()) == [1, 1]


async def test_what_has_to_be_durable_is_answered_after_the_commit_and_in_order() -> None:
    place = Place(Durability.FSYNC)

    first, second = place.ask(0, 1, 0), place.ask(2, 0)

    assert isinstance(first, Later)
    assert isinstance(second, Later)
    assert first.answer is None
    assert place.broker.bounds("t", 0).tail == 2
    place.log.committer.commit()
    assert decoded(await settled(first)) == [(0, 0, 0, 2), (1, 1, 0, 2), (2, 0, 0, 4)]
    assert decoded(await settled(second)) == [(0, 2, 0, 2), (1, 0, 0, 6)]
    assert place.broker.bounds("t", 0).tail == 8


@pytest.mark.parametrize("together", [True, False], ids=["in a request", "in a read"])
async def test_a_commit_that_fails_refuses_every_batch(together: bool) -> None:
    place = Place(Durability.FSYNC)
    answer = place.ask_once(0, 1, 2) if together else place.ask(0, 1, 0)
    assert isinstance(answer, Later)

    refuse(place.files, "sync", code=errno.EIO)
    place.log.committer.commit()

    codes = [code for _, _, code, _ in decoded(await settled(answer))]
    assert codes == [STORAGE_ERROR] * 3


async def test_where_there_is_no_room_is_refused_and_the_rest_is_not() -> None:
    place = Place(Durability.DISK)
    refuse(place.files, "grow write", "-1/")

    answer = place.ask(0, 1, 2, 1, 0)

    assert not isinstance(answer, Later)
    found = decoded(answer)
    assert partitions_of(found) == [0, 1, 2, 1, 0]
    assert [code for _, _, code, _ in found] == [0, STORAGE_ERROR, 0, STORAGE_ERROR, 0]
    assert [place.broker.bounds("t", each).end for each in (0, 1, 2)] == [6, 2, 4]


async def test_requests_of_an_idempotent_producer_are_answered_each_by_what_became_of_it() -> None:
    place = Place(Durability.FSYNC)
    place.send(*[frame(each, each, batch=idempotent(0)) for each in (0, 1, 2)])
    place.log.committer.commit()
    syncs = place.log.committer.syncs

    answer = place.send(
        frame(0, 2, batch=idempotent(2)),
        frame(1, 0, batch=idempotent(0)),
        frame(2, 1, batch=idempotent(9)),
        frame(3, 0, batch=idempotent(2)),
        frame(4, 1, batch=idempotent(2)),
    )

    assert isinstance(answer, Later)
    place.log.committer.commit()
    assert decoded(await settled(answer)) == [
        (0, 2, 0, 4),
        (1, 0, 0, 2),
        (2, 1, OUT_OF_ORDER, -1),
        (3, 0, 0, 4),
        (4, 1, 0, 4),
    ]
    assert place.log.committer.syncs == syncs + 1


def idempotent(sequence: int) -> bytearray:
    events = [Event(b"value"), Event(b"other")]
    return build(events, now_ms=1, producer_id=7, producer_epoch=0, base_sequence=sequence)


async def test_a_request_for_several_partitions_costs_one_write_for_each() -> None:
    place = Place(Durability.DISK)
    since = len(place.files.trace)

    answer = place.ask_once(2, 0, 2)

    assert not isinstance(answer, Later)
    assert decoded(answer) == [(0, 2, 0, 2), (0, 0, 0, 2), (0, 2, 0, 4)]
    assert sorted(place.writes(since).values()) == [1, 1]


async def test_a_request_for_several_partitions_is_answered_after_one_commit() -> None:
    place = Place(Durability.FSYNC)
    syncs = place.log.committer.syncs

    answer = place.ask_once(0, 1, 2)

    assert isinstance(answer, Later)
    assert answer.answer is None
    place.log.committer.commit()
    assert decoded(await settled(answer)) == [(0, each, 0, 2) for each in (0, 1, 2)]
    assert place.log.committer.syncs == syncs + 1


async def test_where_there_is_no_room_for_a_partition_the_others_of_a_request_are_kept() -> None:
    place = Place(Durability.DISK)
    refuse(place.files, "grow write", "-1/")

    answer = place.ask_once(0, 1, 7, 2)

    assert not isinstance(answer, Later)
    found = decoded(answer)
    assert partitions_of(found) == [0, 1, 7, 2]
    assert [code for _, _, code, _ in found] == [0, STORAGE_ERROR, UNKNOWN_PARTITION, 0]


class FailedLog(LateLog):
    """A log whose appends have failed before whoever made them looks."""

    def append(self, batches: Batches, *, together: bool = True, lazy: bool = False) -> Appended:
        """Append, and fail at once if the test says so."""
        appended = super().append(batches, together=together, lazy=lazy)
        self.settle(StorageFailed("the disk has gone"))
        return appended


async def test_what_failed_before_it_could_be_waited_for_is_not_acknowledged() -> None:
    log = FailedLog()
    broker = Broker(log, lambda: 0)
    settings = TopicSettings(partitions=2)
    broker.create_topic("t", settings)
    service = kafka_service(broker, lambda: 0, KafkaSettings(), settings)
    log.late = True

    for partitions in ((0,), (0, 1)):
        conversation = KafkaConversation(service, "peer")
        answer = conversation.handle(memoryview(bytearray(frame(0, *partitions))))

        found = await settled(answer) if isinstance(answer, Later) else answer
        codes = [code for _, _, code, _ in decoded(found)]
        assert codes == [STORAGE_ERROR] * len(partitions)
