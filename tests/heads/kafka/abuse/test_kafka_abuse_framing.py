"""Bytes that are no requests, over a real socket: the peer is cut off, and nobody else notices."""

import logging
import struct
from collections.abc import Iterator

import pytest
from tests.heads.kafka.raw_peers import Healthy, Peer, request, served

from mainstem.kafka_protocol.messages.connection import (
    API_VERSIONS,
    ApiVersionsRequest,
    ApiVersionsResponse,
)
from mainstem.kafka_protocol.messages.metadata import METADATA, MetadataRequest, MetadataResponse

LIMIT = 100 * 1024 * 1024


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with served(tmp_path_factory.mktemp("abused")) as found:
        yield found


def framed(*parts: bytes) -> bytes:
    body = b"".join(parts)
    return struct.pack(">i", len(body)) + body


def header(key: int, version: int, client: bytes = b"\0\2me") -> bytes:
    return struct.pack(">hhi", key, version, 7) + client


ASK_VERSIONS = request(API_VERSIONS, 3, ApiVersionsRequest("a", "1"))
ASK_METADATA = request(METADATA, 9, MetadataRequest(()))

cut_off = {
    "length 0": (struct.pack(">i", 0), "frame of 0 bytes"),
    "length -1": (struct.pack(">i", -1), "frame of -1 bytes"),
    "length -2^31": (struct.pack(">i", -(2**31)), "frame of -2147483648 bytes"),
    "length 2^31-1": (struct.pack(">i", 2**31 - 1), "frame of 2147483647 bytes"),
    "one over the limit": (struct.pack(">i", LIMIT + 1), f"8 to {LIMIT} are accepted"),
    "HTTP": (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "an HTTP request"),
    "TLS hello": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500), "a TLS handshake"),
    "TLS hello of another size": (b"\x16\x03\x01\x00\xc8\x01" + bytes(199), "a TLS handshake"),
    "TLS alert": (b"\x15\x03\x03\x00\x02\x02\x28", "a TLS alert"),
    "AMQP": (b"AMQP\x00\x00\x09\x01", "an AMQP header"),
    "header cut off": (framed(b"\0\3\0\1\0\0\0\7"), "too short"),
    "header only": (framed(header(3, 1)), "cut off"),
    "unknown API": (framed(header(999, 0)), "API 999"),
    "negative API": (framed(header(-1, 0)), "API -1"),
    "version too high": (framed(header(3, 99)), "API 3 in version 99"),
    "negative version": (framed(header(3, -1)), "API 3 in version -1"),
    "API of brokers only": (framed(header(4, 0)), "API 4"),
    "client id of length -2": (framed(header(3, 1, b"\xff\xfe")), "client id is of length -2"),
    "client id past the frame": (framed(header(3, 1, b"\x7f\xff")), "client id ends at"),
    "client id not UTF-8": (framed(header(3, 1, b"\0\1\xff")), "utf-8"),
    "2^31-1 elements": (framed(header(3, 1), b"\x7f\xff\xff\xff"), "2147483647 elements"),
    "-2 elements": (framed(header(3, 1), b"\xff\xff\xff\xfe"), "of length -2"),
    "2^32-2 compact elements": (framed(header(3, 9), b"\0\xff\xff\xff\xff\x0f"), "4294967294"),
    "uvarint of six bytes": (framed(header(3, 9), b"\0\x80\x80\x80\x80\x80\x01"), "32 bits"),
    "endless uvarint": (framed(header(3, 9), b"\0" + b"\xff" * 1000), "32 bits"),
    "2^32-1 tags": (framed(header(3, 9), b"\xff\xff\xff\xff\x0f"), "tagged fields"),
    "the same tag twice": (framed(header(3, 9), b"\2\5\0\5\0\1\1\0\0\0"), "tag 5 after tag 5"),
    "tags that descend": (framed(header(3, 9), b"\2\5\0\4\0\1\1\0\0\0"), "tag 4 after tag 5"),
    "tag past the frame": (framed(header(3, 9), b"\1\0\x7f\1\1\0\0\0"), "tag 0 of 127 bytes"),
    "compact null": (framed(header(3, 9), b"\0\2\0\0\1\0\0\0"), "name is null"),
    "name not UTF-8": (framed(header(3, 1), b"\0\0\0\1\0\1\xff"), "utf-8"),
    "name past the frame": (framed(header(3, 1), b"\0\0\0\1\0\5abc"), "name ends at"),
    "a million null topics": (
        framed(header(3, 1), struct.pack(">i", 10**6) + bytes(2 * 10**6)),
        "",
    ),
}


@pytest.mark.parametrize(("sent", "reason"), cut_off.values(), ids=cut_off.keys())
def test_the_peer_is_cut_off_and_the_log_says_who_and_why(
    address: str, healthy: Healthy, caplog: pytest.LogCaptureFixture, sent: bytes, reason: str
) -> None:
    with caplog.at_level(logging.WARNING, "mainstem.heads"), Peer(address) as hostile:
        hostile.send(sent)

        assert hostile.is_cut_off()
        healthy.check()

    said = [each.getMessage() for each in caplog.records if hostile.name in each.getMessage()]
    assert len(said) == 1
    assert said[0].startswith(f"closing {hostile.name}: ")
    assert reason in said[0]
    assert not any(each.exc_info for each in caplog.records)


@pytest.mark.parametrize("version", [5, 99, 32767, -1])
def test_a_version_of_api_versions_that_is_not_known_is_answered_in_version_0(
    address: str, healthy: Healthy, version: int
) -> None:
    with Peer(address) as hostile:
        hostile.send(framed(header(18, version), b"\0\1\1\0"))

        answer = hostile.answer(API_VERSIONS, 0, ApiVersionsResponse)

        assert answer.error_code == 35
        assert {each.api_key for each in answer.api_keys} >= {0, 1, 3, 18}
        # The same connection asks again, in a version that is known.
        hostile.send(ASK_VERSIONS)
        assert hostile.answer(API_VERSIONS, 3, ApiVersionsResponse).error_code == 0
    healthy.check()


def test_a_frame_that_is_cut_off_at_any_byte_costs_nobody_anything(
    address: str, healthy: Healthy
) -> None:
    for length in range(len(ASK_METADATA)):
        with Peer(address) as hostile:
            hostile.send(ASK_METADATA[:length])

    healthy.check()


def test_a_frame_that_is_reset_at_any_byte_costs_nobody_anything(
    address: str, healthy: Healthy, caplog: pytest.LogCaptureFixture
) -> None:
    for length in range(len(ASK_METADATA) + 1):
        hostile = Peer(address)
        hostile.send(ASK_METADATA[:length])
        hostile.reset()

    healthy.check()
    assert not any(each.exc_info for each in caplog.records)


def test_one_byte_at_a_time_is_as_good_as_all_at_once(address: str, healthy: Healthy) -> None:
    with Peer(address) as slow:
        for byte in ASK_METADATA:
            slow.send(bytes([byte]))
            healthy.check()

        assert slow.answer(METADATA, 9, MetadataResponse).brokers


@pytest.mark.parametrize("size", [1, 7, 64, 1000])
def test_frames_may_be_split_anywhere_and_share_segments(address: str, size: int) -> None:
    stream = b"".join(request(METADATA, 9, MetadataRequest(()), each) for each in range(20))

    with Peer(address) as peer:
        for begin in range(0, len(stream), size):
            peer.send(stream[begin : begin + size])
        ids = [struct.unpack_from(">i", peer.frame())[0] for _ in range(20)]

    assert ids == list(range(20))


def test_the_same_correlation_id_may_be_used_again(address: str) -> None:
    with Peer(address) as peer:
        peer.send(ASK_METADATA * 2)

        assert struct.unpack_from(">i", peer.frame()) == struct.unpack_from(">i", peer.frame())


def test_what_follows_a_request_in_its_frame_is_passed_over(address: str) -> None:
    with Peer(address) as peer:
        peer.send(framed(ASK_METADATA[4:], b"trailing"))

        assert peer.answer(METADATA, 9, MetadataResponse).brokers


def test_what_was_asked_before_the_peer_closes_its_side_is_answered(address: str) -> None:
    with Peer(address) as peer:
        peer.send(ASK_METADATA * 100)
        peer.socket.shutdown(1)

        for _ in range(100):
            assert peer.answer(METADATA, 9, MetadataResponse).brokers
        assert peer.is_cut_off()


def test_requests_before_a_broken_one_are_answered(address: str, healthy: Healthy) -> None:
    with Peer(address) as hostile:
        hostile.send(ASK_METADATA * 3 + framed(header(-1, -1)))

        for _ in range(3):
            assert hostile.answer(METADATA, 9, MetadataResponse).brokers
        assert hostile.is_cut_off()
    healthy.check()
