"""What ends an AMQP session without a socket: frames that are none, and closing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.heads.amqp091.sessions import (
    HARD,
    NOW_MS,
    PHASES,
    SOFT,
    closed,
    in_phase,
    refusal,
    tuned,
)
from tests.heads.amqp091.talking import Talk

from mainstem.heads.amqp091 import methods
from mainstem.heads.amqp091.codec import (
    BODY,
    HEADER,
    HEARTBEAT,
    HEARTBEAT_FRAME,
    METHOD,
    frame,
    method_frame,
)
from mainstem.heads.amqp091.errors import AmqpError, ReplyCode
from mainstem.heads.amqp091.methods import Bare
from mainstem.heads.amqp091.session import (
    CLOSE_MS,
    Login,
    Phase,
)
from mainstem.heads.conversation import ProtocolError

# Frames that are none


@pytest.mark.parametrize("channel", [1, 65535])
def test_a_heartbeat_belongs_to_no_channel(channel: int) -> None:
    close = refusal(Talk().opened(1).session, frame(HEARTBEAT, channel, b""))

    assert close.reply_text == "UNEXPECTED_FRAME - type 8, all octets = <<>>"


@pytest.mark.parametrize("channel", [0, 1])
@pytest.mark.parametrize(
    ("kind", "payload", "shown"),
    [
        (HEARTBEAT, b"beat", "type 8, all octets = <<98,101,97,116>>"),
        (0, b"", "type 0, all octets = <<>>"),
        (4, b"", "type 4, all octets = <<>>"),
        (255, bytes(17), "type 255, first 16 octets = <<0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0>>"),
    ],
)
def test_a_frame_of_no_type_is_refused(channel: int, kind: int, payload: bytes, shown: str) -> None:
    close = refusal(Talk().opened(1).session, frame(kind, channel, payload))

    assert close.reply_text == f"FRAME_ERROR - {shown}: unknown_frame"


@pytest.mark.parametrize("kind", [HEADER, BODY])
def test_content_belongs_to_a_channel(kind: int) -> None:
    close = refusal(Talk().opened(1).session, frame(kind, 0, b"abc"))

    assert close.reply_text == f"UNEXPECTED_FRAME - type {kind}, all octets = <<97,98,99>>"


@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("end", [0x00, 0xCD, 0xFF])
def test_without_its_end_a_frame_is_the_last_one(phase: Phase, end: int) -> None:
    session = in_phase(phase)

    with pytest.raises(ProtocolError, match="invalid_frame_end_marker") as found:
        session.receive(memoryview(HEARTBEAT_FRAME[:-1] + bytes([end])))
    close = closed([found.value.farewell])

    assert close.reply_code == ReplyCode.FRAME_ERROR
    assert session.phase is Phase.CLOSED


def test_who_was_told_to_go_is_not_told_again() -> None:
    session = in_phase(Phase.RUNNING)
    session.refused(HARD, 0, NOW_MS)

    with pytest.raises(ProtocolError) as found:
        session.receive(memoryview(HEARTBEAT_FRAME[:-1] + b"\0"))

    assert found.value.farewell == b""


# Errors that close the connection


def test_what_comes_after_our_close_is_ignored_until_close_ok() -> None:
    talk = Talk().opened(1)

    close = closed([talk.session.refused(HARD, 1, NOW_MS)])

    assert close == methods.ConnectionClose(530, "NOT_ALLOWED - not here", 60, 20)
    ignored = (
        method_frame(1, methods.QueueDeclare()),
        method_frame(0, methods.ConnectionOpen()),
        method_frame(1, Bare.CONNECTION_CLOSE_OK),
        frame(METHOD, 0, b"\xff"),
        frame(77, 0, b""),
        frame(BODY, 1, b"part"),
        HEARTBEAT_FRAME,
    )
    assert talk.feed(ignored) == []
    assert talk.say(0, Bare.CONNECTION_CLOSE_OK) == [(0, Bare.CONNECTION_CLOSE_OK)]
    assert talk.session.phase is Phase.CLOSED


def test_a_connection_close_that_crosses_ours_is_answered_and_is_the_end() -> None:
    talk = Talk().opened(1)
    talk.session.refused(HARD, 1, NOW_MS)
    close = methods.ConnectionClose(200, "bye")

    assert talk.say(0, close) == [(0, close)]
    assert talk.say(0, close, Bare.CONNECTION_CLOSE_OK) == []


def test_a_client_has_some_time_for_its_close_ok() -> None:
    session = tuned(0, 0, 1)
    session.refused(HARD, 0, NOW_MS + 50)

    assert session.deadline() == NOW_MS + 50 + CLOSE_MS
    assert session.tick(NOW_MS + 49 + CLOSE_MS) == b""
    with pytest.raises(ProtocolError, match=r"no answer to Connection\.Close"):
        session.tick(NOW_MS + 50 + CLOSE_MS)


def test_who_has_closed_is_not_hurried_while_its_close_is_answered() -> None:
    session = tuned(0, 0, 1)
    session.receive(memoryview(method_frame(0, methods.ConnectionClose(200))))

    assert session.deadline() is None
    assert session.tick(NOW_MS * 1000) == b""


def test_a_channel_is_open_until_it_is_closed_or_refused() -> None:
    talk = Talk().opened(1, 2, 3)
    talk.session.refused(SOFT, 1, NOW_MS)
    talk.say(2, methods.ChannelClose())

    assert [talk.session.is_open(each) for each in (0, 1, 2, 3, 4)] == [0, 0, 0, 1, 0]
    talk.session.refused(HARD, 3, NOW_MS)
    assert not talk.session.is_open(3)


def test_a_login_does_not_show_its_password() -> None:
    assert repr(Login("PLAIN", "guest", b"secret", {})) == "Login('PLAIN', 'guest')"


@given(text=st.text(st.characters(codec="utf-8"), max_size=600))
def test_a_text_is_as_long_as_there_is_room(text: str) -> None:
    session = in_phase(Phase.RUNNING)

    close = closed([session.refused(AmqpError(ReplyCode.INTERNAL_ERROR, text), 0, NOW_MS)])

    assert f"INTERNAL_ERROR - {text}".startswith(close.reply_text)
    assert len(close.reply_text.encode()) >= min(252, len(text.encode()) + 17)
