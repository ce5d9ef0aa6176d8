"""nng for the laws of every head."""

from tests.heads.nng import sp
from tests.heads.started import TOPIC
from tests.laws.heads.examples import Examples, Law, Outcomes
from tests.laws.heads.zmq import EXAMPLES as ZMQ

from mainstem.heads.brokerless.codec import (
    Refusal,
    decode_answer,
    decode_whole,
    encode_whole,
    joined,
    parted,
)
from mainstem.heads.head import RunningHead
from mainstem.heads.nng.settings import NngSettings


def _told(heard: bytes, _: RunningHead) -> object:
    answers = sp.bodies_of(heard)
    if not answers:
        return None
    found = decode_answer(parted(answers[0]))
    return found.failure if isinstance(found, Refusal) else type(found).__name__


_REPLAY = sp.request(joined([b"REPLAY", TOPIC.encode(), b"0", b"0"]))
EXAMPLES = Examples(
    settings=NngSettings(publish="127.0.0.1:0"),
    ask=sp.HEADER + _REPLAY,
    told=_told,
    outcomes=Outcomes(done="Events", denied="denied", unauthenticated="unauthenticated"),
    publishes=False,
    messages=ZMQ.messages,
    there_and_back=lambda published: decode_whole(encode_whole(published.event, published.after)),
    limit=4096,
    claims=lambda size: sp.HEADER + size.to_bytes(8, "big"),
    unread=sp.HEADER + _REPLAY * 2_000,
    not_applicable={
        Law.CUTTING: "nng cuts the stream itself, and passes on whole messages",
        Law.SETTLING: "what PUSH takes is acknowledged at once, so nothing can be given back",
        Law.LOGIN: "nng has no login",
        Law.WAITING: "a request is answered at once",
    },
)
