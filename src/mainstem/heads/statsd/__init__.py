"""StatsD over UDP: each value, and aggregates per interval, become events."""

from mainstem.heads.head import Head, bind_udp
from mainstem.heads.statsd.metrics import METRICS
from mainstem.heads.statsd.settings import StatsdSettings

HEAD = Head(
    "statsd",
    "StatsD",
    StatsdSettings(),
    bind=bind_udp,
    serves="Address for StatsD clients (UDP).",
    connect="{at}   (UDP; topics statsd.samples, statsd.aggregates)",
    metrics=METRICS,
)
