"""A connection to something that is no broker, or one that hangs up, is Unreachable."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.kafka_protocol.frames import whole
from tests.kafka_protocol.values import filled

from mainstem.core.errors import Unreachable
from mainstem.kafka_protocol.api import Api
from mainstem.kafka_protocol.fields import Wire
from mainstem.kafka_protocol.messages.fetch import FETCH, FetchResponse
from mainstem.kafka_protocol.messages.membership import FIND_COORDINATOR, FindCoordinatorResponse
from mainstem.kafka_protocol.messages.metadata import METADATA, MetadataRequest, MetadataResponse
from mainstem.kafka_protocol.messages.offsets import LIST_OFFSETS, ListOffsetsResponse
from mainstem.kafka_protocol.messages.share_groups import (
    DELETE_SHARE_GROUP_OFFSETS,
    DESCRIBE_SHARE_GROUP_OFFSETS,
    DeleteShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponse,
)
from mainstem.kafka_protocol.server_codec import encode_response
from mainstem.remote.cluster import Cluster
from mainstem.remote.connection import Connection, read_response
from mainstem.remote.leaders import Leaders


@contextmanager
def answering(data: bytes) -> Iterator[int]:
    """Listen, and answer the first request with bytes; yields the port."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        peer, _ = listener.accept()
        with peer:
            peer.recv(1000)
            peer.sendall(data)

    thread = threading.Thread(target=serve)
    thread.start()
    yield listener.getsockname()[1]
    thread.join()
    listener.close()


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "closed"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "not a Kafka broker's"),
        (b"\xff\xff\xff\xff", "not a Kafka broker's"),
        (b"\0\0\0\x08\0\0\0\x63abcd", "response 99 came"),
        (b"\0\0\0\x10\0\0\0\0", "closed"),
    ],
)
def test_what_is_no_answer_is_said(data: bytes, says: str) -> None:
    with answering(data) as port:
        connection = Connection("127.0.0.1", port, 10)

        with pytest.raises(Unreachable, match=says):
            connection.ask(METADATA, 4, MetadataRequest(), MetadataResponse)
        connection.close()


def test_a_response_that_promises_more_than_it_holds_is_refused() -> None:
    with answering(b"\0\0\0\x0c\0\0\0\0\0\0\0\0\x7f\xff\xff\xff") as port:
        leaders = Leaders(Cluster(f"127.0.0.1:{port}", timeout_s=10, settings={}))

        with pytest.raises(Unreachable, match="2147483647 elements"):
            leaders.connection(("orders", 0))


def test_nobody_there_is_said() -> None:
    with pytest.raises(Unreachable, match="refused"):
        Connection("127.0.0.1", 1, 10)


def test_a_cut_off_response_is_refused() -> None:
    frame = whole(encode_response(METADATA.key, 4, 7, filled(MetadataResponse, 4)))

    for size in range(4, len(frame)):
        with pytest.raises(Unreachable, match="not a Kafka broker's"):
            read_response(METADATA, 4, memoryview(frame)[:size], MetadataResponse, "there")


@pytest.mark.parametrize(
    ("api", "version", "response"),
    [
        (FETCH, 4, FetchResponse),
        (LIST_OFFSETS, 4, ListOffsetsResponse),
        (METADATA, 4, MetadataResponse),
        (FIND_COORDINATOR, 1, FindCoordinatorResponse),
        (DESCRIBE_SHARE_GROUP_OFFSETS, 1, DescribeShareGroupOffsetsResponse),
        (DELETE_SHARE_GROUP_OFFSETS, 0, DeleteShareGroupOffsetsResponse),
    ],
)
@given(data=st.binary(min_size=4, max_size=80))
def test_whatever_the_bytes_are_they_are_read_or_refused(
    api: Api, version: int, response: type[Wire], data: bytes
) -> None:
    with suppress(Unreachable):
        found = read_response(api, version, memoryview(data), response, "there")

        assert isinstance(found, response)
