"""ZeroMQ: topics through PUB, with replays from the log; queues through PUSH; SUB, PULL collect."""

from mainstem.heads.brokerless.start import starts_with
from mainstem.heads.head import Head
from mainstem.heads.zmq.metrics import METRICS
from mainstem.heads.zmq.settings import ZmqSettings

HEAD = Head(
    name="zmq",
    title="ZeroMQ",
    settings=ZmqSettings(),
    start=starts_with("zmq", "mainstem.heads.zmq.adapter", "ZmqHead"),
    serves="Address of the ZeroMQ socket for replays; PUB is at the next port.",
    connect="tcp://{at}   (replays; mainstem.feeds.ZmqFeed)",
    metrics=METRICS,
)
