"""MoldUDP64: topics as multicast feeds, with retransmission from the log."""

from typing import TYPE_CHECKING

from mainstem.heads.addresses import Address
from mainstem.heads.head import Head, HeadSettings, starts_in
from mainstem.heads.moldudp64.metrics import METRICS
from mainstem.heads.moldudp64.settings import MoldSettings

if TYPE_CHECKING:
    import socket


def _bind(settings: HeadSettings, address: Address) -> "socket.socket":
    from mainstem.heads.transport.datagrams import bind_datagrams  # noqa: PLC0415 - only if used

    assert isinstance(settings, MoldSettings)
    return bind_datagrams(address, settings.receive_buffer_bytes)


HEAD = Head(
    name="moldudp64",
    title="MoldUDP64",
    settings=MoldSettings(),
    bind=_bind,
    start=starts_in("mainstem.heads.moldudp64.adapter"),
    serves="Address for requests of MoldUDP64 receivers (UDP).",
    connect="{at}   (UDP requests; mainstem feed serve TOPIC)",
    metrics=METRICS,
)
