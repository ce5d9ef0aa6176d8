"""Produce, versions 3 to 13: checks and appends batches, and acknowledges them when durable."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from mainstem.broker.door import AT_ONCE, AppendedBatch, AppendOutcome, Durable, HeldPublish
from mainstem.core.errors import InvalidBatch, InvalidEvent, MainstemError, Overloaded
from mainstem.heads.conversation import ProtocolError
from mainstem.heads.kafka.adapter.errors import code_in
from mainstem.heads.kafka.adapter.registry import serves
from mainstem.heads.kafka.adapter.service import Asked, Reply, Service
from mainstem.heads.kafka.adapter.topics import find_or_create, name_of
from mainstem.heads.kafka.counts import Counts
from mainstem.heads.parked import Over
from mainstem.kafka_protocol.error_codes import Code
from mainstem.kafka_protocol.messages.produce import (
    PRODUCE,
    ProducedPartition,
    ProducedTopic,
    ProducePartition,
    ProduceRequest,
    ProduceResponse,
    RecordError,
)
from mainstem.kafka_protocol.server_codec import RequestHeader

THROTTLE_MS = 200
"""Throttle time in responses to producers of a topic that is full."""
BY_ID = 13
"""First version of Produce that names topics by id."""
_ADDS_PARTITION = 12
"""First version in which a batch adds its partition to the transaction [KIP-890]."""
_Batch = tuple[int, memoryview | bytearray]
"""Partition number and records."""


@serves(PRODUCE, 3, 13)
def answer(
    asked: Asked, request: ProduceRequest, reply: Reply, held: HeldPublish | None = None
) -> None:
    """Append the batches; answered when each has the durability of its topic.

    ``held``: the result of the fast path's attempt to append the only batch, if backpressure held
    it.
    """
    if request.acks not in (-1, 0, 1):
        reply(_refused(request, Code.INVALID_REQUIRED_ACKS))
        return
    if asked.service.draining and request.acks:
        reply(_refused(request, Code.NOT_LEADER_OR_FOLLOWER))
        return
    _Production(asked, request, reply).run(request, held)


def adds_partition(header: RequestHeader) -> bool:
    """Tell whether, in this version, a batch adds its partition to the producer's transaction."""
    return header.api_version >= _ADDS_PARTITION


def count(counts: Counts, events: int, size: int) -> None:
    """Add an appended batch to the counters of the head."""
    counts.produced_batches += 1
    counts.produced_events += events
    counts.produced_bytes += size


def refused(header: RequestHeader, partition: int, error: MainstemError) -> ProducedPartition:
    """Return the error response for a partition whose batch was refused."""
    which = error.which if isinstance(error, InvalidEvent) else ()
    events = [RecordError(place) for place in which]
    return ProducedPartition(partition, code_in(header, error), -1, -1, -1, events, str(error))


def throttle_ms(error: MainstemError) -> int:
    """Return the throttle time (ms) for a producer whose batch was refused with this error."""
    return THROTTLE_MS if isinstance(error, Overloaded) else 0


def unheard(results: Iterable[ProducedPartition]) -> ProtocolError | None:
    """Return the error that closes the connection of an acks=0 producer after a refused batch.

    Such a producer gets no response. As in Apache Kafka, closing makes it refresh its metadata. A
    full topic is no reason to close, as reconnecting at once would not help.
    """
    for each in results:
        if each.error_code not in (Code.NONE, Code.REQUEST_TIMED_OUT):
            why = each.error_message or Code(each.error_code).name
            return ProtocolError(f"its batch was refused, and it gets no response (acks=0): {why}")
    return None


class _Production:
    """A produce request: appends its batches, which backpressure may hold, until all are durable.

    It keeps no view of the request's frame, which may be large: held batches are copied.
    """

    def __init__(self, asked: Asked, request: ProduceRequest, reply: Reply) -> None:
        self._service: Service = asked.service
        self._header = asked.header
        self._later = asked.later
        self._gone = asked.waiting
        self._acks, self._timeout_ms = request.acks, request.timeout_ms
        self._topics = [(it.topic_id, it.name, len(it.partition_data)) for it in request.topic_data]
        self._reply = reply
        self._results: list[ProducedPartition] = []
        """A result per partition, in the order of the request, which may name a partition twice."""
        self._waiting = 1
        self._throttle_ms = 0

    def run(self, request: ProduceRequest, held: HeldPublish | None) -> None:
        for topic in request.topic_data:
            name: str | None = topic.name
            if self._header.api_version >= BY_ID:
                name = name_of(self._service, topic.topic_id)
            if name is None:
                self._results += [
                    ProducedPartition(partition.index, Code.UNKNOWN_TOPIC_ID, -1)
                    for partition in topic.partition_data
                ]
                continue
            self._append_to(name, topic.partition_data, held)
        self._done()

    def _append_to(
        self, topic: str, partitions: Sequence[ProducePartition], held: HeldPublish | None
    ) -> None:
        """Append the batches for one topic, which is created if it does not exist."""
        places: list[_Place] = []
        batches: list[_Batch] = []
        for partition in partitions:
            place = _Place(topic, partition.index, len(self._results))
            self._results.append(_UNDECIDED)
            records = partition.records
            if isinstance(records, memoryview) and len(records):
                places.append(place)
                batches.append((partition.index, records))
            else:
                self._fail(place, InvalidBatch("a produce request without records"))
        if not batches:
            return
        try:
            find_or_create(self._service, topic, create=True)
        except MainstemError as error:
            for place in places:
                self._fail(place, error)
        else:
            self._append(places, batches, held)

    def _append(
        self, places: Sequence["_Place"], batches: Sequence[_Batch], held: HeldPublish | None
    ) -> None:
        """Append batches; those that backpressure holds are retried later, each on its own."""
        waiting: dict[Durable, list[_Place]] = {}
        while batches:
            outcomes: Sequence[AppendOutcome]
            try:
                outcomes, held = self._service.broker.append_batches(
                    places[0].topic, batches, held, adds_partition=adds_partition(self._header)
                )
            except MainstemError as error:
                outcomes, held = [error] * len(batches), None
            for place, (_, batch), outcome in zip(places, batches, outcomes, strict=False):
                if not isinstance(outcome, AppendedBatch):
                    self._fail(place, outcome)
                    continue
                count(self._service.counts, outcome.events, len(batch))
                self._results[place.slot] = ProducedPartition(
                    place.number, 0, outcome.offset, outcome.appended_ms, outcome.start
                )
                waiting.setdefault(outcome.durable, []).append(place)
            if held is None:
                break
            at = len(outcomes)
            self._hold(places[at], batches[at][1], held)
            places, batches, held = places[at + 1 :], batches[at + 1 :], None
        for durable, places in waiting.items():
            self._await(places, durable)

    def _await(self, places: Sequence["_Place"], durable: Durable) -> None:
        if durable is AT_ONCE:
            return
        self._waiting += 1

        def settled(error: MainstemError | None) -> None:
            self._service.on_loop(lambda: self._settled(places, error))

        durable.then(settled)

    def _settled(self, places: Sequence["_Place"], error: MainstemError | None) -> None:
        if error is not None:
            for place in places:
                self._fail(place, error)
        self._done()

    def _hold(self, place: "_Place", batch: memoryview | bytearray, held: HeldPublish) -> None:
        """Retry a batch that backpressure holds, when its topic has room or the time is over.

        That is the topic's limit or half of the client's timeout, whichever is earlier.
        """
        self._waiting += 1
        # Later requests must not overtake a held batch, so they are not read meanwhile.
        self._later.hold()
        # Answer well before the client's timeout, because the client would then send all batches
        # again.
        patience_ms = self._timeout_ms // 2
        held = held._replace(until_ms=min(held.until_ms, held.since_ms + patience_ms))
        # The frame's memory is reused when this returns, so a view must be copied.
        kept = bytearray(batch) if isinstance(batch, memoryview) else batch

        def again(held: HeldPublish = held) -> None:
            parked.end()
            self._append((place,), ((place.number, kept),), held)
            self._done()

        def over(why: Over) -> None:
            if why is Over.DRAINING:
                stopped = ProducedPartition(place.number, Code.NOT_LEADER_OR_FOLLOWER, -1)
                self._results[place.slot] = stopped
                self._done()
            else:
                # For a disconnected peer this is the last attempt.
                again(held._replace(until_ms=0) if why is Over.PEER else held)

        delay_ms = max(0, held.until_ms - self._service.now_ms())
        parked = self._service.park(self._gone, delay_ms, over, again)
        held.room.then(lambda _: parked.wake())

    def _fail(self, place: "_Place", error: MainstemError) -> None:
        self._throttle_ms = max(self._throttle_ms, throttle_ms(error))
        self._results[place.slot] = refused(self._header, place.number, error)

    def _done(self) -> None:
        self._waiting -= 1
        if self._waiting:
            return
        if self._acks == 0:
            reason = unheard(self._results)
            if reason is None:
                self._reply(None)
            else:
                self._later.fail(reason)
            return
        self._reply(ProduceResponse(tuple(self._answers()), self._throttle_ms))

    def _answers(self) -> Iterator[ProducedTopic]:
        at = 0
        for topic_id, name, count in self._topics:
            yield ProducedTopic(topic_id, name, tuple(self._results[at : at + count]))
            at += count


class _Place(NamedTuple):
    """A partition in a request, and the index of its result."""

    topic: str
    number: int
    slot: int


_UNDECIDED = ProducedPartition(error_code=Code.UNKNOWN_SERVER_ERROR)


def _refused(request: ProduceRequest, code: Code) -> ProduceResponse:
    return ProduceResponse(
        tuple(
            ProducedTopic(
                topic.topic_id,
                topic.name,
                tuple(
                    ProducedPartition(partition.index, code, -1)
                    for partition in topic.partition_data
                ),
            )
            for topic in request.topic_data
        )
    )
