"""Produce, versions 3 to 13: checks and appends batches, and acknowledges them when durable."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from mainstem.broker.door import AT_ONCE, AppendedBatch, Durable, HeldPublish
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


@serves(PRODUCE, 3, 13)
def answer(
    asked: Asked, request: ProduceRequest, reply: Reply, held: HeldPublish | None = None
) -> None:
    """Append the batches; answered when each has the durability of its topic.

    ``held``: the fast path's attempt to append the only batch, which backpressure holds.
    """
    if request.acks not in (-1, 0, 1):
        reply(_refused(request, Code.INVALID_REQUIRED_ACKS))
        return
    if asked.service.draining and request.acks:
        reply(_refused(request, Code.NOT_LEADER_OR_FOLLOWER))
        return
    _Production(asked, request, reply).run(request, held)


def adds_partition(header: RequestHeader) -> bool:
    """Tell whether a batch also adds its partition to the producer's transaction."""
    return header.api_version >= _ADDS_PARTITION


def count(counts: Counts, events: int, size: int) -> None:
    """Count a batch that was appended."""
    counts.produced_batches += 1
    counts.produced_events += events
    counts.produced_bytes += size


def refused(header: RequestHeader, partition: int, error: MainstemError) -> ProducedPartition:
    """Return the error response for a partition to which nothing was appended."""
    which = error.which if isinstance(error, InvalidEvent) else ()
    events = [RecordError(place) for place in which]
    return ProducedPartition(partition, code_in(header, error), -1, -1, -1, events, str(error))


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
    """A produce request: appends its batches, which backpressure may hold, and waits for the disk.

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
            first = len(self._results)
            self._results += [_UNDECIDED] * len(topic.partition_data)
            if not self._append_at_once(name, topic.partition_data, first):
                for slot, partition in enumerate(topic.partition_data, first):
                    self._start(_Place(name, partition.index, slot), partition, held)
        self._done()

    def _append_at_once(
        self, topic: str, partitions: Sequence[ProducePartition], first: int
    ) -> bool:
        """Append one batch per partition in one call; return False if nothing was appended.

        Only for topics that store batches unchanged (``append_batches``).
        """
        batches = [(each.index, each.records) for each in partitions]
        given = [(number, batch) for number, batch in batches if isinstance(batch, memoryview)]
        if len(given) < max(2, len(batches)):
            return False
        try:
            find_or_create(self._service, topic, create=True)
            broker = self._service.broker
            outcomes = broker.append_batches(
                topic, given, adds_partition=adds_partition(self._header)
            )
        except MainstemError:
            # Each partition gets the error on the slow path.
            return False
        if outcomes is None:
            return False
        waiting: dict[Durable, list[_Place]] = {}
        for slot, ((number, batch), outcome) in enumerate(zip(given, outcomes, strict=True), first):
            place = _Place(topic, number, slot)
            if not isinstance(outcome, AppendedBatch):
                self._fail(place, outcome)
                continue
            count(self._service.counts, outcome.events, len(batch))
            self._results[slot] = ProducedPartition(number, 0, outcome.offset, -1, outcome.start)
            waiting.setdefault(outcome.durable, []).append(place)
        for durable, places in waiting.items():
            self._await(places, durable)
        return True

    def _start(
        self, place: "_Place", partition: ProducePartition, held: HeldPublish | None
    ) -> None:
        try:
            records = partition.records
            if not isinstance(records, memoryview) or not len(records):
                raise InvalidBatch("a produce request without records")
            find_or_create(self._service, place.topic, create=True)
            self._append(place, records, held)
        except MainstemError as error:
            self._fail(place, error)

    def _append(
        self, place: "_Place", batch: memoryview | bytearray, held: HeldPublish | None
    ) -> None:
        broker = self._service.broker
        published = broker.append_batch(
            place.topic, place.number, batch, held, adds_partition=adds_partition(self._header)
        )
        if isinstance(published, HeldPublish):
            self._hold(place, batch, published)
            return
        count(self._service.counts, published.count, len(batch))
        start = broker.bounds(place.topic, place.number).start
        self._results[place.slot] = ProducedPartition(
            place.number, 0, published.offsets[0], published.appended_ms, start
        )
        self._await((place,), published.durable)

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
        """Retry a batch when its full topic has room, until the topic's or the client's timeout."""
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
            try:
                self._append(place, kept, held)
            except MainstemError as error:
                self._fail(place, error)
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
        if isinstance(error, Overloaded):
            self._throttle_ms = THROTTLE_MS
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
