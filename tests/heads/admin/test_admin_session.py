"""One HTTP connection without a socket: any bytes, cut anywhere."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from mainstem.heads.admin.session import MAX_HEAD_BYTES, HttpAnswer, HttpRequest, HttpSession
from mainstem.heads.conversation import ProtocolError

Outcome = str | bytes | None
"""The path that was asked for, what the peer is told last, or nothing yet."""

HEADS = (
    b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"HEAD /metrics?x=1 HTTP/1.1\r\nHost: [::1]:9644\r\nAccept: */*\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\nabc",
    b"POST /a/b HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    b'X-Requested-By: a test\r\nContent-Length: 7\r\n\r\n{"a":1}',
    b"GET / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost : localhost\r\n\r\n",
)


def outcome(pieces: list[bytes]) -> Outcome:
    session = HttpSession()
    for piece in pieces:
        try:
            request = session.receive(piece)
        except ProtocolError as refusal:
            return refusal.farewell
        if request is not None:
            return f"{request.method} {request.target} {request.body!r}"
    return None


@given(st.sampled_from(HEADS), st.lists(st.integers(1, 100)))
def test_cutting_a_request_anywhere_changes_nothing(head: bytes, cuts: list[int]) -> None:
    borders = sorted({0, len(head), *(cut for cut in cuts if cut < len(head))})

    found = outcome([head[a:b] for a, b in pairwise(borders)])

    assert found == outcome([head])
    assert found is not None


@given(st.lists(st.binary(min_size=1, max_size=200) | st.sampled_from(HEADS)))
def test_any_bytes_are_a_request_or_refused_in_words_of_http(pieces: list[bytes]) -> None:
    found = outcome(pieces)

    assert found is None or isinstance(found, str) or found.startswith(b"HTTP/1.1 4")


@given(st.sampled_from(HEADS), st.integers(0, 100), st.binary(max_size=8))
def test_a_request_with_a_few_bytes_changed_is_still_one_or_refused(
    head: bytes, at: int, put: bytes
) -> None:
    found = outcome([head[:at] + put + head[at + len(put) :]])

    assert (
        found is None or isinstance(found, str) or found.startswith((b"HTTP/1.1 4", b"HTTP/1.1 5"))
    )


def test_a_head_that_never_ends_is_refused_soon() -> None:
    line = b"X-More: and more\r\n"

    found = outcome([HEADS[0][:-2], *[line] * (MAX_HEAD_BYTES // len(line) + 1)])

    assert isinstance(found, bytes)
    assert found.startswith(b"HTTP/1.1 431 ")


def test_an_answer_ends_the_conversation() -> None:
    session = HttpSession()
    assert session.receive(HEADS[0]) == HttpRequest("GET", "/livez")

    sent = session.send(HttpAnswer(200, b"ok\n"))

    head, _, body = sent.partition(b"\r\n\r\n")
    assert body == b"ok\n"
    assert b"\r\nConnection: close" in head
