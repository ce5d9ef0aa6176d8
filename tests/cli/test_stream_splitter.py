"""Events out of a byte stream."""

import os
import threading

from hypothesis import given
from hypothesis import strategies as st

from mainstem.cli.events.stream_splitter import StreamSplitter


def all_pieces(splitter: StreamSplitter) -> list[bytes]:
    found: list[bytes] = []
    while not splitter.ended:
        for pieces in splitter.burst():
            found += pieces
    return found


@given(
    chunks=st.lists(st.binary(min_size=1, max_size=8).map(lambda data: data.replace(b"a", b"||"))),
    delimiter=st.sampled_from([b"\n", b"||", b"|"]),
)
def test_where_a_stream_is_cut_changes_nothing(chunks: list[bytes], delimiter: bytes) -> None:
    whole = b"".join(chunks)
    reader, writer = os.pipe()
    splitter = StreamSplitter(reader, delimiter, max_bytes=1000)
    found: list[bytes] = []

    for chunk in filter(None, chunks):
        os.write(writer, chunk)
        for pieces in splitter.burst():
            found += pieces
    os.close(writer)
    found += all_pieces(splitter)
    os.close(reader)

    expected = whole.split(delimiter)
    assert found == (expected if expected[-1] else expected[:-1])


def test_a_slow_stream_is_handed_over_line_by_line() -> None:
    reader, writer = os.pipe()
    splitter = StreamSplitter(reader, b"\n", max_bytes=1000)

    os.write(writer, b"first\nsec")
    first = list(splitter.burst())
    os.write(writer, b"ond\n")
    second = list(splitter.burst())

    assert (first, second) == ([[b"first"]], [[b"second"]])
    os.close(writer)
    os.close(reader)


def test_a_line_without_end_is_given_up_before_it_takes_all_memory() -> None:
    reader, writer = os.pipe()
    splitter = StreamSplitter(reader, b"\n", max_bytes=100_000)
    endless = threading.Thread(target=lambda: os.write(writer, b"ok\n" + bytes(150_000)))
    endless.start()

    assert all_pieces(splitter) == [b"ok"]
    assert 100_000 < splitter.too_large <= 150_000
    os.read(reader, 150_000)
    endless.join()
    os.close(writer)
    os.close(reader)
