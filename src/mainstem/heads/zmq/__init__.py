"""ZeroMQ: topics through PUB, with replays from the log; queues through PUSH; SUB, PULL collect."""

from mainstem.heads.head import Head
from mainstem.heads.zmq.metrics import METRICS
from mainstem.heads.zmq.settings import ZmqSettings

HEAD = Head(
    "zmq",
    "ZeroMQ",
    ZmqSettings(),
    serves="Address of the ZeroMQ socket for replays; PUB is at the next port.",
    connect="tcp://{at}   (replays; mainstem.feeds.ZmqFeed)",
    extra="zmq",
    metrics=METRICS,
)
