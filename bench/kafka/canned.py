"""The answers of the raw limit: as few bytes, and as little thought, as librdkafka accepts.

Produce and Fetch are spoken in their last versions with fixed-size fields, so that what an answer
needs is found at a place that never changes. Everything else is asked once, and answered by the
codec of the Kafka head.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from struct import Struct

from mainstem.core.batch import read_header
from mainstem.kafka_protocol.messages.connection import ApiVersionsResponse, ServedApi
from mainstem.kafka_protocol.messages.metadata import (
    MetadataBroker,
    MetadataPartition,
    MetadataRequest,
    MetadataResponse,
    MetadataTopic,
)
from mainstem.kafka_protocol.messages.transactions import InitProducerIdResponse
from mainstem.kafka_protocol.server_codec import decode_request, encode_response

PRODUCE, FETCH, METADATA, API_VERSIONS, INIT_PRODUCER_ID = 0, 1, 3, 18, 22
VERSIONS = (
    ServedApi(PRODUCE, 7, 7),
    ServedApi(FETCH, 11, 11),
    ServedApi(METADATA, 9, 9),
    ServedApi(API_VERSIONS, 0, 3),
    ServedApi(INIT_PRODUCER_ID, 0, 1),
)
CHUNK_BYTES = 1024 * 1024
"""What is fetched of a partition at a time, as librdkafka asks for."""

REQUEST = Struct(">ihhi")
_CLIENT_ID_AT = REQUEST.size
_INT16, _INT32 = Struct(">h"), Struct(">i")
_FETCH_HEAD = Struct(">iiiibiii")
_FETCHED = Struct(">iiqqi")
"""Partition, leader epoch, offset, log start, most bytes: of each partition in a fetch."""
_PRODUCED = Struct(">iihqqqi")
_ANSWER = Struct(">ii")
_FETCHED_HEAD = Struct(">ihii")
_FETCHED_PARTITION = Struct(">ihqqqiii")


class Produced:
    """Answers the produce requests of one connection, which are all for the same topic."""

    def __init__(self, frame: memoryview) -> None:
        name_at = _after_string(frame, _CLIENT_ID_AT)
        # No transactional id, acks, timeout, one topic.
        name_at += 2 + 2 + 4 + 4
        end = _after_string(frame, name_at)
        self._topic = _INT32.pack(1) + bytes(frame[name_at:end])
        self._partition_at = end + 4
        self._size = 4 + len(self._topic) + _PRODUCED.size
        self.records_at = self._partition_at + 8

    def answer(self, frame: memoryview, correlation_id: int, offset: int = 0) -> bytes:
        """Return that a batch was appended."""
        (partition,) = _INT32.unpack_from(frame, self._partition_at)
        tail = _PRODUCED.pack(1, partition, 0, offset, -1, 0, 0)
        return _ANSWER.pack(self._size, correlation_id) + self._topic + tail


class Fetched:
    """A fetch request: its topic, and the offset that it asks for in each partition."""

    def __init__(self, frame: memoryview) -> None:
        at = _after_string(frame, _CLIENT_ID_AT) + _FETCH_HEAD.size
        end = _after_string(frame, at)
        self._topic = bytes(frame[at:end])
        (count,) = _INT32.unpack_from(frame, end)
        begin = end + 4
        asked = _FETCHED.iter_unpack(frame[begin : begin + count * _FETCHED.size])
        self.offsets = [(partition, offset) for partition, _, offset, _, _ in asked]

    def head(self, correlation_id: int, count: int, size: int) -> bytes:
        """Return what stands before ``count`` partitions with records of ``size`` bytes."""
        fixed = 4 + _FETCHED_HEAD.size + len(self._topic) + 4 + count * _FETCHED_PARTITION.size
        return (
            _ANSWER.pack(fixed + size, correlation_id)
            + _FETCHED_HEAD.pack(0, 0, 0, 1)
            + self._topic
            + _INT32.pack(count)
        )


def fetched(partition: int, tail: int, size: int) -> bytes:
    """Return what stands before the records of one partition."""
    return _FETCHED_PARTITION.pack(partition, 0, tail, tail, 0, -1, -1, size)


def other(frame: memoryview, host: str, port: int) -> bytes:
    """Answer what is asked once per connection; a topic's name ends in its number of partitions."""
    _, key, version, correlation_id = REQUEST.unpack_from(frame)
    if key == API_VERSIONS:
        body = ApiVersionsResponse(api_keys=VERSIONS)
        return _joined(encode_response(key, version, correlation_id, body))
    if key == INIT_PRODUCER_ID:
        first = InitProducerIdResponse(producer_id=1, producer_epoch=0)
        return _joined(encode_response(key, version, correlation_id, first))
    request = decode_request(frame[4:]).body
    assert isinstance(request, MetadataRequest), f"API {key} is not answered here"
    answer = MetadataResponse(
        brokers=(MetadataBroker(1, host, port),),
        controller_id=1,
        topics=tuple(_topic(each.name or "") for each in request.topics or ()),
    )
    return _joined(encode_response(key, version, correlation_id, answer))


def chunks(file: Path) -> Iterator[tuple[int, int, int, int]]:
    """Yield what is sent at a time of a segment: offset, the next offset, position, length."""
    data = memoryview(file.read_bytes())
    begin = position = 0
    first = following = 0
    while position < len(data):
        header = read_header(data, position)
        if position > begin and position + header.size - begin > CHUNK_BYTES:
            yield first, following, begin, position - begin
            begin, first = position, header.base_offset
        position += header.size
        following = header.last_offset + 1
    yield first, following, begin, position - begin


def _topic(name: str) -> MetadataTopic:
    count = int(name.rpartition("-")[2])
    partitions = [
        MetadataPartition(partition_index=number, leader_id=1, replica_nodes=(1,), isr_nodes=(1,))
        for number in range(count)
    ]
    return MetadataTopic(name=name, partitions=tuple(partitions))


def _after_string(frame: memoryview, at: int) -> int:
    (length,) = _INT16.unpack_from(frame, at)
    return int(at) + 2 + max(int(length), 0)


def _joined(frame: Sequence[object]) -> bytes:
    return b"".join(piece for piece in frame if isinstance(piece, bytes))
