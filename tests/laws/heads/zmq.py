"""ZeroMQ for the laws of every head."""

from hypothesis import strategies as st
from tests.heads.started import TOPIC
from tests.heads.zmq import zmtp
from tests.laws.heads.examples import Examples, Law, Outcomes
from tests.laws.heads.values import TEXT, WORD

from mainstem.core.event import Event
from mainstem.heads.brokerless.codec import (
    Published,
    Refusal,
    decode_answer,
    decode_event,
    encode_event,
)
from mainstem.heads.head import RunningHead
from mainstem.heads.zmq.settings import Security, ZmqSettings


def _told(heard: bytes, _: RunningHead) -> object:
    if zmtp.error_of(heard) is not None:
        return "unauthenticated"
    answers = zmtp.messages_of(heard)
    if not answers:
        return None
    found = decode_answer(answers[0])
    return found.failure if isinstance(found, Refusal) else type(found).__name__


_REPLAY = zmtp.message(b"REPLAY", TOPIC.encode(), b"0", b"0")
_LIMIT = 4096
EXAMPLES = Examples(
    settings=ZmqSettings(security=Security.PLAIN, publish="127.0.0.1:0"),
    ask=zmtp.logged_in() + _REPLAY,
    told=_told,
    outcomes=Outcomes(done="Events", denied="denied", unauthenticated="unauthenticated"),
    publishes=False,
    messages=st.builds(
        Published,
        st.builds(
            Event,
            st.none() | st.binary(max_size=50),
            st.none() | st.binary(max_size=20),
            st.dictionaries(TEXT, st.none() | st.binary(max_size=20), max_size=4).map(
                lambda named: tuple(named.items())
            ),
            st.integers(-1, 2**62),
            topic=WORD,
            partition=st.integers(0, 100),
            offset=st.integers(0, 2**62),
        ),
        st.integers(0, 2**62),
    ),
    there_and_back=lambda published: decode_event(encode_event(published.event, published.after)),
    limit=_LIMIT,
    claims=lambda size: zmtp.logged_in() + b"\x02" + size.to_bytes(8, "big"),
    login=zmtp.logged_in(password=b"wrong") + _REPLAY,
    not_applicable={
        Law.CUTTING: "libzmq cuts the stream itself, and passes on whole messages",
        Law.SETTLING: "what PUSH takes is acknowledged at once, so nothing can be given back",
        Law.WAITING: "a request is answered at once",
        Law.READING: "a peer must read to log in; heads/zmq has a test of its own",
    },
)
