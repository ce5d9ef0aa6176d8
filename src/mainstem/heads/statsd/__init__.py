"""StatsD over UDP: each value, and aggregates per interval, become events."""

from typing import TYPE_CHECKING

from mainstem.heads.addresses import Address
from mainstem.heads.head import Head, HeadSettings, starts_in
from mainstem.heads.statsd.metrics import METRICS
from mainstem.heads.statsd.settings import StatsdSettings

if TYPE_CHECKING:
    import socket


def _bind(settings: HeadSettings, address: Address) -> "socket.socket":
    from mainstem.heads.transport.datagrams import bind_datagrams  # noqa: PLC0415 - only if used

    assert isinstance(settings, StatsdSettings)
    return bind_datagrams(address, settings.receive_buffer_bytes)


HEAD = Head(
    name="statsd",
    title="StatsD",
    settings=StatsdSettings(),
    bind=_bind,
    start=starts_in("mainstem.heads.statsd.adapter"),
    serves="Address for StatsD clients (UDP).",
    connect="{at}   (UDP; topics statsd.samples, statsd.aggregates)",
    metrics=METRICS,
)
