"""StatsD for the laws of every head."""

from hypothesis import strategies as st
from tests.heads.started import TOPIC
from tests.laws.heads.examples import UDP, Examples, Law, Outcomes
from tests.laws.heads.values import WORD

from mainstem.heads.head import RunningHead
from mainstem.heads.statsd.codec import Metric, parse_packet
from mainstem.heads.statsd.metrics import LOST, SAMPLES
from mainstem.heads.statsd.settings import StatsdSettings


def _told(_: bytes, running: RunningHead) -> object:
    counts = {metric: count for metric, (_, count) in running.samples() if count}
    if LOST in counts:
        return "lost"
    return "taken" if SAMPLES in counts else None


def _there_and_back(message: Metric) -> Metric:
    tags = f"|#{','.join(message.tags)}" if message.tags else ""
    (found,), wrong = parse_packet(f"{message.name}:{message.value}|ms{tags}".encode())
    assert not wrong
    return found


EXAMPLES = Examples(
    settings=StatsdSettings(samples_topic=TOPIC),
    ask=b"jobs:1|c",
    told=_told,
    # Nobody can be told anything by StatsD: what is refused is counted, and the log says why.
    outcomes=Outcomes(done="taken", denied="lost", unauthenticated="lost"),
    publishes=True,
    messages=st.builds(
        Metric,
        WORD,
        st.just("timer"),
        st.floats(allow_nan=False, allow_infinity=False),
        tags=st.sets(WORD).map(lambda tags: tuple(sorted(tags))),
    ),
    there_and_back=_there_and_back,
    not_applicable={
        **UDP,
        Law.SETTLING: "StatsD hands out no deliveries",
        Law.LOGIN: "StatsD has no login",
        Law.WAITING: "StatsD answers nothing, so nobody waits",
        Law.READING: "StatsD answers nothing",
    },
)
