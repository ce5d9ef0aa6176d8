"""nng: topics through PUB, with replays from the log; queues through PUSH; SUB, PULL collect."""

from mainstem.heads.head import Head
from mainstem.heads.nng.metrics import METRICS
from mainstem.heads.nng.settings import NngSettings

HEAD = Head(
    "nng",
    "nng",
    NngSettings(),
    serves="Address of the nng socket for replays; PUB is at the next port.",
    connect="tcp://{at}   (replays; mainstem.feeds.NngFeed)",
    extra="nng",
    metrics=METRICS,
)
