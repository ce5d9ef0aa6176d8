"""Produce requests that come in one read: few writes, and every answer when it is true."""

import asyncio
import errno
from collections import Counter
from collections.abc import Sequence

from tests.faults.disks import opened, refuse
from tests.faults.simdisk import SimFiles, Write

from mainstem.broker.broker import Broker
from mainstem.core.event import Event
from mainstem.core.policies import Durability, TopicSettings
from mainstem.core.records import build
from mainstem.heads.kafka.adapter.service import Service
from mainstem.heads.kafka.codec import decode_response, encode_request
from mainstem.heads.kafka.head import KafkaConversation
from mainstem.heads.kafka.messages.produce import (
    PRODUCE,
    ProducePartition,
    ProduceRequest,
    ProduceResponse,
    ProduceTopic,
)
from mainstem.heads.kafka.settings import KafkaSettings
from mainstem.heads.shape import Answer, Later

VERSION = 10
STORAGE_ERROR = 56
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
        service = Service(self.broker, lambda: 0, KafkaSettings(), settings, "a run")
        self.conversation = KafkaConversation(service, "peer")
        for partition in (0, 1, 2):
            self.conversation.handle(memoryview(bytearray(frame(0, partition))))
        self.log.committer.commit()

    def ask(self, *partitions: int) -> Answer | Later:
        """Send a request for each partition, all in one read, numbered from 0."""
        frames = [frame(number, partition) for number, partition in enumerate(partitions)]
        view = memoryview(bytearray(b"".join(frames)))
        found = self.conversation.handle_run(view)
        assert found is not None
        answer, size = found
        assert size == len(view)
        # The next read overwrites what this one brought.
        view[:] = bytes(len(view))
        return answer

    def writes(self, since: int) -> Counter[int]:
        """Return how often each file was written since a point of the disk's trace."""
        return Counter(each.node for each in self.files.trace[since:] if isinstance(each, Write))


def frame(number: int, partition: int) -> bytes:
    topic = ProduceTopic(name="t", partition_data=(ProducePartition(partition, memoryview(BATCH)),))
    body = ProduceRequest(None, -1, 1000, (topic,))
    pieces = encode_request(PRODUCE.key, VERSION, number, "me", body)
    return b"".join(bytes(piece) for piece in pieces if isinstance(piece, bytes | memoryview))


def decoded(answer: Answer) -> list[tuple[int, int, int, int]]:
    """Return correlation id, partition, error code and offset of each answer, in order."""
    view = memoryview(b"".join(piece for piece in answer if isinstance(piece, bytes)))
    found = []
    while view:
        size = int.from_bytes(view[:4], "big") + 4
        response = decode_response(PRODUCE.key, VERSION, view[4:size])
        assert isinstance(response.body, ProduceResponse)
        (partition,) = response.body.responses[0].partition_responses
        number = response.correlation_id
        found.append((number, partition.index, partition.error_code, partition.base_offset))
        view = view[size:]
    return found


async def settled(later: Later) -> Answer:
    for _ in range(10):
        await asyncio.sleep(0)
    assert later.answer is not None
    return later.answer


def partitions_of(answers: Sequence[tuple[int, int, int, int]]) -> list[int]:
    return [partition for _, partition, _, _ in answers]


def test_a_read_costs_one_write_for_each_partition() -> None:
    async def main() -> None:
        place = Place(Durability.DISK)
        since = len(place.files.trace)

        answer = place.ask(0, 1, 0, 0, 1, 0)

        assert not isinstance(answer, Later)
        expected = [(0, 0, 2), (1, 1, 2), (2, 0, 4), (3, 0, 6), (4, 1, 4), (5, 0, 8)]
        assert decoded(answer) == [(number, at, 0, offset) for number, at, offset in expected]
        assert sorted(place.writes(since).values()) == [1, 1]

    asyncio.run(main())


def test_what_has_to_be_durable_is_answered_after_the_commit_and_in_order() -> None:
    async def main() -> None:
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

    asyncio.run(main())


def test_a_commit_that_fails_refuses_every_request_of_the_read() -> None:
    async def main() -> None:
        place = Place(Durability.FSYNC)
        answer = place.ask(0, 1, 0)
        assert isinstance(answer, Later)

        refuse(place.files, "sync", code=errno.EIO)
        place.log.committer.commit()

        codes = [code for _, _, code, _ in decoded(await settled(answer))]
        assert codes == [STORAGE_ERROR] * 3

    asyncio.run(main())


def test_where_there_is_no_room_is_refused_and_the_rest_is_not() -> None:
    async def main() -> None:
        place = Place(Durability.DISK)
        refuse(place.files, "grow write", "-1/")

        answer = place.ask(0, 1, 2, 1, 0)

        assert not isinstance(answer, Later)
        found = decoded(answer)
        assert partitions_of(found) == [0, 1, 2, 1, 0]
        assert [code for _, _, code, _ in found] == [0, STORAGE_ERROR, 0, STORAGE_ERROR, 0]
        assert [place.broker.bounds("t", each).end for each in (0, 1, 2)] == [6, 2, 4]

    asyncio.run(main())
