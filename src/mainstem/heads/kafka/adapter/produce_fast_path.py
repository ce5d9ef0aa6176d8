"""The fast path for repeated produce requests, without full decoding and encoding.

How this works: the requests of a producer for one topic differ only in correlation id, partition
and records, and so do the responses. ``learn`` sees the requests that were decoded. If one for a
single partition has the same version, client id and topic as the last such request, its other bytes
are remembered (``_Shape``). Further requests with these bytes, for any partition of the topic, need
not be decoded, nor their responses encoded. Requests of one read are appended together, so that the
log writes once for each partition, and their responses are sent together.

All other requests (another topic, several partitions, a transaction) are decoded and answered by
``produce``, and so is a request whose batch backpressure holds. Both append by the broker's
``append_batches``; the fast path saves only the decoding and encoding.
"""

from collections.abc import Sequence
from struct import Struct

from mainstem.broker.door import AppendedBatch, AppendOutcome, Durable, HeldPublish
from mainstem.core.errors import MainstemError, UnknownTopic
from mainstem.heads.conversation import Answer, Later, ProtocolError
from mainstem.heads.kafka.adapter.apis import produce
from mainstem.heads.kafka.adapter.service import Service
from mainstem.heads.kafka.adapter.topics import name_of
from mainstem.kafka_protocol.messages.produce import (
    PRODUCE,
    ProducedPartition,
    ProducedTopic,
    ProduceRequest,
    ProduceResponse,
)
from mainstem.kafka_protocol.primitives import read_uvarint
from mainstem.kafka_protocol.server_codec import RequestHeader, encode_response

MOST_TOGETHER = 128
"""Maximum number of requests appended together, so that other connections do not wait long."""
_FIRST = 5
"""First version of Produce whose response contains the log start offset."""
_INT16, _INT32 = Struct(">h"), Struct(">i")
_PRODUCED = Struct(">ihqqq")
"""Layout of a partition in a response: number, error code, base offset, append time, log start
offset.
"""
_NO_TAGS = b"\0\0\0"
"""Empty tagged fields at the end of a request: those of the partition, the topic and the request.
"""
_MARK = (-2, 0, -2, -1, -2)
_UVARINT_BYTES = 5

_Asked = tuple[int, int]
"""Correlation id and partition of a request."""
_Batch = tuple[int, memoryview]
"""Partition number and records of a request."""


class _Shape:
    """The bytes that a producer's requests for one topic share, and those of the responses."""

    __slots__ = (
        "_after",
        "_answer",
        "_answer_size",
        "_before",
        "_flexible",
        "_head",
        "_key",
        "_max_bytes",
        "_prefix",
        "adds_partition",
        "header",
        "is_answered",
        "topic",
        "topic_id",
    )

    def __init__(self, header: RequestHeader, request: ProduceRequest, max_bytes: int) -> None:
        self.header = header
        self.is_answered = request.acks != 0
        self.adds_partition = produce.adds_partition(header)
        self._max_bytes = max_bytes
        self._key = _INT16.pack(header.api_key) + _INT16.pack(header.api_version)
        self.topic = request.topic_data[0].name
        """The topic's name; empty if requests name it by its id."""
        self.topic_id = request.topic_data[0].topic_id
        self._flexible = PRODUCE.flexible(header.api_version)
        self._prefix = _prefix(header, request, self._flexible)
        self._head = Struct(f">i4si{len(self._prefix)}si")
        marked = ProducedPartition(*_MARK)
        whole = _encoded(header, 0, self.body(marked))
        before, _, self._after = whole.partition(_PRODUCED.pack(*_MARK))
        self._before = before[2 * _INT32.size :]
        self._answer_size = len(whole) - _INT32.size
        self._answer = Struct(f">ii{len(self._before)}sihqqq{len(self._after)}s")

    def body(self, partition: ProducedPartition, throttle_ms: int = 0) -> ProduceResponse:
        """Return the response for a request with this partition, not encoded yet."""
        topic = ProducedTopic(self.topic_id, self.topic, (partition,))
        return ProduceResponse((topic,), throttle_ms)

    def request_at(self, view: memoryview, at: int) -> tuple[int, int, memoryview, int] | None:
        """Match the request at a position; return its variable parts, None if the bytes differ.

        The parts are correlation id, partition, records, and the position after the request.
        """
        head = self._head
        begin = at + head.size
        if begin + _UVARINT_BYTES > len(view):
            return None
        length, key, correlation_id, prefix, partition = head.unpack_from(view, at)
        end = at + _INT32.size + length
        if (
            prefix != self._prefix
            or key != self._key
            or end > len(view)
            or length > self._max_bytes
        ):
            return None
        stop = end
        if self._flexible:
            try:
                size, begin = read_uvarint(view, begin)
            except ValueError:
                return None
            size -= 1
            stop -= len(_NO_TAGS)
            if view[stop:end] != _NO_TAGS:
                return None
        else:
            (size,) = _INT32.unpack_from(view, begin)
            begin += _INT32.size
        if size <= 0 or begin + size != stop:
            return None
        return correlation_id, partition, view[begin:stop], end

    def answer(self, asked: _Asked, arrived: AppendedBatch) -> bytes:
        """Return the encoded response to a request whose batch was appended."""
        return self._answer.pack(
            self._answer_size,
            asked[0],
            self._before,
            asked[1],
            0,
            arrived.offset,
            arrived.appended_ms,
            arrived.start,
            self._after,
        )


class _Pending:
    """Requests that were appended together; answered when all their batches are durable."""

    __slots__ = ("asked", "later", "outcomes", "shape")

    def __init__(
        self, shape: _Shape, asked: Sequence[_Asked], outcomes: Sequence[AppendOutcome]
    ) -> None:
        self.later = Later()
        self.shape = shape
        self.asked = asked
        self.outcomes = outcomes


class ProduceFastPath:
    """The fast path for the produce requests of one connection."""

    __slots__ = ("_durable", "_gathered", "_held", "_last", "_service", "_shape")

    def __init__(self, service: Service) -> None:
        self._service = service
        self._last: tuple[int, str | None, str, bytes] | None = None
        self._shape: _Shape | None = None
        self._durable: Durable | None = None
        self._gathered: list[_Pending] | None = None
        """Requests that wait for ``_durable``, to be answered together."""
        self._held: HeldPublish | None = None
        """The HeldPublish of the next request, if backpressure held its batch in ``take``."""

    def learn(self, header: RequestHeader, request: ProduceRequest) -> None:
        """Remember a decoded request's bytes if the last one for a single partition was alike.

        Alike are requests of the same version, client id and topic, for a single partition and
        without a transaction. Any other request makes it forget the bytes.
        """
        topics = request.topic_data
        self._shape = None
        if len(topics) != 1 or len(topics[0].partition_data) != 1:
            return
        seen = header.api_version, header.client_id, topics[0].name, topics[0].topic_id
        alike, self._last = seen == self._last, seen
        if (
            alike
            and header.api_version >= _FIRST
            and request.acks in (-1, 0, 1)
            and request.transactional_id is None
        ):
            self._shape = _Shape(header, request, self._service.settings.max_frame_bytes)

    def take(self, view: memoryview) -> tuple[Answer | Later, int] | None:
        """Append the leading requests whose bytes match; return their answer and total size.

        None if fewer than two match, or if backpressure holds the first batch. If it holds a later
        one, the next call begins with that request.
        """
        shape = self._shape
        if shape is None:
            return None
        asked: list[_Asked] = []
        batches: list[_Batch] = []
        ends: list[int] = []
        at = 0
        while len(asked) < MOST_TOGETHER and (found := shape.request_at(view, at)) is not None:
            correlation_id, partition, records, at = found
            asked.append((correlation_id, partition))
            batches.append((partition, records))
            ends.append(at)
        outcomes = self._append(shape, batches) if len(asked) > 1 else None
        if not outcomes:
            return None
        return self._answered(shape, asked, batches, outcomes), ends[len(outcomes) - 1]

    def answer(self, frame: memoryview) -> Answer | Later | HeldPublish | None:
        """Append one request whose bytes match; None if they do not match.

        Returns HeldPublish if backpressure holds its batch: nothing was appended, and ``produce``
        must retry.
        """
        shape = self._shape
        found = None if shape is None else shape.request_at(frame, 0)
        if shape is None or found is None or found[3] != len(frame):
            return None
        correlation_id, partition, records, _ = found
        batches = ((partition, records),)
        outcomes = self._append(shape, batches)
        if not outcomes:
            held, self._held = self._held, None
            return held
        return self._answered(shape, ((correlation_id, partition),), batches, outcomes)

    def _append(self, shape: _Shape, batches: Sequence[_Batch]) -> list[AppendOutcome] | None:
        """Append batches; return the outcomes before the first held one.

        None if the topic does not exist.
        """
        held, self._held = self._held, None
        try:
            topic = shape.topic or self._name(shape.topic_id)
            outcomes, self._held = self._service.broker.append_batches(
                topic, batches, held, adds_partition=shape.adds_partition
            )
        except UnknownTopic:
            return None
        except MainstemError as error:
            return [error] * len(batches)
        return outcomes

    def _name(self, topic_id: bytes) -> str:
        found = name_of(self._service, topic_id)
        if found is None:
            raise UnknownTopic(topic_id.hex())
        return found

    def _answered(
        self,
        shape: _Shape,
        asked: Sequence[_Asked],
        batches: Sequence[_Batch],
        outcomes: Sequence[AppendOutcome],
    ) -> Answer | Later:
        """Return the responses, or, if a batch is not durable yet, a Later that gets them then."""
        counts = self._service.counts
        counts.requests[PRODUCE.key] += len(outcomes)
        waits = None
        for (_, records), outcome in zip(batches, outcomes, strict=False):
            if isinstance(outcome, AppendedBatch):
                counts.produced_batches += 1
                counts.produced_events += outcome.events
                counts.produced_bytes += len(records)
                if waits is None and not outcome.durable.done:
                    waits = outcome.durable
        if waits is None:
            try:
                return self._encoded(shape, asked, outcomes)
            except ProtocolError as error:
                later = Later()
                later.fail(error)
                return later
        pending = _Pending(shape, asked, outcomes)
        self._await(waits, pending)
        return pending.later

    def _gather(self, pending: _Pending) -> bool:
        """Wait for the first batch that is not durable yet; return False if there is none."""
        for outcome in pending.outcomes:
            if isinstance(outcome, AppendedBatch) and not outcome.durable.done:
                self._await(outcome.durable, pending)
                return True
        return False

    def _await(self, durable: Durable, pending: _Pending) -> None:
        gathered = self._gathered
        if gathered is not None and durable is self._durable:
            gathered.append(pending)
            return
        gathered = self._gathered = [pending]
        self._durable = durable

        def decided(_: MainstemError | None) -> None:
            self._service.on_loop(lambda: self._settle(gathered))

        durable.then(decided)

    def _settle(self, gathered: list[_Pending]) -> None:
        if gathered is self._gathered:
            self._gathered = self._durable = None
        for pending in gathered:
            if not self._gather(pending):
                try:
                    answer = self._encoded(pending.shape, pending.asked, pending.outcomes)
                except ProtocolError as error:
                    pending.later.fail(error)
                else:
                    pending.later.settle(answer)

    def _encoded(
        self, shape: _Shape, asked: Sequence[_Asked], outcomes: Sequence[AppendOutcome]
    ) -> Answer:
        """Return the encoded responses; empty for a producer that expects none (acks=0).

        Raises ProtocolError if a batch of such a producer was refused.
        """
        answers: list[bytes] = []
        for each, outcome in zip(asked, outcomes, strict=False):
            try:
                if not isinstance(outcome, AppendedBatch):
                    raise outcome
                outcome.durable.wait(0)
                if shape.is_answered:
                    answers.append(shape.answer(each, outcome))
            except MainstemError as error:
                answers.append(self._refused(shape, each, error))
        return (b"".join(answers),) if shape.is_answered else ()

    def _refused(self, shape: _Shape, asked: _Asked, error: MainstemError) -> bytes:
        header = shape.header
        refused = produce.refused(header, asked[1], error)
        if not shape.is_answered:
            reason = produce.unheard((refused,))
            if reason is not None:
                raise reason
            return b""
        body = shape.body(refused, produce.throttle_ms(error))
        self._service.counts.answered(header.api_key, header.api_version, body)
        return _encoded(header, asked[0], body)


def _encoded(header: RequestHeader, correlation_id: int, body: ProduceResponse) -> bytes:
    answer = encode_response(header.api_key, header.api_version, correlation_id, body)
    return b"".join(piece for piece in answer if isinstance(piece, bytes))


def _prefix(header: RequestHeader, request: ProduceRequest, flexible: bool) -> bytes:
    """Encode the bytes between correlation id and partition in the way most clients do."""
    client = b"" if header.client_id is None else header.client_id.encode()
    name = request.topic_data[0].name.encode()
    head = _INT16.pack(-1 if header.client_id is None else len(client)) + client
    acks, timeout = _INT16.pack(request.acks), _INT32.pack(request.timeout_ms)
    if not flexible:
        named = _INT16.pack(len(name)) + name
        return head + _INT16.pack(-1) + acks + timeout + _INT32.pack(1) + named + _INT32.pack(1)
    # No tags, no transactional id; compact counts and lengths are stored plus one. A name whose
    # length needs two bytes gets a prefix that never matches.
    named = bytes([len(name) + 1 & 0x7F]) + name
    if header.api_version >= produce.BY_ID:
        named = request.topic_data[0].topic_id
    return head + b"\0\0" + acks + timeout + b"\2" + named + b"\2"
