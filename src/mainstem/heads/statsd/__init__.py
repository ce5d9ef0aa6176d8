"""StatsD over UDP: metrics of programs become events, and sums per interval become others."""

from typing import TYPE_CHECKING

from mainstem.heads.head import Head, HeadSettings, RunningHead
from mainstem.heads.listen import Address
from mainstem.heads.statsd.metrics import METRICS
from mainstem.heads.statsd.settings import StatsdSettings

if TYPE_CHECKING:
    import socket

    from mainstem.heads.context import HeadContext


def _bind(settings: HeadSettings, address: Address) -> "socket.socket":
    from mainstem.heads.transport.datagrams import bind_datagrams  # noqa: PLC0415 - only if used

    assert isinstance(settings, StatsdSettings)
    return bind_datagrams(address, settings.receive_buffer_bytes)


async def _start(
    context: "HeadContext", settings: HeadSettings, listener: "socket.socket"
) -> RunningHead:
    from mainstem.heads.statsd.adapter import StatsdHead  # noqa: PLC0415 - only if used

    assert isinstance(settings, StatsdSettings)
    head = StatsdHead(context, settings, listener)
    await head.start()
    return head


HEAD = Head(
    name="statsd",
    title="StatsD",
    settings=StatsdSettings(),
    bind=_bind,
    start=_start,
    serves="Where programs send StatsD metrics, by UDP.",
    connect="{at}   (UDP; topics statsd.samples, statsd.aggregates)",
    metrics=METRICS,
)
