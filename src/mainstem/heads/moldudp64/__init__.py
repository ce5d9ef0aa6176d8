"""MoldUDP64: topics as multicast feeds, with retransmission from the log."""

from mainstem.heads.head import Head, bind_udp
from mainstem.heads.moldudp64.metrics import METRICS
from mainstem.heads.moldudp64.settings import MoldSettings

HEAD = Head(
    "moldudp64",
    "MoldUDP64",
    MoldSettings(),
    bind=bind_udp,
    serves="Address for requests of MoldUDP64 receivers (UDP).",
    connect="{at}   (UDP requests; mainstem feed serve TOPIC)",
    metrics=METRICS,
)
