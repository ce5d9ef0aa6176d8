"""MoldUDP64's bytes: what the specification says, and packets that do not keep to it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstem.core.errors import InvalidSetting
from mainstem.heads.moldudp64.codec import (
    BadPacket,
    Packet,
    Request,
    check_session,
    decode_packet,
    decode_request,
    encode_packet,
    encode_request,
    fitting,
)

HEAD = b"SESSION001" + bytes(7) + b"\x05"
"""Session and sequence number 5."""


def test_a_packet_has_the_bytes_of_the_specification() -> None:
    packet = Packet("AB", 258, (b"one", b""))

    assert encode_packet(packet) == b"AB        \0\0\0\0\0\0\1\2\0\2\0\3one\0\0"


@pytest.mark.parametrize(
    ("packet", "count"),
    [(Packet("S", 7), b"\0\0"), (Packet("S", 7, is_end=True), b"\xff\xff")],
    ids=["heartbeat", "end of session"],
)
def test_a_packet_without_messages_tells_the_next_number(packet: Packet, count: bytes) -> None:
    encoded = encode_packet(packet)

    assert encoded == b"S         " + bytes(7) + b"\x07" + count
    assert decode_packet(encoded) == packet


bad = {
    "nothing": b"",
    "half a header": HEAD,
    "fewer messages than counted": HEAD + b"\0\2\0\1a",
    "a length that is cut off": HEAD + b"\0\1\0",
    "a message that is cut off": HEAD + b"\0\1\0\3ab",
    "a length beyond the packet": HEAD + b"\0\1\xff\xffab",
    "more bytes than messages": HEAD + b"\0\1\0\1ab",
    "a heartbeat with messages": HEAD + b"\0\0\0\1a",
    "an end of session with messages": HEAD + b"\xff\xff\0\1a",
    "numbers beyond 64 bits": b"SESSION001" + b"\xff" * 8 + b"\0\2\0\0\0\0",
    "a session that is not ASCII": b"\xff" * 10 + HEAD[10:] + b"\0\0",
}


@pytest.mark.parametrize("data", bad.values(), ids=bad.keys())
def test_a_bad_packet_is_refused(data: bytes) -> None:
    with pytest.raises(BadPacket):
        decode_packet(data)


@pytest.mark.parametrize("data", [HEAD, HEAD + b"\0\1\0", HEAD + b"\0\0", HEAD + b"\xff\xff"])
def test_a_bad_request_is_refused(data: bytes) -> None:
    with pytest.raises(BadPacket):
        decode_request(data)


@given(st.binary(max_size=200))
def test_any_bytes_are_a_packet_or_refused(data: bytes) -> None:
    try:
        packet = decode_packet(data)
    except BadPacket:
        return
    assert len(encode_packet(packet)) == len(data)


@given(st.integers(1, 2**64 - 1), st.integers(1, 0xFFFE))
def test_a_request_is_read_as_it_was_written(sequence: int, count: int) -> None:
    request = Request("S1", sequence, count)

    assert decode_request(encode_request(request)) == request


@pytest.mark.parametrize("name", ["", "ELEVENCHARS", "a b", "é", "a-b"])
def test_a_session_that_does_not_fit_is_refused(name: str) -> None:
    with pytest.raises(InvalidSetting, match="1 to 10 letters or digits"):
        check_session(name)


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ([], (0, False)),
        ([30], (1, False)),
        ([30, 50], (2, True)),
        ([30, 51], (1, True)),
        ([200], (1, True)),
    ],
)
def test_packets_are_filled_up_to_their_limit(sizes: list[int], expected: tuple[int, bool]) -> None:
    assert fitting(sizes, max_bytes=100) == expected
