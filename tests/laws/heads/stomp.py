"""STOMP for the laws of every head."""

from hypothesis import strategies as st
from tests.heads.started import TOPIC
from tests.heads.stomp.frames import frames_in as stomp_frames_in
from tests.laws.heads.examples import Examples, Outcomes
from tests.laws.heads.values import TEXT

from mainstem.heads.head import RunningHead
from mainstem.heads.stomp.codec import Frame, FrameScanner, Version, encode
from mainstem.heads.stomp.settings import StompSettings


def _frame(command: str, body: bytes = b"", **headers: str) -> bytes:
    """Write a frame; headers with _ for -."""
    named = [(name.replace("_", "-"), value) for name, value in headers.items()]
    return encode(command, named, body, Version.V1_2)


_CONNECT = _frame("CONNECT", accept_version="1.2", host="/")
_QUEUE = f"/queue/{TOPIC}"
_SEND = _frame("SEND", b"value", destination=_QUEUE, receipt="1")
_SUBSCRIBE = _frame("SUBSCRIBE", destination=_QUEUE, id="1", ack="client")


def _frames(heard: bytes) -> list[Frame]:
    found = stomp_frames_in(FrameScanner(StompSettings()), [heard])
    assert found.rest == b""
    return found.frames


def _answers(heard: bytes) -> object:
    """Leave out the session's id."""
    found = _frames(heard)
    return [(it.command, it.headers | {"session": ""}, it.body) for it in found]


def _told(heard: bytes, _: RunningHead) -> object:
    answers = [it for it in _frames(heard) if it.command != "CONNECTED"]
    return answers[0].headers.get("message", answers[0].command) if answers else None


def _claims(size: int) -> bytes:
    head = b"SEND\ndestination:/queue/orders\ncontent-length:%d\n\n"
    # The frame's size counts its head and the NUL at its end.
    return head % (size - len(head % size) - 1)


def _there_and_back(message: Frame) -> Frame:
    (found,) = _frames(encode(message.command, message.headers.items(), message.body, Version.V1_2))
    found.headers.pop("content-length", None)
    return found


EXAMPLES = Examples(
    settings=StompSettings(),
    stream=_CONNECT
    + _SEND
    + _frame("SEND", b"two\0\n\n", destination=_QUEUE, receipt="a:2")
    + b"\n\n"
    + _frame("DISCONNECT", receipt="3"),
    answers=_answers,
    ask=_CONNECT + _SEND,
    told=_told,
    outcomes=Outcomes(done="RECEIPT", denied="access_refused", unauthenticated="Bad CONNECT"),
    publishes=True,
    messages=st.builds(
        Frame,
        st.sampled_from(["SEND", "MESSAGE", "ERROR"]),
        st.dictionaries(TEXT.filter(lambda it: it != "content-length"), TEXT, max_size=8),
        st.binary(max_size=200),
    ),
    there_and_back=_there_and_back,
    take=lambda _: _CONNECT + _SUBSCRIBE,
    limit=StompSettings().max_frame_bytes,
    claims=_claims,
    login=_frame("CONNECT", accept_version="1.2", host="/", login="ann", passcode="no") + _SEND,
    wait=_CONNECT + _frame("SUBSCRIBE", destination=_QUEUE, id="1", receipt="waits"),
    wait_begins=b"receipt-id:waits",
    unread=_CONNECT + _SEND * 3000,
)
