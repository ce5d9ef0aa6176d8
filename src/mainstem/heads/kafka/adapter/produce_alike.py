"""Produce requests like the one before them, which is what a busy producer sends.

How this works: a producer's requests for one topic differ in nothing but their correlation id, the
partition and the records, and so do the answers. Once two requests in a row were for the same topic
and for one partition, the bytes in between are remembered. A request that has the same bytes there
is not decoded, and its answer is not encoded: the rest of both is known. Everything else (another
topic, several partitions, a transaction, no answer wanted) takes the long way, through ``produce``.
"""

from struct import Struct

from mainstem.broker.overload import Held
from mainstem.core.errors import MainstemError, UnknownTopic
from mainstem.heads.kafka.adapter import produce
from mainstem.heads.kafka.adapter.service import Service
from mainstem.heads.kafka.adapter.topic_ids import name_of
from mainstem.heads.kafka.codec import RequestHeader, encode_response
from mainstem.heads.kafka.messages.produce import (
    PRODUCE,
    ProducedPartition,
    ProducedTopic,
    ProduceRequest,
    ProduceResponse,
)
from mainstem.heads.kafka.primitives import read_uvarint
from mainstem.heads.shape import Answer, Later
from mainstem.log.port import Durable

_FIRST = 5
"""The first version that tells where the log starts."""
_KEY_AND_VERSION = slice(4, 8)
_CLIENT_AT = 12
_INT16, _INT32 = Struct(">h"), Struct(">i")
_HEAD = Struct(">ii")
_PRODUCED = Struct(">ihqqq")
"""Partition, error code, base offset, append time, start of the log."""
_NO_TAGS = b"\0\0\0"
"""Of the partition, the topic and the request."""
_MARK = (-2, 0, -2, -1, -2)


class _Shape:
    """What requests for one topic have in common, and their answers."""

    __slots__ = (
        "_flexible",
        "_key",
        "_prefix",
        "after",
        "before",
        "header",
        "partition_at",
        "size",
        "topic",
        "topic_id",
    )

    def __init__(self, header: RequestHeader, request: ProduceRequest) -> None:
        self.header = header
        self._key = _INT16.pack(header.api_key) + _INT16.pack(header.api_version)
        self.topic = request.topic_data[0].name
        """Empty if it is named by its id."""
        self.topic_id = request.topic_data[0].topic_id
        self._flexible = PRODUCE.flexible(header.api_version)
        self._prefix = _prefix(header, request, self._flexible)
        self.partition_at = _CLIENT_AT + len(self._prefix)
        marked = ProducedPartition(*_MARK)
        answer = encode_response(header.api_key, header.api_version, 0, self.body(marked))
        whole = b"".join(piece for piece in answer if isinstance(piece, bytes))
        before, _, self.after = whole.partition(_PRODUCED.pack(*_MARK))
        self.size = len(whole) - _INT32.size
        self.before = before[_HEAD.size :]

    def body(self, partition: ProducedPartition) -> ProduceResponse:
        """Return the answer to a request, before it is encoded."""
        return ProduceResponse((ProducedTopic(self.topic_id, self.topic, (partition,)),))

    def records(self, frame: memoryview) -> memoryview | None:
        """Return the records of a request if it is of this shape."""
        if frame[_KEY_AND_VERSION] != self._key:
            return None
        at = self.partition_at
        if frame[_CLIENT_AT:at] != self._prefix:
            return None
        begin = at + _INT32.size
        if not self._flexible:
            return _sized(frame, begin)
        try:
            length, begin = read_uvarint(frame, begin)
        except (IndexError, ValueError):
            return None
        end = begin + length - 1
        return frame[begin:end] if length > 1 and bytes(frame[end:]) == _NO_TAGS else None


_Waiting = tuple[Later, bytes, _Shape, int]
"""An answer, and the partition that it is about."""


class ProduceAlike:
    """What is known of the produce requests of one conversation."""

    __slots__ = ("_durable", "_gathered", "_last", "_service", "_shape")

    def __init__(self, service: Service) -> None:
        self._service = service
        self._last: tuple[int, str | None, str, bytes] | None = None
        self._shape: _Shape | None = None
        self._durable: Durable | None = None
        self._gathered: list[_Waiting] | None = None
        """What is answered when that is decided."""

    def learn(self, header: RequestHeader, request: ProduceRequest) -> None:
        """Look at a request that took the long way."""
        topics = request.topic_data
        self._shape = None
        if len(topics) != 1 or len(topics[0].partition_data) != 1:
            return
        seen = header.api_version, header.client_id, topics[0].name, topics[0].topic_id
        alike, self._last = seen == self._last, seen
        if (
            alike
            and header.api_version >= _FIRST
            and request.acks in (-1, 1)
            and request.transactional_id is None
        ):
            self._shape = _Shape(header, request)

    def answer(self, frame: memoryview) -> Answer | Later | Held | None:
        """Carry out a request that is like the last one; None if it is not.

        Held if it has to wait for room: nothing was appended, and the long way goes on from there.
        """
        shape = self._shape
        records = None if shape is None else shape.records(frame)
        if shape is None or records is None:
            return None
        (partition,) = _INT32.unpack_from(frame, shape.partition_at)
        (correlation_id,) = _INT32.unpack_from(frame, 8)
        service = self._service
        try:
            topic = shape.topic or self._name(shape.topic_id)
            published = service.broker.append_batch(
                topic, partition, records, joins=produce.joins(shape.header)
            )
        except UnknownTopic:
            return None
        except MainstemError as error:
            service.counts.requests[PRODUCE.key] += 1
            return self._refused(shape, correlation_id, partition, error)
        if isinstance(published, Held):
            return published
        service.counts.requests[PRODUCE.key] += 1
        produce.count(service.counts, published, len(records))
        start = service.broker.bounds(topic, partition).start
        answer = (
            _HEAD.pack(shape.size, correlation_id)
            + shape.before
            + _PRODUCED.pack(partition, 0, published.offsets[0], -1, start)
            + shape.after
        )
        if published.durable.done:
            return (answer,)
        return self._later(shape, published.durable, answer, partition)

    def _name(self, topic_id: bytes) -> str:
        found = name_of(self._service, topic_id)
        if found is None:
            raise UnknownTopic(topic_id.hex())
        return found

    def _later(self, shape: _Shape, durable: Durable, answer: bytes, partition: int) -> Later:
        """Answer when the batch is durable, with all others that become so at the same time."""
        gathered = self._gathered
        if gathered is None or durable is not self._durable:
            gathered = []
            self._durable, self._gathered = durable, gathered
            self._await(durable, gathered)
        later = Later()
        gathered.append((later, answer, shape, partition))
        return later

    def _await(self, durable: Durable, gathered: list[_Waiting]) -> None:
        def decided(error: MainstemError | None) -> None:
            self._service.on_loop(lambda: self._settle(gathered, error))

        durable.then(decided)

    def _settle(self, gathered: list[_Waiting], error: MainstemError | None) -> None:
        for later, answer, shape, partition in gathered:
            if error is None:
                later.settle((answer,))
            else:
                (correlation_id,) = _INT32.unpack_from(answer, 4)
                later.settle(self._refused(shape, correlation_id, partition, error))
        gathered.clear()

    def _refused(
        self, shape: _Shape, correlation_id: int, partition: int, error: MainstemError
    ) -> Answer:
        header = shape.header
        body = shape.body(produce.refused(header, partition, error))
        self._service.counts.answered(header.api_key, header.api_version, body)
        return encode_response(header.api_key, header.api_version, correlation_id, body)


def _prefix(header: RequestHeader, request: ProduceRequest, flexible: bool) -> bytes:
    """Return the bytes between correlation id and partition, as most clients write them."""
    client = b"" if header.client_id is None else header.client_id.encode()
    name = request.topic_data[0].name.encode()
    head = _INT16.pack(-1 if header.client_id is None else len(client)) + client
    acks, timeout = _INT16.pack(request.acks), _INT32.pack(request.timeout_ms)
    if not flexible:
        named = _INT16.pack(len(name)) + name
        return head + _INT16.pack(-1) + acks + timeout + _INT32.pack(1) + named + _INT32.pack(1)
    # No tags, no transactional id; counts and lengths are one more than what they count.
    # A name that needs two bytes for its length gets no prefix that would ever be met.
    named = bytes([len(name) + 1 & 0x7F]) + name
    if header.api_version >= produce.BY_ID:
        named = request.topic_data[0].topic_id
    return head + b"\0\0" + acks + timeout + b"\2" + named + b"\2"


def _sized(frame: memoryview, at: int) -> memoryview | None:
    """Return the records after their length, None unless the request ends with them."""
    begin = at + _INT32.size
    if begin > len(frame):
        return None
    (length,) = _INT32.unpack_from(frame, at)
    return frame[begin:] if length > 0 and begin + length == len(frame) else None
