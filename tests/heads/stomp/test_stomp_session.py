"""A STOMP session without a socket: allowed frames in each state, and responses."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstem.heads.conversation import ProtocolError
from mainstem.heads.stomp import session as stomp_session
from mainstem.heads.stomp.codec import Frame, Version, decode, encode
from mainstem.heads.stomp.settings import StompSettings

LIMITS = StompSettings(max_subscriptions=3, max_transactions=2, max_transaction_bytes=200)


def say(
    session: stomp_session.Session, command: str, body: bytes = b"", /, **headers: str
) -> stomp_session.Request | None:
    """Say a frame; headers with _ for -."""
    named = [(name.rstrip("_").replace("_", "-"), value) for name, value in headers.items()]
    data = memoryview(encode(command, named, body, session.version))
    assert session.frame_size(data) == len(data)
    return session.receive(data)


def refusal(
    session: stomp_session.Session, command: str, body: bytes = b"", /, **headers: str
) -> Frame:
    """Say a frame that is refused; returns the ERROR frame."""
    with pytest.raises(stomp_session.Refused) as found:
        say(session, command, body, **headers)
    return read(found.value.farewell, session.version)


def read(data: bytes, version: Version | None) -> Frame:
    frame = decode(memoryview(data), StompSettings(), version)
    assert frame is not None
    return frame


def connected(version: str = "1.2", **headers: str) -> stomp_session.Session:
    session = stomp_session.Session(LIMITS, 0)
    asked = say(session, "CONNECT", accept_version=version, host="/", **headers)
    assert isinstance(asked, stomp_session.Connect)
    return session


@pytest.mark.parametrize(
    ("offered", "agreed"), [("1.2", "1.2"), ("1.0,1.1", "1.1"), ("1.0,1.1,1.2,2.0", "1.2")]
)
def test_the_highest_common_version_is_agreed_on(offered: str, agreed: str) -> None:
    session = connected(offered, login="ann", passcode="secret")

    answer = read(session.connected("s-1", "mainstem/1"), None)

    assert answer.command == "CONNECTED"
    assert answer.headers == {
        "version": agreed,
        "heart-beat": "0,0",
        "session": "s-1",
        "server": "mainstem/1",
    }


def test_connect_without_a_version_is_1_0_and_brings_who_logs_in() -> None:
    session = stomp_session.Session(LIMITS, 0)

    asked = say(session, "STOMP", login="ann", passcode="x:y\\n", client_id="c1")

    assert asked == stomp_session.Connect("ann", "x:y\\n", "c1")
    assert session.version is Version.V1_0


def test_without_a_common_version_the_error_lists_those_there_are() -> None:
    error = refusal(stomp_session.Session(LIMITS, 0), "CONNECT", accept_version="2.0", host="/")

    assert error.headers["version"] == "1.0,1.1,1.2"
    assert error.body == b"Supported versions are 1.0,1.1,1.2\n"


def test_nothing_may_be_said_before_connect_nor_connect_twice() -> None:
    assert (
        refusal(stomp_session.Session(LIMITS, 0), "SEND", destination="/queue/a").command == "ERROR"
    )
    assert refusal(connected(), "CONNECT", accept_version="1.2").command == "ERROR"


def test_an_error_names_the_receipt_that_was_asked_for() -> None:
    error = refusal(connected(), "SEND", receipt="r:1")

    assert error.headers["message"] == "Missing destination"
    assert error.headers["receipt-id"] == "r:1"
    assert "receipt-id" not in refusal(connected(), "FLY").headers


def test_an_unknown_command_is_named() -> None:
    error = refusal(connected(), "FLY")

    assert error.headers["message"] == "Bad command"
    assert error.body == b'Could not interpret command "FLY"\n'


def test_only_send_has_a_body() -> None:
    assert say(connected(), "BEGIN", b"\n", transaction="t") == stomp_session.Begin(None)
    assert refusal(connected(), "BEGIN", b"what", transaction="t").command == "ERROR"


def test_send_brings_headers_and_body_and_no_message_id() -> None:
    session = connected()

    sent = say(session, "SEND", b"hi", destination="/queue/a", receipt="7", colour="red")

    assert isinstance(sent, stomp_session.Send)
    assert (sent.destination, sent.body, sent.receipt) == ("/queue/a", b"hi", "7")
    assert sent.headers["colour"] == "red"
    error = refusal(session, "SEND", destination="/queue/a", message_id="1")
    assert error.body == b"'message-id' is not allowed on 'SEND'.\n"


def test_a_subscription_has_an_id_of_its_own() -> None:
    session = connected()

    first = say(session, "SUBSCRIBE", id="1", destination="/queue/a", ack="client-individual")

    assert isinstance(first, stomp_session.Subscribe)
    assert (first.id, first.ack) == ("1", stomp_session.AckMode.INDIVIDUAL)
    assert refusal(session, "SUBSCRIBE", id="1", destination="/queue/b").command == "ERROR"
    assert refusal(session, "SUBSCRIBE", destination="/queue/b").command == "ERROR"
    assert refusal(session, "SUBSCRIBE", id="2", destination="/queue/b", ack="no").command


def test_1_0_tells_subscriptions_apart_by_destination() -> None:
    session = connected("1.0")
    subscribed = say(session, "SUBSCRIBE", destination="/queue/a")
    with_id = say(session, "SUBSCRIBE", id="/queue/a", destination="/queue/a")

    ended = say(session, "UNSUBSCRIBE", destination="/queue/a", receipt="9")

    assert isinstance(ended, stomp_session.Unsubscribe)
    assert ended.subscription is subscribed is not with_id
    assert ended.receipt == "9"
    assert refusal(session, "UNSUBSCRIBE", destination="/queue/a").command == "ERROR"
    assert refusal(session, "UNSUBSCRIBE").headers["message"] == "Missing destination or id"


def test_there_are_no_more_subscriptions_than_allowed() -> None:
    session = connected()
    for number in range(3):
        say(session, "SUBSCRIBE", id=str(number), destination="/queue/a")

    assert refusal(session, "SUBSCRIBE", id="4", destination="/queue/a").command == "ERROR"


@pytest.mark.parametrize(
    ("version", "name"), [("1.0", "message_id"), ("1.1", "message_id"), ("1.2", "id")]
)
def test_ack_and_nack_name_a_message_as_their_version_does(version: str, name: str) -> None:
    session = connected(version)

    assert say(session, "ACK", **{name: "m"}) == stomp_session.Settle("m", True, None, None)
    assert say(
        session, "NACK", **{name: "m"}, requeue="false", receipt="r"
    ) == stomp_session.Settle("m", False, False, "r")
    assert refusal(session, "ACK", other="m").headers["message"] == "Missing header"


def test_what_is_in_a_transaction_waits_for_commit() -> None:
    session = connected()
    assert say(session, "BEGIN", transaction="t", receipt="b") == stomp_session.Begin("b")
    assert say(session, "SEND", b"1", destination="/queue/a", transaction="t") is None
    assert say(session, "ACK", id="m", transaction="t", receipt="a") is None

    done = say(session, "COMMIT", transaction="t", receipt="c")

    assert isinstance(done, stomp_session.Commit)
    sent, settled = done.requests
    assert isinstance(sent, stomp_session.Send)
    assert (sent.body, settled, done.receipt) == (
        b"1",
        stomp_session.Settle("m", True, None, "a"),
        "c",
    )
    assert refusal(session, "COMMIT", transaction="t").headers["message"] == "Bad transaction"


def test_an_aborted_transaction_is_over_and_its_name_free() -> None:
    session = connected()
    say(session, "BEGIN", transaction="t")
    say(session, "SEND", destination="/queue/a", transaction="t")

    assert isinstance(say(session, "ABORT", transaction="t"), stomp_session.Abort)
    assert say(session, "BEGIN", transaction="t") == stomp_session.Begin(None)
    assert say(session, "COMMIT", transaction="t") == stomp_session.Commit((), None)


def test_transactions_are_limited_in_number_and_size() -> None:
    session = connected()
    say(session, "BEGIN", transaction="1")
    assert refusal(session, "BEGIN", transaction="1").headers["message"] == "Bad transaction"
    say(session, "BEGIN", transaction="2")
    assert refusal(session, "BEGIN", transaction="3").headers["message"] == "Too many transactions"

    error = refusal(session, "SEND", b"x" * 300, destination="/queue/a", transaction="2")

    assert error.headers["message"] == "Transaction too large"
    assert refusal(session, "SEND", destination="/queue/a", transaction="9").command == "ERROR"
    assert refusal(session, "BEGIN").headers["message"] == "Missing transaction"


def test_disconnect_ends_it() -> None:
    assert say(connected(), "DISCONNECT", receipt="77") == stomp_session.Disconnect("77")


@pytest.mark.parametrize(
    ("asked", "told"), [("0,0", "0,0"), ("4000,6000", "6000,4000"), ("1,2", "100,100")]
)
def test_heart_beats_are_as_the_client_asks_but_not_too_many(asked: str, told: str) -> None:
    session = connected("1.1", heart_beat=asked)

    assert read(session.connected("s", "x"), None).headers["heart-beat"] == told


@pytest.mark.parametrize("text", ["", "1", "a,b", "-1,0", "1,2,3", "9" * 40 + ",1"])
def test_heart_beats_that_are_no_numbers_are_refused(text: str) -> None:
    session = stomp_session.Session(LIMITS, 0)

    error = refusal(session, "CONNECT", accept_version="1.1", heart_beat=text)

    assert error.headers["message"] == "Invalid header"


def test_heart_beats_are_sent_before_they_are_late_and_only_if_nothing_else_was() -> None:
    session = connected("1.2", heart_beat="0,1000")

    assert session.deadline() == 750
    assert session.tick(700) == b""
    assert session.tick(750) == b"\n"
    session.sent_ms = 1200
    assert session.deadline() == 1950


def test_a_peer_that_misses_its_heart_beats_is_cut_off() -> None:
    session = connected("1.2", heart_beat="1000,0")
    session.heard_ms = 500

    assert session.tick(2499) == b""
    assert session.deadline() == 2500
    with pytest.raises(stomp_session.Refused, match="2000 ms"):
        session.tick(2500)


def test_a_peer_that_does_not_connect_in_time_is_cut_off() -> None:
    session = stomp_session.Session(LIMITS, 5)

    assert session.deadline() == 10_005
    assert session.tick(10_000) == b""
    with pytest.raises(stomp_session.Refused):
        session.tick(10_005)


def test_without_heart_beats_nothing_is_ever_due() -> None:
    assert connected().deadline() is None


@given(data=st.lists(st.binary(max_size=100), max_size=5))
def test_random_bytes_end_in_an_error_frame_or_nothing(data: list[bytes]) -> None:
    session = connected()
    farewell = b""
    for each in data:
        view = memoryview(each)
        try:
            while view and (size := session.frame_size(view)) and size <= len(view):
                session.receive(view[:size])
                view = view[size:]
        except ProtocolError as error:
            farewell = error.farewell
            break

    assert not farewell or farewell.startswith(b"ERROR\n")
