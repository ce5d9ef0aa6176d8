"""Frames: headers, buffers, and values that a version cannot encode."""

import pytest
from tests.kafka_protocol.frames import request_frame, response_frame, whole

from mainstem.core.wire import Piece, ProtocolError
from mainstem.kafka_protocol.classic_group_metadata import decode_blob, encode_blob
from mainstem.kafka_protocol.client_codec import decode_response, encode_request
from mainstem.kafka_protocol.fields import Wire
from mainstem.kafka_protocol.messages.connection import (
    API_VERSIONS,
    ApiVersionsRequest,
    ApiVersionsResponse,
    ServedApi,
)
from mainstem.kafka_protocol.messages.consumer_protocol import (
    ConsumerPartitions,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)
from mainstem.kafka_protocol.messages.fetch import (
    FETCH,
    FetchedPartition,
    FetchedTopic,
    FetchResponse,
)
from mainstem.kafka_protocol.messages.membership import (
    FIND_COORDINATOR,
    JOIN_GROUP,
    SYNC_GROUP,
    Coordinator,
    FindCoordinatorResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    JoinProtocol,
    SyncGroupResponse,
)
from mainstem.kafka_protocol.messages.metadata import METADATA, MetadataResponse, MetadataTopic
from mainstem.kafka_protocol.messages.produce import (
    PRODUCE,
    ProducePartition,
    ProduceRequest,
    ProduceTopic,
)
from mainstem.kafka_protocol.server_codec import decode_request, encode_response


class OnDisk:
    """Records in a file."""

    length = 1_000_000
    position = 4096

    def fileno(self) -> int:
        return 42

    def tobytes(self) -> bytes:
        return b"r" * self.length


def fetched(*records: Piece | None) -> FetchResponse:
    partitions = [
        FetchedPartition(partition_index=number, records=one) for number, one in enumerate(records)
    ]
    return FetchResponse(responses=[FetchedTopic(topic="orders", partitions=partitions)])


@pytest.mark.parametrize("version", [11, 12])
def test_records_on_disk_are_a_piece_of_the_frame_and_counted(version: int) -> None:
    stored = OnDisk()

    pieces = encode_response(FETCH.key, version, 7, fetched(stored, b"small", stored))

    before, first, between, second, after = pieces
    assert first is second is stored
    assert isinstance(before, bytes)
    assert isinstance(between, bytes)
    assert isinstance(after, bytes)
    assert b"small" in between
    size = int.from_bytes(before[:4], "big")
    assert size == len(before) - 4 + len(between) + len(after) + 2 * stored.length


@pytest.mark.parametrize("version", [11, 12])
def test_a_frame_in_pieces_is_the_frame_in_one(version: int) -> None:
    stored = OnDisk()
    pieces = encode_response(FETCH.key, version, 7, fetched(stored, b"small", None))

    sent = whole([stored.tobytes() if piece is stored else piece for piece in pieces])

    answer = decode_response(FETCH, version, memoryview(sent))
    assert isinstance(answer.body, FetchResponse)
    partitions = answer.body.responses[0].partitions
    assert [partition.records for partition in partitions] == [stored.tobytes(), b"small", None]


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_large_records_in_memory_are_not_copied(kind: type[bytes | bytearray | memoryview]) -> None:
    records = kind(b"r" * 100_000)

    pieces = encode_response(FETCH.key, 12, 7, fetched(records))

    assert len(pieces) == 3
    assert pieces[1] is records


def test_records_are_views_of_the_frame_and_bytes_are_copies() -> None:
    produce = ProduceRequest(
        topic_data=(ProduceTopic(name="a", partition_data=(ProducePartition(0, b"r" * 9000),)),)
    )
    join = JoinGroupRequest(protocols=(JoinProtocol("range", b"subscription"),))
    buffer = bytearray(request_frame(PRODUCE, 9, produce))

    records = decode_request(memoryview(buffer)).body
    metadata = decode_request(memoryview(request_frame(JOIN_GROUP, 9, join))).body

    assert isinstance(records, ProduceRequest)
    view = records.topic_data[0].partition_data[0].records
    assert isinstance(view, memoryview)
    assert view.obj is buffer
    assert not view.readonly
    assert isinstance(metadata, JoinGroupRequest)
    assert type(metadata.protocols[0].metadata) is bytes


def test_the_answer_to_api_versions_has_the_old_header_in_every_version() -> None:
    body = ApiVersionsResponse(api_keys=(ServedApi(18, 0, 4),))

    for version in range(API_VERSIONS.first, API_VERSIONS.last + 1):
        frame = response_frame(API_VERSIONS, version, body)

        # Right behind the correlation id stands the error code, not the tags of a header.
        count = b"\2" if version >= 3 else b"\0\0\0\1"
        assert frame.startswith(b"\0\0\0\7" + b"\0\0" + count + b"\0\x12\0\0\0\4")


@pytest.mark.parametrize("version", [0, 3])
def test_a_peer_need_not_say_who_it_is(version: int) -> None:
    frame = whole(encode_request(API_VERSIONS, version, 7, None, ApiVersionsRequest()))

    assert decode_request(memoryview(frame)).header.client_id is None


def test_lists_are_written_as_tuples_are() -> None:
    as_lists = ApiVersionsResponse(api_keys=[ServedApi(1, 4, 17)], supported_features=[])
    as_tuples = ApiVersionsResponse(api_keys=(ServedApi(1, 4, 17),))

    frames = {response_frame(API_VERSIONS, 3, body) for body in (as_lists, as_tuples)}

    assert len(frames) == 1


def test_what_a_version_has_no_place_for_is_left_out_if_it_may_be() -> None:
    body = MetadataResponse(topics=(MetadataTopic(name="a", topic_id=b"i" * 16),), cluster_id="c")

    frame = response_frame(METADATA, 0, body)

    without = MetadataResponse(topics=(MetadataTopic(name="a"),))
    assert decode_response(METADATA, 0, memoryview(frame)).body == without


cannot_be_said: dict[str, tuple[int, int, Wire]] = {
    "a list before there were lists": (
        FIND_COORDINATOR.key,
        3,
        FindCoordinatorResponse(coordinators=(Coordinator("g", 1, "h", 9092),)),
    ),
    "one where there is a list": (FIND_COORDINATOR.key, 4, FindCoordinatorResponse(node_id=1)),
    "null before it was allowed": (JOIN_GROUP.key, 6, JoinGroupResponse(protocol_name=None)),
    "a number too large": (JOIN_GROUP.key, 6, JoinGroupResponse(generation_id=2**31)),
    "a string too long": (JOIN_GROUP.key, 5, JoinGroupResponse(leader="x" * 32768)),
    "a compact string too long": (JOIN_GROUP.key, 6, JoinGroupResponse(leader="x" * 32768)),
    "another message": (JOIN_GROUP.key, 6, SyncGroupResponse()),
}


@pytest.mark.parametrize(
    ("key", "version", "body"), cannot_be_said.values(), ids=cannot_be_said.keys()
)
def test_what_a_version_cannot_say_is_an_error(key: int, version: int, body: Wire) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - each for a reason of its own
        encode_response(key, version, 7, body)


def test_the_longest_string_can_be_said() -> None:
    body = SyncGroupResponse(protocol_name="x" * 32767)

    frame = response_frame(SYNC_GROUP, 5, body)

    assert decode_response(SYNC_GROUP, 5, memoryview(frame)).body == body


def test_a_blob_of_a_later_version_is_read_as_far_as_it_is_known() -> None:
    partitions = (ConsumerPartitions("orders", (0, 1)),)
    known = encode_blob(3, ConsumerProtocolAssignment(partitions, b"mine"))

    later = (4).to_bytes(2, "big") + known[2:] + b"what came later"

    assert decode_blob(ConsumerProtocolAssignment, later) == ConsumerProtocolAssignment(
        partitions, b"mine"
    )


@pytest.mark.parametrize(
    "blob", [b"", b"\0", b"\xff\xff\0\0\0\0", b"\0\0\0\0\0\1", b"\0\3\0\0\0\0\xff\xff\xff\xff"]
)
def test_a_blob_that_is_none_is_refused(blob: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode_blob(ConsumerProtocolSubscription, blob)


def test_a_blob_with_bytes_too_many_is_refused() -> None:
    blob = encode_blob(1, ConsumerProtocolSubscription(topics=("orders",)))

    with pytest.raises(ProtocolError, match="ends at byte"):
        decode_blob(ConsumerProtocolSubscription, blob + b"\0")
