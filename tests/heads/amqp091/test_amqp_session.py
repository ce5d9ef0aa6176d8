"""An AMQP session without a socket: the handshake, limits and time."""

import pytest
from tests.heads.amqp091.sessions import (
    HARD,
    NOW_MS,
    PHASES,
    closed,
    in_phase,
    refusal,
    tuned,
)
from tests.heads.amqp091.talking import HANDSHAKE, START_OK, TUNE_OK, Talk, said

from mainstem.heads.amqp091 import fields, methods
from mainstem.heads.amqp091.codec import (
    HEARTBEAT_FRAME,
    PROTOCOL_HEADER,
    method_frame,
)
from mainstem.heads.amqp091.errors import AmqpError, ReplyCode
from mainstem.heads.amqp091.methods import Bare, Method
from mainstem.heads.amqp091.session import (
    Login,
    Phase,
    ProtocolHeader,
    Session,
)
from mainstem.heads.amqp091.settings import AmqpSettings
from mainstem.heads.conversation import ProtocolError

# The protocol header


def test_our_protocol_header_is_answered_by_start() -> None:
    session = Session(AmqpSettings(), NOW_MS)

    assert session.receive(memoryview(PROTOCOL_HEADER)) == (0, ProtocolHeader())
    channel, start = said(session.start({"product": "mainstem"}))

    assert channel == 0
    assert start == methods.ConnectionStart(
        0, 9, {"product": "mainstem"}, b"PLAIN AMQPLAIN ANONYMOUS", b"en_US"
    )


def test_the_header_of_0_9_is_taken_for_ours() -> None:
    assert Talk().feed([b"AMQP\x01\x01\x00\x09"]) == [(0, ProtocolHeader())]


@pytest.mark.parametrize(
    ("came", "why"),
    [
        (b"AMQP\x00\x01\x00\x00", "did not start with the header"),
        (b"AMQP\x03\x01\x00\x00", "did not start with the header"),
        (b"AMQP\x00\x00\x08\x00", "did not start with the header"),
        (b"AMQP\x00\x00\x09\x02", "did not start with the header"),
        (b"AMQQ", "did not start with the header"),
        (b"GET / HTTP/1.1\r\n\r\n", "an HTTP GET request"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc", "a TLS client"),
        (b"CONNECT\n\n\0", "did not start with the header"),
        (bytes(8), "did not start with the header"),
        (b"\xff", "did not start with the header"),
    ],
)
def test_another_protocol_is_told_what_is_spoken_here(came: bytes, why: str) -> None:
    farewell, reason = Talk().feed([came])

    assert farewell == PROTOCOL_HEADER
    assert isinstance(reason, str)
    assert why in reason


@pytest.mark.parametrize("size", range(1, 8))
def test_a_protocol_header_that_has_just_begun_is_waited_for(size: int) -> None:
    talk = Talk()

    assert talk.feed([PROTOCOL_HEADER[:size]]) == []
    assert talk.feed([PROTOCOL_HEADER[size:]]) == [(0, ProtocolHeader())]


# The handshake


def test_a_client_logs_in_agrees_on_limits_and_opens_a_virtual_host() -> None:
    session = in_phase(Phase.STARTING)

    assert session.receive(memoryview(method_frame(0, START_OK))) == (
        0,
        Login("PLAIN", "guest", b"secret", START_OK.client_properties),
    )
    assert said(session.tune()) == (0, methods.ConnectionTune(2047, 131_072, 60))
    assert session.receive(memoryview(method_frame(0, TUNE_OK))) is None
    opening = methods.ConnectionOpen("/shop")
    assert session.receive(memoryview(method_frame(0, opening))) == (0, opening)
    assert said(session.open_ok()) == (0, methods.ConnectionOpenOk())
    assert session.phase is Phase.RUNNING


def start_ok(mechanism: str, response: bytes) -> bytes:
    return method_frame(0, methods.ConnectionStartOk({}, mechanism, response, "en_US"))


@pytest.mark.parametrize(
    ("mechanism", "response", "login"),
    [
        ("PLAIN", b"\0\0", ("", b"")),
        ("PLAIN", b"\0guest\0", ("guest", b"")),
        ("PLAIN", "\0ü\0ß".encode(), ("ü", "ß".encode())),
        ("PLAIN", b"\0guest\0\xff", ("guest", b"\xff")),
        ("AMQPLAIN", fields.table({"LOGIN": "me", "PASSWORD": "p"})[4:], ("me", b"p")),
        ("ANONYMOUS", b"", ("", b"")),
        ("ANONYMOUS", b"somebody", ("", b"")),
        ("AMQPLAIN", fields.table({"PASSWORD": b"\xff", "LOGIN": "me"})[4:], ("me", b"\xff")),
    ],
)
def test_user_and_password(mechanism: str, response: bytes, login: tuple[str, bytes]) -> None:
    received = in_phase(Phase.STARTING).receive(memoryview(start_ok(mechanism, response)))

    assert received == (0, Login(mechanism, *login, {}))


@pytest.mark.parametrize(
    ("mechanism", "response"),
    [
        ("PLAIN", b""),
        ("PLAIN", b"guest secret"),
        ("PLAIN", b"admin\0guest\0secret"),
        ("PLAIN", b"\0guest"),
        ("PLAIN", b"\0guest\0secret\0"),
        ("PLAIN", b"\0\xff\0secret"),
        ("AMQPLAIN", b""),
        ("AMQPLAIN", b"\5LOGIN"),
        ("AMQPLAIN", fields.table({"LOGIN": "secret"})[4:]),
        ("AMQPLAIN", fields.table({"LOGIN": "secret", "PASSWORD": 7})[4:]),
        ("AMQPLAIN", fields.table({"LOGIN": b"\xff", "PASSWORD": "secret"})[4:]),
    ],
)
def test_a_malformed_response_is_refused_and_not_shown(mechanism: str, response: bytes) -> None:
    close = refusal(in_phase(Phase.STARTING), start_ok(mechanism, response))

    assert close.reply_code == ReplyCode.SYNTAX_ERROR
    assert "secret" not in close.reply_text


@pytest.mark.parametrize("mechanism", ["", "EXTERNAL", "plain", "SCRAM-SHA-256"])
def test_an_unknown_mechanism_is_refused(mechanism: str) -> None:
    close = refusal(in_phase(Phase.STARTING), start_ok(mechanism, b"\0guest\0secret"))

    assert close.reply_code == ReplyCode.COMMAND_INVALID
    assert close.reply_text.endswith(f"unknown authentication mechanism '{mechanism}'")


def test_a_client_that_expects_it_is_told_that_its_login_is_refused() -> None:
    session = in_phase(Phase.SECURING)

    _, close = said(session.login_refused())

    assert close == methods.ConnectionClose(
        403,
        "ACCESS_REFUSED - Login was refused using authentication mechanism PLAIN. "
        "For details see the broker logfile.",
    )
    assert session.receive(memoryview(method_frame(0, START_OK))) is None


@pytest.mark.parametrize("said_of", [{}, {"capabilities": {"connection.blocked": True}}])
@pytest.mark.parametrize("value", [False, 1, "true", None])
def test_others_are_not(said_of: dict[str, object], value: object) -> None:
    session = in_phase(Phase.STARTING)
    known = {"capabilities": {"authentication_failure_close": value}} | said_of
    start = methods.ConnectionStartOk(known, "PLAIN", b"\0guest\0secret", "")  # type: ignore[arg-type]
    session.receive(memoryview(method_frame(0, start)))

    assert session.login_refused() == b""


def test_a_virtual_host_that_is_refused_ends_the_connection() -> None:
    talk = Talk()
    talk.feed([HANDSHAKE[: -len(method_frame(0, methods.ConnectionOpen()))]])
    error = AmqpError(ReplyCode.NOT_ALLOWED, "vhost nowhere not found", 10, 40)

    close = closed([talk.session.refused(error, 0, NOW_MS)])

    assert close == methods.ConnectionClose(530, "NOT_ALLOWED - vhost nowhere not found", 10, 40)
    assert talk.say(0, methods.ConnectionOpen()) == []


CLIENT_SAYS: dict[Phase, tuple[type[Method], ...]] = {
    Phase.STARTING: (methods.ConnectionStartOk,),
    Phase.TUNING: (methods.ConnectionTuneOk,),
    Phase.OPENING: (methods.ConnectionOpen,),
    Phase.RUNNING: (methods.ConnectionUpdateSecret,),
}


@pytest.mark.parametrize(
    ("phase", "method"),
    [
        (phase, method)
        for phase in PHASES
        for method in (*(each() for each in methods.METHODS.values()), *Bare)
        if not isinstance(method, (methods.ConnectionClose, *CLIENT_SAYS.get(phase, ())))
    ],
    ids=lambda it: str(it)[:30],
)
def test_what_is_out_of_order_is_a_channel_error(phase: Phase, method: Method | Bare) -> None:
    close = refusal(in_phase(phase), method_frame(0, method))

    assert close == methods.ConnectionClose(
        504, f"CHANNEL_ERROR - unexpected method in connection state {phase}", *method.ids
    )


@pytest.mark.parametrize("phase", PHASES)
def test_a_client_may_close_at_any_time(phase: Phase) -> None:
    session = in_phase(phase)
    close = methods.ConnectionClose(200, "bye")

    assert session.receive(memoryview(method_frame(0, close))) == (0, close)
    assert session.receive(memoryview(method_frame(0, START_OK))) is None
    assert session.refused(HARD, 0, NOW_MS) == b""


@pytest.mark.parametrize("phase", PHASES[:-1])
def test_there_are_no_channels_before_the_connection_is_open(phase: Phase) -> None:
    close = refusal(in_phase(phase), method_frame(1, methods.ChannelOpen()))

    assert close.reply_text == "UNEXPECTED_FRAME - type 1, all octets = <<0,20,0,10,0>>"


# Limits


@pytest.mark.parametrize(
    ("tuned", "why"),
    [
        ((2047, 1, 0), "frame_max = 1 is lower than the minimum allowed value (4096)"),
        ((2047, 4095, 0), "frame_max = 4095 is lower than the minimum allowed value (4096)"),
        ((2047, 131_073, 0), "frame_max = 131073 is higher than the maximum allowed value"),
        ((2047, 2**32 - 1, 0), "frame_max = 4294967295 is higher than the maximum"),
        ((2048, 131_072, 0), "channel_max = 2048 is higher than the maximum allowed value (2047)"),
    ],
)
def test_limits_beyond_ours_are_not_allowed(tuned: tuple[int, int, int], why: str) -> None:
    tune_ok = method_frame(0, methods.ConnectionTuneOk(*tuned))

    close = refusal(in_phase(Phase.TUNING), tune_ok)

    assert (close.reply_code, close.class_id, close.method_id) == (530, 10, 30)
    assert why in close.reply_text


@pytest.mark.parametrize(("wanted", "agreed"), [(0, 131_072), (4096, 4096), (131_072, 131_072)])
def test_no_frame_is_larger_than_was_agreed(wanted: int, agreed: int) -> None:
    session = tuned(0, wanted)
    size = agreed.to_bytes(4, "big")
    too_large = (agreed + 1).to_bytes(4, "big")

    assert session.frame_max == agreed
    assert session.frame_size(memoryview(b"\3\0\1" + size)) == agreed + 8
    with pytest.raises(ProtocolError, match="FRAME_ERROR") as found:
        session.frame_size(memoryview(b"\3\0\1" + too_large))
    assert closed([found.value.farewell]).reply_code == 501


@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("size", [131_073, 2**31 - 1, 2**31, 2**32 - 1])
def test_a_frame_over_the_limit_is_refused_by_its_size(phase: Phase, size: int) -> None:
    session = in_phase(phase)

    with pytest.raises(ProtocolError, match="frame_too_large"):
        session.frame_size(memoryview(b"\1\0\0" + size.to_bytes(4, "big")))


@pytest.mark.parametrize("phase", [Phase.STARTING, Phase.TUNING])
def test_frames_are_small_before_limits_are_agreed_upon(phase: Phase) -> None:
    session = in_phase(phase)
    start = b"\1\0\0"

    assert session.frame_size(memoryview(start + (8184).to_bytes(4, "big"))) == 8192
    with pytest.raises(ProtocolError, match="frame_too_large"):
        session.frame_size(memoryview(start + (8193).to_bytes(4, "big")))


@pytest.mark.parametrize(("wanted", "agreed"), [(0, 2047), (1, 1), (3, 3), (2047, 2047)])
def test_no_more_channels_are_opened_than_was_agreed(wanted: int, agreed: int) -> None:
    session = tuned(wanted, 0)
    opening = methods.ChannelOpen()
    for number in range(1, agreed + 1):
        assert session.receive(memoryview(method_frame(number, opening))) == (number, opening)

    close = refusal(session, method_frame(65535, opening))

    assert close.reply_text == (
        f"NOT_ALLOWED - number of channels opened ({agreed}) has reached the negotiated "
        f"channel_max ({agreed})"
    )


def test_a_channel_that_was_closed_makes_room_for_another() -> None:
    session = tuned(1, 0)
    for number in (1, 65535, 1):
        for method in (methods.ChannelOpen(), methods.ChannelClose(200)):
            assert session.receive(memoryview(method_frame(number, method))) == (number, method)


# Time


def test_a_handshake_takes_only_so_long() -> None:
    for phase in PHASES[:-1]:
        session = in_phase(phase)
        deadline_ms = NOW_MS + AmqpSettings().handshake_ms

        assert session.deadline() == deadline_ms
        assert session.tick(deadline_ms - 1) == b""
        with pytest.raises(ProtocolError, match="not open within 10000 ms") as found:
            session.tick(deadline_ms)
        assert found.value.farewell == b""


def test_without_heartbeats_nothing_is_ever_due() -> None:
    session = tuned(0, 0, 0)

    assert session.deadline() is None
    assert session.tick(NOW_MS * 1000) == b""


def test_a_heartbeat_is_sent_after_half_the_time_without_anything_sent() -> None:
    session = tuned(0, 0, 60)

    assert session.deadline() == NOW_MS + 30_000
    assert session.tick(NOW_MS + 29_999) == b""
    assert session.tick(NOW_MS + 30_000) == HEARTBEAT_FRAME
    session.sent_ms = NOW_MS + 45_000
    assert session.deadline() == NOW_MS + 75_000
    assert session.tick(NOW_MS + 74_999) == b""
    assert session.tick(NOW_MS + 75_000) == HEARTBEAT_FRAME


def test_a_client_that_is_silent_for_twice_the_time_has_gone() -> None:
    session = tuned(0, 0, 60)
    session.sent_ms = NOW_MS + 119_000
    session.heard_ms = NOW_MS + 5_000

    assert session.deadline() == NOW_MS + 125_000
    assert session.tick(NOW_MS + 124_999) == b""
    with pytest.raises(ProtocolError, match="missed heartbeats from client, timeout: 60s") as found:
        session.tick(NOW_MS + 125_000)
    assert found.value.farewell == b""


@pytest.mark.parametrize("phase", PHASES)
def test_heartbeats_are_taken_at_any_time(phase: Phase) -> None:
    assert in_phase(phase).receive(memoryview(HEARTBEAT_FRAME)) is None


# What only some clients know


def test_blocked_is_told_to_those_who_want_to_know() -> None:
    session = in_phase(Phase.RUNNING)

    assert said(session.blocked("low on disk")) == (0, methods.ConnectionBlocked("low on disk"))
    assert said(session.unblocked()) == (0, Bare.CONNECTION_UNBLOCKED)


def test_blocked_is_not_told_to_others() -> None:
    session = in_phase(Phase.STARTING)
    session.receive(memoryview(start_ok("PLAIN", b"\0guest\0secret")))

    assert session.blocked("low on disk") == b""
    assert session.unblocked() == b""


@pytest.mark.parametrize("capabilities", [None, "all", [True], {}, {"basic.nack": 1}])
def test_capabilities_are_a_table_of_true(capabilities: fields.Value) -> None:
    session = in_phase(Phase.STARTING)
    properties: fields.Table = {"capabilities": capabilities}
    start = methods.ConnectionStartOk(properties, "PLAIN", b"\0guest\0secret", "")

    session.receive(memoryview(method_frame(0, start)))

    assert not session.has("basic.nack")


def test_a_secret_is_renewed() -> None:
    update = methods.ConnectionUpdateSecret(b"new", "expired")

    assert Talk().opened().say(0, update) == [(0, update)]
