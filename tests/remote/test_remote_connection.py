"""A connection to something that is no broker, or one that hangs up, is Unreachable."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstem.core.errors import Unreachable
from mainstem.remote.cluster import Cluster
from mainstem.remote.connection import (
    INT8,
    INT32,
    NO_TAGS,
    Answer,
    Connection,
    compact_array,
    compact_string,
)
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
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "none of a Kafka broker"),
        (b"\xff\xff\xff\xff", "none of a Kafka broker"),
        (b"\0\0\0\x08\0\0\0\x63abcd", "answer 99 came"),
        (b"\0\0\0\x10\0\0\0\0", "closed"),
    ],
)
def test_what_is_no_answer_is_said(data: bytes, says: str) -> None:
    with answering(data) as port:
        connection = Connection("127.0.0.1", port, 10)

        with pytest.raises(Unreachable, match=says):
            connection.ask(3, 4, b"")
        connection.close()


def test_an_answer_that_is_cut_off_is_said() -> None:
    with answering(b"\0\0\0\x0c\0\0\0\0\0\0\0\0\x7f\xff\xff\xff") as port:
        leaders = Leaders(Cluster(f"127.0.0.1:{port}", timeout_s=10, settings={}))

        with pytest.raises(Unreachable, match="cut off"):
            leaders.connection(("orders", 0))


def test_nobody_there_is_said() -> None:
    with pytest.raises(Unreachable, match="refused"):
        Connection("127.0.0.1", 1, 10)


@given(st.text(max_size=300), st.lists(st.integers(-(2**31), 2**31 - 1), max_size=300))
def test_what_is_written_for_a_flexible_version_is_read_back(text: str, numbers: list[int]) -> None:
    written = compact_string(text) + compact_array(INT32.pack(each) for each in numbers) + NO_TAGS

    answer = Answer(bytearray(written + b"\2\0\1x\5\2yz" + INT8.pack(7)), "there")

    assert answer.compact_string() == text
    assert answer.compact_array(answer.int32) == numbers
    for _ in range(2):
        answer.tags()
    assert answer.int8() == 7


@given(st.binary(max_size=50))
def test_whatever_a_flexible_answer_is_it_is_read_or_refused(data: bytes) -> None:
    answer = Answer(bytearray(data), "there")

    with suppress(Unreachable):
        answer.tags()
        answer.compact_array(answer.compact_string)
