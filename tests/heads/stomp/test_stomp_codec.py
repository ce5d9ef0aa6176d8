"""STOMP frames: encoding and decoding, cut anywhere, and refusal of malformed ones."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.heads.stomp.frames import cut_at, frames_in

from mainstem.heads.conversation import ProtocolError
from mainstem.heads.stomp.codec import (
    Frame,
    FrameScanner,
    Version,
    decode,
    encode,
)
from mainstem.heads.stomp.settings import StompSettings

LIMITS = StompSettings(max_frame_bytes=4096, max_headers=20, max_header_bytes=1024)
TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20)
PLAIN = st.text(st.characters(min_codepoint=33, max_codepoint=126, exclude_characters=":\\"))
HEADERS = st.dictionaries(TEXT.filter(lambda it: it != "content-length"), TEXT, max_size=8)
BODY = st.binary(max_size=200)


def read(data: bytes, version: Version | None = Version.V1_2) -> Frame | None:
    """Decode one frame that is whole."""
    view = memoryview(data)
    assert FrameScanner(LIMITS).size(view) == len(data)
    return decode(view, LIMITS, version)


@given(headers=HEADERS, body=BODY)
def test_what_is_encoded_decodes_to_the_same(headers: dict[str, str], body: bytes) -> None:
    found = read(encode("MESSAGE", headers.items(), body, Version.V1_2))

    assert found is not None
    assert (found.command, found.body) == ("MESSAGE", body)
    assert {k: v for k, v in found.headers.items() if k != "content-length"} == headers


@given(headers=HEADERS, body=BODY)
def test_1_1_says_all_but_a_line_that_ends_with_cr(headers: dict[str, str], body: bytes) -> None:
    said = {k: v.rstrip("\r") for k, v in headers.items()}

    found = read(encode("MESSAGE", said.items(), body, Version.V1_1), Version.V1_1)

    assert found is not None
    assert {k: v for k, v in found.headers.items() if k != "content-length"} == said


@given(headers=st.dictionaries(PLAIN.filter(bool), PLAIN, max_size=8), body=BODY)
def test_1_0_has_no_escapes_and_says_what_needs_none(headers: dict[str, str], body: bytes) -> None:
    headers.pop("content-length", None)

    found = read(encode("MESSAGE", headers.items(), body, Version.V1_0), Version.V1_0)

    assert found is not None
    assert {k: v for k, v in found.headers.items() if k != "content-length"} == headers


@given(headers=HEADERS, version=st.sampled_from(Version))
def test_no_header_ends_its_line_or_its_frame(headers: dict[str, str], version: Version) -> None:
    said = encode("ERROR", [*headers.items(), ("zero", "a\0b"), ("end", "x\ny\r\nz")], b"", version)

    assert said.count(b"\0") == 1
    assert said.count(b"\n") == len(headers) + 2 + 2


@given(
    frames=st.lists(st.tuples(HEADERS, BODY), min_size=1, max_size=4),
    cuts=st.lists(st.integers(0, 2000), max_size=12),
    noise=st.sampled_from([b"", b"\n", b"\r\n\n", b"\n\0\n"]),
)
def test_where_the_stream_is_cut_changes_nothing(
    frames: list[tuple[dict[str, str], bytes]], cuts: list[int], noise: bytes
) -> None:
    stream = b"".join(
        encode("SEND", headers.items(), body, Version.V1_2) + noise for headers, body in frames
    )

    whole = frames_in(FrameScanner(LIMITS), [stream])
    pieces = frames_in(FrameScanner(LIMITS), cut_at(stream, cuts))
    bytewise = frames_in(FrameScanner(LIMITS), cut_at(stream, range(len(stream))))

    assert whole.frames == pieces.frames == bytewise.frames
    assert len(whole.frames) == len(frames)


@given(data=st.binary(max_size=300))
@example(b"SEND\ndestination:/queue/a\ncontent-length:3\n\nab\0")
@example(b"A\n\n\0\0")
def test_random_bytes_are_frames_or_an_error(data: bytes) -> None:
    scanner, view = FrameScanner(LIMITS), memoryview(data)
    try:
        while view and (size := scanner.size(view)) is not None and size <= len(view):
            decode(view[:size], LIMITS, Version.V1_2)
            scanner.forget()
            view = view[size:]
    except ProtocolError:
        return


@pytest.mark.parametrize(
    ("data", "headers", "body"),
    [
        (b"SEND\ndestination:/queue/a\n\nhello\0", {"destination": "/queue/a"}, b"hello"),
        (b"SEND\r\na:1\r\n\r\nhello\0", {"a": "1"}, b"hello"),
        (b"SEND\na:1\na:2\n\n\0", {"a": "1"}, b""),
        (b"SEND\na:b:c\n\n\0", {"a": "b:c"}, b""),
        (b"SEND\na: 1 \n\n\0", {"a": " 1 "}, b""),
        (b"SEND\na\\c:\\r\\n\\\\\\c\n\n\0", {"a:": "\r\n\\:"}, b""),
        (b"SEND\ncontent-length:5\n\na\0b\0c\0", {"content-length": "5"}, b"a\0b\0c"),
        (b"SEND\ncontent-length:0\n\n\0", {"content-length": "0"}, b""),
        (b"SEND\n\n\n\n\0", {}, b"\n\n"),
        ("SEND\nhêad:välue\n\n\0".encode(), {"hêad": "välue"}, b""),
    ],
)
def test_a_frame_means_what_the_specification_says(
    data: bytes, headers: dict[str, str], body: bytes
) -> None:
    assert read(data) == Frame("SEND", headers, body)


def test_1_0_trims_headers_and_knows_no_escapes() -> None:
    assert read(b"SEND\nid: X\\n\n\n\0", Version.V1_0) == Frame("SEND", {"id": "X\\n"})
    assert read(b"CONNECT\nlogin: a\\b\n\n\0", None) == Frame("CONNECT", {"login": "a\\b"})


@pytest.mark.parametrize("data", [b"\n", b"\r\n", b"\0\n", b"\n\n\n"])
def test_line_ends_between_frames_are_heart_beats(data: bytes) -> None:
    assert read(data) is None


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"\x16\x03\x01\x02\x00",
        b"\x00\x00\x00\x10\x00\x12\x00\x03",
        b"send\n\n\0",
        b"A" * 100,
        b"SEND\ncontent-length:-1\n\n\0",
        b"SEND\ncontent-length:x\n\n\0",
        b"SEND\ncontent-length:99999999999999999999\n\n\0",
        b"SEND\ncontent-length:5000\n\n",
        b"SEND\na:1\0",
        b"SEND\n" + b"a:1\n" * 400,
        b"SEND\nname:" + b"x" * 2000,
        b"SEND\n\n" + b"x" * 5000,
    ],
)
def test_what_is_no_frame_or_over_a_limit_is_refused_before_it_is_whole(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        frames_in(FrameScanner(LIMITS), cut_at(data, range(len(data))))


@pytest.mark.parametrize(
    "data",
    [
        b"SEND\nno colon\n\n\0",
        b"SEND\na:\\t\n\n\0",
        b"SEND\na:\\\n\n\0",
        b"SEND\na:\xff\n\n\0",
        b"SEND\ncontent-length:1\n\nab",
        b"SEND\n" + b"".join(b"a%d:1\n" % n for n in range(21)) + b"\n\0",
    ],
)
def test_a_whole_frame_that_breaks_a_rule_is_refused(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        read(data)


def test_a_long_frame_that_comes_byte_by_byte_is_looked_at_once() -> None:
    limits = StompSettings(max_frame_bytes=1 << 20)
    data = b"SEND\ndestination:/queue/a\n\n" + b"x" * 60_000 + b"\0"
    scanner, view = FrameScanner(limits), memoryview(data)
    looked = 0
    for end in range(1, len(data)):
        assert scanner.size(view[:end]) is None
        looked += end - scanner.looked
    assert scanner.size(view) == len(data)
    assert looked == 0
