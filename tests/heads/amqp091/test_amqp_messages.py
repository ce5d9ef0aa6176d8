"""Published messages: frames assembled one by one or many at once, and refusals."""

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.heads.amqp091.talking import (
    HANDSHAKE,
    Seen,
    Talk,
    content_header,
    publish_frames,
    said,
)
from tests.heads.stomp.frames import cut_at

from mainstem.heads.amqp091 import methods
from mainstem.heads.amqp091.codec import (
    BODY,
    HEADER,
    HEARTBEAT_FRAME,
    METHOD,
    frame,
    method_frame,
    route_of,
)
from mainstem.heads.amqp091.errors import AmqpError, ReplyCode
from mainstem.heads.amqp091.messages import Publish, Target
from mainstem.heads.amqp091.properties import NO_PROPERTIES, Properties, encode_properties
from mainstem.heads.amqp091.session import RUN_BYTES, Phase
from mainstem.heads.amqp091.settings import AmqpSettings

PERSISTENT = encode_properties(Properties(delivery_mode=2, headers={"n": 1}))
BASIC_PUBLISH = method_frame(1, methods.BasicPublish(routing_key="q"))
runs_or_not = pytest.mark.parametrize("runs", [True, False])


def published(body: bytes, properties: bytes = NO_PROPERTIES, routing_key: str = "q") -> Publish:
    target = Target("", routing_key, False, route_of("", routing_key))
    return Publish(target, properties, body)


def refused(seen: Sequence[Seen]) -> methods.ConnectionClose | methods.ChannelClose:
    """Return the close that is the only thing, or the last one, that came of it."""
    data = seen[-1]
    assert isinstance(data, bytes)
    _, method = said(data)
    assert isinstance(method, methods.ConnectionClose | methods.ChannelClose)
    return method


# Put together


@runs_or_not
@pytest.mark.parametrize("size", [0, 1, 100, 4096, 4097, 100_000])
def test_a_message_is_one_request(runs: bool, size: int) -> None:
    talk = Talk(runs=runs).opened(1)
    body = bytes(range(256)) * (size // 256 + 1)
    frames = publish_frames(1, "q", body[:size], PERSISTENT)

    assert talk.feed([b"".join(frames)]) == [(1, published(body[:size], PERSISTENT))]


@runs_or_not
def test_empty_parts_of_a_body_are_nothing(runs: bool) -> None:
    talk = Talk(runs=runs).opened(1)
    method, head, body = publish_frames(1, "q", b"abc")
    nothing = frame(BODY, 1, b"")

    assert talk.feed([method + head + nothing * 3 + body]) == [(1, published(b"abc"))]


@runs_or_not
def test_messages_come_on_many_channels_at_a_time(runs: bool) -> None:
    talk = Talk(runs=runs).opened(1, 2)
    one = publish_frames(1, "one", b"aabbcc", part_bytes=2)
    two = publish_frames(2, "two", b"xxyyzz", part_bytes=2)

    mixed = b"".join(each for pair in zip(one, two, strict=True) for each in pair)

    assert talk.feed([mixed]) == [
        (1, published(b"aabbcc", routing_key="one")),
        (2, published(b"xxyyzz", routing_key="two")),
    ]


def test_where_a_message_goes_is_read_and_kept_as_it_came() -> None:
    publish = methods.BasicPublish(7, "logs", "a.b", True, False)
    data = method_frame(3, publish) + frame(HEADER, 3, content_header(0))

    seen = Talk().opened(3).feed([data])

    target = Target("logs", "a.b", True, b"\4logs\3a.b")
    assert seen == [(3, Publish(target, NO_PROPERTIES, b""))]


def test_messages_to_the_same_place_share_where_they_go() -> None:
    data = b"".join(publish_frames(1, "q", b"a") + publish_frames(1, "q", b"b"))

    ((_, first), (_, second)), _ = Talk().opened(1).session.receive_run(memoryview(data))

    assert isinstance(first, Publish)
    assert isinstance(second, Publish)
    assert first.target is second.target


# Many at once


def test_a_run_is_taken_at_once() -> None:
    session = Talk().opened(1, 2).session
    settled = (
        methods.BasicAck(1),
        methods.BasicAck(2**64 - 1, True),
        methods.BasicNack(2, True, False),
        methods.BasicNack(3, False, True),
        methods.BasicReject(4, True),
        methods.BasicReject(5, False),
    )
    data = b"".join(
        (
            *publish_frames(1, "q", b"body"),
            *publish_frames(2, "r", b"", PERSISTENT),
            *(method_frame(2, each) for each in settled),
            *publish_frames(1, "q", b"again"),
        )
    )

    found, size = session.receive_run(memoryview(data + b"\1\0"))

    assert size == len(data)
    assert found == [
        (1, published(b"body")),
        (2, published(b"", PERSISTENT, "r")),
        *((2, each) for each in settled),
        (1, published(b"again")),
    ]


@pytest.mark.parametrize(
    "ahead",
    [
        HEARTBEAT_FRAME,
        method_frame(1, methods.BasicGet(queue="q")),
        method_frame(1, methods.BasicCancel("c")),
        method_frame(9, methods.BasicAck(1)),
        method_frame(0, methods.BasicAck(1)),
        method_frame(1, methods.BasicAck(1))[:-1] + b"\0",
        frame(METHOD, 1, b"\0\x3c\0\x50" + bytes(10)),
        method_frame(1, methods.BasicPublish(immediate=True)) + frame(HEADER, 1, content_header(0)),
        BASIC_PUBLISH + frame(HEADER, 1, content_header(3)) + frame(BODY, 1, b"ab"),
        BASIC_PUBLISH + frame(HEADER, 1, content_header(1)) + frame(BODY, 1, b"ab"),
        BASIC_PUBLISH + frame(HEADER, 1, content_header(1)) + frame(BODY, 2, b"a"),
        BASIC_PUBLISH + frame(HEADER, 1, content_header(1)) + frame(BODY, 1, b"a")[:-1] + b"\0",
        BASIC_PUBLISH + frame(HEADER, 1, content_header(1)) + frame(METHOD, 1, b"a"),
        BASIC_PUBLISH + frame(HEADER, 2, content_header(0)),
        BASIC_PUBLISH + frame(HEADER, 1, content_header(0, class_id=10)),
        BASIC_PUBLISH + frame(HEADER, 1, content_header(0, weight=1)),
        BASIC_PUBLISH + frame(HEADER, 1, content_header(0, b"")) + bytes(20),
        BASIC_PUBLISH + frame(HEADER, 1, content_header(0))[:-1] + b"\0",
        BASIC_PUBLISH + frame(HEADER, 1, content_header(2**63)),
        BASIC_PUBLISH + BASIC_PUBLISH,
        BASIC_PUBLISH[:-1] + b"\0" + frame(HEADER, 1, content_header(0)),
        frame(METHOD, 1, b"\0\x3c\0\x28\0\0\xffq\0") + frame(HEADER, 1, content_header(0)),
        frame(METHOD, 1, b"\0\x3c\0\x28") + frame(HEADER, 1, content_header(0)),
        b"\1\0\1\0\0\0\0",
        b"",
    ],
)
def test_a_run_stops_before_what_is_no_message_or_not_right(ahead: bytes) -> None:
    session = Talk().opened(1, 2).session
    good = b"".join(publish_frames(1, "q", b"body"))

    assert session.receive_run(memoryview(ahead + bytes(64))) == ([], 0)
    found, size = session.receive_run(memoryview(good + ahead + good))
    assert (found[0], size) == ((1, published(b"body")), len(good) * (1 if ahead else 2))
    assert session.phase is Phase.RUNNING


@pytest.mark.parametrize("size", [RUN_BYTES - 60, RUN_BYTES, 2 * RUN_BYTES])
def test_a_run_is_only_so_long(size: int) -> None:
    session = Talk().opened(1).session
    small = b"".join(publish_frames(1, "q", b"body"))
    large = b"".join(publish_frames(1, "q", bytes(size), part_bytes=131_064))

    found, taken = session.receive_run(memoryview(small + large))

    assert (len(found), taken) == (1, len(small))


def test_a_run_has_no_frame_that_is_larger_than_was_agreed() -> None:
    session = Talk().opened(1).session
    session.frame_max = 4096
    data = b"".join(publish_frames(1, "q", bytes(5000), part_bytes=5000))

    assert session.receive_run(memoryview(data)) == ([], 0)


@runs_or_not
def test_there_are_no_runs_before_the_connection_is_open_and_after_it_is_closed(
    runs: bool,
) -> None:
    data = memoryview(b"".join(publish_frames(1, "q", b"body")))
    talk = Talk(runs=runs)
    assert talk.session.receive_run(data) == ([], 0)

    talk.opened(1).session.refused(AmqpError(ReplyCode.INTERNAL_ERROR, "x"), 0, 0)

    assert talk.session.receive_run(data) == ([], 0)


def test_there_is_no_run_on_a_channel_that_is_closing_or_in_the_midst_of_a_message() -> None:
    talk = Talk().opened(1, 2)
    talk.session.refused(AmqpError(ReplyCode.NOT_FOUND, "x"), 1, 0)
    talk.feed([publish_frames(2, "q", b"body")[0]])

    for channel in (1, 2):
        data = b"".join(publish_frames(channel, "q", b"body"))
        assert talk.session.receive_run(memoryview(data)) == ([], 0)


# Refused


@runs_or_not
@pytest.mark.parametrize(
    ("frames", "why"),
    [
        (
            [frame(HEADER, 1, content_header(0))],
            "UNEXPECTED_FRAME - expected method frame, got non method frame instead",
        ),
        (
            [frame(BODY, 1, b"body")],
            "UNEXPECTED_FRAME - expected method frame, got non method frame instead",
        ),
        (
            [frame(BODY, 9, b"body")],
            "UNEXPECTED_FRAME - expected method frame, got non method frame instead",
        ),
        (
            [BASIC_PUBLISH, frame(BODY, 1, b"body")],
            "UNEXPECTED_FRAME - expected content header for class 60, "
            "got non content header frame instead",
        ),
        (
            [BASIC_PUBLISH, BASIC_PUBLISH],
            "UNEXPECTED_FRAME - expected content header for class 60, "
            "got non content header frame instead",
        ),
        (
            [BASIC_PUBLISH, frame(HEADER, 1, content_header(0, class_id=10))],
            "UNEXPECTED_FRAME - expected content header for class 60, got one for class 10 instead",
        ),
        (
            [BASIC_PUBLISH, frame(HEADER, 1, content_header(0, weight=1))],
            "UNEXPECTED_FRAME - expected a content header of weight 0, not 1",
        ),
        (
            [BASIC_PUBLISH, frame(HEADER, 1, content_header(0, b""))],
            "SYNTAX_ERROR - a content header is too short",
        ),
        (
            [BASIC_PUBLISH, frame(HEADER, 1, b"")],
            "SYNTAX_ERROR - a content header is too short",
        ),
        (
            [BASIC_PUBLISH, frame(HEADER, 1, content_header(3)), frame(BODY, 1, b"body")],
            "FRAME_ERROR - content body frame exceeds remaining content size",
        ),
        (
            [
                BASIC_PUBLISH,
                frame(HEADER, 1, content_header(6)),
                frame(BODY, 1, b"body"),
                frame(BODY, 1, b"body"),
            ],
            "FRAME_ERROR - content body frame exceeds remaining content size",
        ),
        (
            [BASIC_PUBLISH, frame(HEADER, 1, content_header(3)), BASIC_PUBLISH],
            "UNEXPECTED_FRAME - expected content body, got non content body frame instead",
        ),
        (
            [
                BASIC_PUBLISH,
                frame(HEADER, 1, content_header(3)),
                frame(HEADER, 1, content_header(3)),
            ],
            "UNEXPECTED_FRAME - expected content body, got non content body frame instead",
        ),
        (
            [method_frame(1, methods.BasicPublish(immediate=True))],
            "NOT_IMPLEMENTED - immediate=true",
        ),
        ([frame(METHOD, 1, b"\0\x3c\0\x28")], "SYNTAX_ERROR - a short string begins past the end"),
        (
            [frame(METHOD, 1, b"\0\x3c\0\x28\0\0\xffq\0")],
            "SYNTAX_ERROR - a short string goes past the end",
        ),
        (
            [frame(METHOD, 1, b"\0\x3c\0\x28\0\0\1\xff\0\0")],
            "SYNTAX_ERROR - malformed UTF-8 in a short string",
        ),
        (
            [frame(METHOD, 1, b"\0\x3c\0\x28\0\0\0\0\0\0")],
            "SYNTAX_ERROR - 1 bytes too many in a method frame",
        ),
    ],
)
def test_content_out_of_order_closes_the_connection(
    runs: bool, frames: list[bytes], why: str
) -> None:
    talk = Talk(runs=runs).opened(1)

    seen = talk.feed([b"".join(frames)])

    assert len(seen) == 1
    assert refused(seen).reply_text == why
    assert talk.session.phase is Phase.CLOSING


LITTLE = AmqpSettings(max_message_bytes=1024, max_unfinished_bytes=3000)


@runs_or_not
def test_a_message_that_is_too_large_closes_its_channel_before_it_comes(runs: bool) -> None:
    talk = Talk(LITTLE, runs=runs).opened(1, 2)

    seen = talk.feed([b"".join(publish_frames(1, "q", bytes(1025)))])
    after = talk.feed([b"".join(publish_frames(2, "q", bytes(1024)))])

    assert refused(seen) == methods.ChannelClose(
        406,
        "PRECONDITION_FAILED - message size 1025 is larger than configured max size 1024",
        60,
        40,
    )
    assert after == [(2, published(bytes(1024)))]


@runs_or_not
@pytest.mark.parametrize("size", [2**31, 2**63, 2**64 - 1])
def test_nothing_is_set_aside_for_what_is_only_announced(runs: bool, size: int) -> None:
    talk = Talk(runs=runs).opened(1)

    seen = talk.feed([BASIC_PUBLISH + frame(HEADER, 1, content_header(size)) + bytes(0)])

    assert refused(seen).reply_code == 406


@runs_or_not
def test_what_has_come_of_all_messages_is_limited(runs: bool) -> None:
    talk = Talk(LITTLE, runs=runs).opened(1, 2, 3, 4)
    begun = [publish_frames(each, "q", bytes(1024), part_bytes=1000) for each in range(1, 5)]

    for frames in begun[:2]:
        assert talk.feed(frames[:-1]) == []
    assert talk.feed([begun[0][-1]]) == [(1, published(bytes(1024)))]
    assert talk.feed(begun[2][:-1]) == []
    seen = talk.feed(begun[3][:-1])

    assert refused(seen).reply_text == (
        "RESOURCE_ERROR - unfinished messages of more than 3000 bytes (amqp.max_unfinished_bytes)"
    )


@runs_or_not
def test_properties_of_messages_that_do_not_come_are_limited_too(runs: bool) -> None:
    talk = Talk(LITTLE, runs=runs).opened(*range(1, 5))
    long = encode_properties(Properties(headers={"k": "x" * 1000}))

    seen = [talk.feed(publish_frames(each, "q", b"body", long)[:2]) for each in range(1, 5)]

    assert seen[:2] == [[], []]
    assert refused(seen[2]).reply_code == ReplyCode.RESOURCE_ERROR


@runs_or_not
@pytest.mark.parametrize("ends", [methods.ChannelClose(), None])
def test_a_channel_that_ends_gives_up_what_has_come(
    runs: bool, ends: methods.ChannelClose | None
) -> None:
    talk = Talk(LITTLE, runs=runs).opened(1)
    for _ in range(10):
        assert talk.feed(publish_frames(1, "q", bytes(1024), part_bytes=1000)[:-1]) == []
        talk.session.refused(AmqpError(ReplyCode.NOT_FOUND, "no exchange"), 1, 0)
        talk.say(1, methods.BasicAck(1), *([ends] if ends else []))
        assert len(talk.say(1, methods.Bare.CHANNEL_CLOSE_OK, methods.ChannelOpen())) == 1


# Wherever the stream is cut

STREAM = b"".join(
    (
        HANDSHAKE,
        method_frame(1, methods.ChannelOpen()),
        method_frame(2, methods.ChannelOpen()),
        *publish_frames(1, "q", b"body", PERSISTENT),
        *publish_frames(2, "r", b"a longer body", part_bytes=5),
        *publish_frames(1, "q", b""),
        method_frame(1, methods.BasicAck(3, True)),
        HEARTBEAT_FRAME,
        method_frame(1, methods.BasicNack(4)),
        method_frame(2, methods.QueueDeclare(queue="q", arguments={"x-max-length": 10})),
        method_frame(2, methods.BasicReject(5)),
        *publish_frames(1, "q", b"last", PERSISTENT),
        method_frame(0, methods.ConnectionClose(200, "bye")),
    )
)


def outcome(pieces: Sequence[bytes], *, runs: bool = True) -> list[Seen]:
    """Return all that comes of a stream."""
    talk = Talk(AmqpSettings(max_message_bytes=2048, max_unfinished_bytes=4096), runs=runs)
    return talk.feed(pieces)


@runs_or_not
def test_a_stream_may_be_cut_at_every_byte(runs: bool) -> None:
    whole = outcome([STREAM], runs=runs)

    assert len(whole) == 14
    for at in range(1, len(STREAM)):
        assert outcome([STREAM[:at], STREAM[at:]], runs=runs) == whole, at
    assert outcome([bytes([each]) for each in STREAM], runs=runs) == whole


@given(st.lists(st.integers(1, len(STREAM) - 1), max_size=12))
def test_a_stream_may_be_cut_anywhere(places: list[int]) -> None:
    assert outcome(list(cut_at(STREAM, places))) == outcome([STREAM])


CHANGES = st.lists(
    st.tuples(
        st.integers(8, len(STREAM)),
        st.binary(max_size=6) | st.sampled_from([b"\xce", b"\0\x3c\0\x28", b"\0\0\0\1"]),
        st.integers(0, 12),
    ),
    max_size=4,
)


@settings(max_examples=300)
@given(changes=CHANGES)
def test_a_run_is_what_its_frames_are_one_by_one(changes: list[tuple[int, bytes, int]]) -> None:
    data = STREAM
    for at, instead, length in changes:
        data = data[:at] + instead + data[at + (length if length < 6 else len(instead)) :]

    assert outcome([data]) == outcome([data], runs=False)


@given(data=st.binary(max_size=200))
def test_random_bytes_are_refused_or_nothing(data: bytes) -> None:
    outcome([data])
    outcome([HANDSHAKE + data])
    outcome([HANDSHAKE + method_frame(1, methods.ChannelOpen()) + data])
