"""Malformed and hostile frames are refused, with the reason."""

import struct
import tracemalloc

import pytest
from tests.kafka_protocol.frames import request_frame

from mainstem.core.wire import ProtocolError
from mainstem.kafka_protocol.messages.fetch import FETCH
from mainstem.kafka_protocol.messages.metadata import METADATA, MetadataRequest, MetadataTopicName
from mainstem.kafka_protocol.server_codec import UnsupportedVersion, decode_request


def frame(key: int, version: int, *rest: bytes, client: bytes = b"\0\2me") -> memoryview:
    """Build a frame by hand, so that it can be wrong."""
    return memoryview(struct.pack(">hhi", key, version, 7) + client + b"".join(rest))


NO_TAGS = b"\0"
# A Metadata request in version 9: header tags, topics, three booleans, tags.
FLAGS = b"\1\0\0"
TOPIC = b"\2x\0"

malformed = {
    "empty": (memoryview(b""), "too short"),
    "nine bytes": (memoryview(bytes(9)), "too short"),
    "header only": (frame(3, 1), "cut off"),
    "client id of length -2": (frame(3, 1, client=b"\xff\xfe"), "client id is of length -2"),
    "client id past the frame": (frame(3, 1, client=b"\x7f\xffx"), "client id ends at"),
    "client id not UTF-8": (frame(3, 1, client=b"\0\1\xff"), "utf-8"),
    "string not UTF-8": (frame(3, 1, b"\0\0\0\1", b"\0\1\xff"), "utf-8"),
    "surrogate in a string": (frame(3, 1, b"\0\0\0\1", b"\0\3\xed\xa0\x80"), "utf-8"),
    "string of length -2": (frame(3, 1, b"\0\0\0\1", b"\xff\xfe"), "of length -2"),
    "null string": (frame(3, 1, b"\0\0\0\1", b"\xff\xff"), "name is null"),
    "string past the frame": (frame(3, 1, b"\0\0\0\1", b"\0\5abc"), "name ends at"),
    "null array before it may be": (frame(3, 0, b"\xff\xff\xff\xff"), "topics is null"),
    "array of -2": (frame(3, 1, b"\xff\xff\xff\xfe"), "of length -2"),
    "array of 2^31-1": (frame(3, 1, b"\x7f\xff\xff\xff"), "2147483647 elements"),
    "array that nearly fits": (frame(3, 1, b"\0\0\0\3", b"\0\1x", b"\0"), "3 elements in 4 bytes"),
    "compact null string": (frame(3, 9, NO_TAGS, b"\2", b"\0\0", FLAGS, NO_TAGS), "name is null"),
    "compact null array": (frame(13, 4, NO_TAGS, b"\2g", b"\0", NO_TAGS), "members is null"),
    "compact array of 2^32-2": (frame(3, 9, NO_TAGS, b"\xff\xff\xff\xff\x0f"), "4294967294"),
    "compact string over the limit": (
        frame(3, 9, NO_TAGS, b"\2", b"\x81\x80\x02", b"x" * 32768, NO_TAGS, FLAGS, NO_TAGS),
        "a string of 32768 bytes",
    ),
    "uvarint of 33 bits": (frame(3, 9, NO_TAGS, b"\xff\xff\xff\xff\x10"), "32 bits"),
    "uvarint of six bytes": (frame(3, 9, NO_TAGS, b"\x80\x80\x80\x80\x80\x01"), "32 bits"),
    "endless uvarint": (frame(3, 9, NO_TAGS, b"\xff" * 100), "32 bits"),
    "uvarint cut off": (frame(3, 9, NO_TAGS, b"\xff"), "cut off"),
    "2^32-1 tags": (frame(3, 9, b"\xff\xff\xff\xff\x0f"), "4294967295 tagged fields"),
    "no tags, said in two bytes": (frame(3, 9, b"\x80\0"), "0 tagged fields"),
    "the same tag twice": (frame(3, 9, b"\2\5\0\5\0", b"\1", FLAGS, NO_TAGS), "tag 5 after tag 5"),
    "tags that descend": (frame(3, 9, b"\2\5\0\4\0", b"\1", FLAGS, NO_TAGS), "tag 4 after tag 5"),
    "tag past the frame": (frame(3, 9, b"\1\0\x7f", b"\1", FLAGS, NO_TAGS), "tag 0 of 127 bytes"),
    "tag longer than its value": (
        frame(1, 12, NO_TAGS, bytes(25), b"\1\1\1", b"\1\0\3\2xy"),
        "cluster_id ends at",
    ),
    "tag shorter than its value": (
        frame(1, 12, NO_TAGS, bytes(25), b"\1\1\1", b"\1\0\1\2xy"),
        "cluster_id ends at",
    ),
}


@pytest.mark.parametrize(("hostile", "reason"), malformed.values(), ids=malformed.keys())
def test_it_is_refused_and_the_reason_said(hostile: memoryview, reason: str) -> None:
    with pytest.raises(ProtocolError, match=reason):
        decode_request(hostile)


def test_the_same_frames_are_requests_where_nothing_is_wrong() -> None:
    plain = decode_request(frame(3, 1, b"\0\0\0\1", b"\0\1x"))
    flexible = decode_request(frame(3, 9, b"\1\5\0", b"\2", TOPIC, FLAGS, NO_TAGS))
    tagged = decode_request(frame(1, 12, NO_TAGS, bytes(25), b"\1\1\1", b"\1\0\3\3xy"))

    assert plain.body == flexible.body == MetadataRequest((MetadataTopicName(name="x"),))
    assert getattr(tagged.body, "cluster_id", None) == "xy"


def test_a_longer_way_to_write_a_varint_is_understood() -> None:
    request = decode_request(frame(3, 9, NO_TAGS, b"\x82\x80\0", TOPIC, FLAGS, NO_TAGS))

    assert request.body == MetadataRequest((MetadataTopicName(name="x"),))


@pytest.mark.parametrize(
    ("key", "version"), [(3, 99), (3, -1), (0, 0), (18, 99), (-1, 0), (999, 0), (18245, 21536)]
)
def test_an_unknown_api_or_version_is_told_with_the_id_to_answer(key: int, version: int) -> None:
    with pytest.raises(UnsupportedVersion) as refused:
        decode_request(frame(key, version, b"whatever"))

    assert (refused.value.api_key, refused.value.api_version) == (key, version)
    assert refused.value.correlation_id == 7


def test_elements_are_counted_over_all_arrays() -> None:
    # 2 topics with 3 partitions each, and no forgotten topics: 8 elements.
    partition = bytes(4) + bytes(4) + bytes(8) + bytes(4) + bytes(8) + bytes(4) + NO_TAGS
    topic = b"\2x" + b"\4" + partition * 3 + NO_TAGS
    fetch = frame(FETCH.key, 12, NO_TAGS, bytes(25), b"\3", topic * 2, b"\1\1", NO_TAGS)

    assert decode_request(fetch, max_elements=8)

    with pytest.raises(ProtocolError, match="too many elements at partitions"):
        decode_request(fetch, max_elements=7)


def test_tags_count_as_elements() -> None:
    tags = b"\3\5\0\6\0\7\0"
    metadata = frame(3, 9, tags, b"\1", FLAGS, tags)

    assert decode_request(metadata, max_elements=6)

    with pytest.raises(ProtocolError, match="3 tagged fields"):
        decode_request(metadata, max_elements=5)


def test_a_large_frame_of_tiny_elements_stays_small() -> None:
    body = b"\0\1x" * 2_000_000
    hostile = frame(3, 1, struct.pack(">i", 2_000_000), body)

    tracemalloc.start()
    with pytest.raises(ProtocolError, match="too many elements"):
        decode_request(hostile)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert peak < 100_000


def test_a_frame_may_be_in_a_buffer_that_is_used_again() -> None:
    topics = (MetadataTopicName(name="orders"),)
    buffer = bytearray(request_frame(METADATA, 1, MetadataRequest(topics)))

    request = decode_request(memoryview(buffer))
    buffer[:] = bytes(len(buffer))

    assert request.body == MetadataRequest(topics)
    assert request.header.client_id == "me"
