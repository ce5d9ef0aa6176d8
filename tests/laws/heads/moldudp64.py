"""MoldUDP64 for the laws of every head."""

from hypothesis import strategies as st
from tests.heads.started import TOPIC
from tests.laws.heads.examples import UDP, Examples, Law, Outcomes

from mainstem.heads.head import RunningHead
from mainstem.heads.moldudp64.codec import (
    Packet,
    Request,
    decode_packet,
    encode_packet,
    encode_request,
)
from mainstem.heads.moldudp64.metrics import REQUESTS
from mainstem.heads.moldudp64.settings import MoldSettings


def _told(_: bytes, running: RunningHead) -> object:
    outcomes = {labels[0] for metric, (labels, _) in running.samples() if metric is REQUESTS}
    # Others may have said something else before.
    return next(iter(outcomes - {"malformed", "unknown_session"}), None)


_SESSION_NAME = st.text("ABCxyz0189", min_size=1, max_size=10)

EXAMPLES = Examples(
    settings=MoldSettings(feeds=f"S1={TOPIC}/0@239.255.77.9:30999", requests_per_s=1_000_000),
    ask=encode_request(Request("S1", 1, 1)),
    told=_told,
    # The topic is empty.
    # MoldUDP64 has no refusals: a request that is not answered is counted by its reason.
    outcomes=Outcomes(done="not_yet", denied="denied", unauthenticated="unauthenticated"),
    publishes=False,
    messages=st.builds(
        Packet,
        _SESSION_NAME,
        st.integers(1, 2**60),
        st.lists(st.binary(max_size=50), max_size=20).map(tuple),
    ),
    there_and_back=lambda packet: decode_packet(encode_packet(packet)),
    not_applicable={
        **UDP,
        Law.SETTLING: "MoldUDP64 hands out no deliveries",
        Law.LOGIN: "MoldUDP64 has no login",
        Law.WAITING: "a request is answered at once or never",
        Law.READING: "answers beyond the socket's buffer are dropped, as UDP may drop any packet",
    },
)
