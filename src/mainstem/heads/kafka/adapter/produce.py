"""Produce: record batches are checked, appended, and acknowledged when they are durable."""

from collections.abc import Iterator

from mainstem.broker.overload import Held
from mainstem.broker.publishing import Published
from mainstem.core.errors import CorruptBatch, MainstemError
from mainstem.heads.kafka.adapter.errors import Code, code_of
from mainstem.heads.kafka.adapter.metadata import find_or_create
from mainstem.heads.kafka.adapter.service import Asked, Reply, Service
from mainstem.heads.kafka.messages.produce import (
    ProducedPartition,
    ProducedTopic,
    ProducePartition,
    ProduceRequest,
    ProduceResponse,
    ProduceTopic,
)

FIRST, LAST = 3, 12


def answer(asked: Asked, request: ProduceRequest, reply: Reply) -> None:
    """Append what can be appended; answer when all of it is as durable as promised."""
    if request.acks not in (-1, 0, 1):
        reply(_refused(request, Code.INVALID_REQUIRED_ACKS))
        return
    _Production(asked, request, reply).run()


class _Production:
    """One request on its way: some of its batches may be held, or wait for the disk."""

    def __init__(self, asked: Asked, request: ProduceRequest, reply: Reply) -> None:
        self._service: Service = asked.service
        self._request = request
        self._reply = reply
        self._results: dict[tuple[str, int], ProducedPartition] = {}
        self._waiting = 1

    def run(self) -> None:
        for topic in self._request.topic_data:
            for partition in topic.partition_data:
                self._start(topic, partition)
        self._done()

    def _start(self, topic: ProduceTopic, partition: ProducePartition) -> None:
        try:
            records = partition.records
            if not isinstance(records, memoryview) or not len(records):
                raise CorruptBatch("a produce request without records")
            find_or_create(self._service, topic.name, create=True)
            self._append(topic.name, partition.index, records, None)
        except MainstemError as error:
            self._fail(topic.name, partition.index, error)

    def _append(
        self, topic: str, number: int, batch: memoryview | bytearray, held: Held | None
    ) -> None:
        published = self._service.broker.append_batch(topic, number, batch, held)
        if isinstance(published, Held):
            self._hold(topic, number, bytearray(batch), published)
            return
        start = self._service.broker.bounds(topic, number).start
        self._results[topic, number] = ProducedPartition(number, 0, published.offsets[0], -1, start)
        self._await(topic, number, published)

    def _await(self, topic: str, number: int, published: Published) -> None:
        if published.durable.done:
            return
        self._waiting += 1

        def settled(error: MainstemError | None) -> None:
            self._service.on_loop(lambda: self._settled(topic, number, error))

        published.durable.then(settled)

    def _settled(self, topic: str, number: int, error: MainstemError | None) -> None:
        if error is not None:
            self._fail(topic, number, error)
        self._done()

    def _hold(self, topic: str, number: int, batch: bytearray, held: Held) -> None:
        """Wait for room in a topic that is full, but no longer than the topic says."""
        self._waiting += 1
        tried = False

        def again() -> None:
            nonlocal tried
            if tried:
                return
            tried = True
            timer.cancel()
            try:
                self._append(topic, number, batch, held)
            except MainstemError as error:
                self._fail(topic, number, error)
            self._done()

        delay_ms = max(0, held.until_ms - self._service.now_ms())
        timer = self._service.after(delay_ms, again)
        held.room.then(lambda _: self._service.on_loop(again))

    def _fail(self, topic: str, number: int, error: MainstemError) -> None:
        self._results[topic, number] = ProducedPartition(
            number, code_of(error), -1, -1, -1, (), str(error)
        )

    def _done(self) -> None:
        self._waiting -= 1
        if self._waiting:
            return
        if self._request.acks == 0:
            self._reply(None)
            return
        self._reply(ProduceResponse(tuple(self._topics())))

    def _topics(self) -> Iterator[ProducedTopic]:
        for topic in self._request.topic_data:
            results = tuple(
                self._results[topic.name, partition.index] for partition in topic.partition_data
            )
            yield ProducedTopic(name=topic.name, partition_responses=results)


def _refused(request: ProduceRequest, code: Code) -> ProduceResponse:
    return ProduceResponse(
        tuple(
            ProducedTopic(
                name=topic.name,
                partition_responses=tuple(
                    ProducedPartition(partition.index, code, -1)
                    for partition in topic.partition_data
                ),
            )
            for topic in request.topic_data
        )
    )
