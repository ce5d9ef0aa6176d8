"""STOMP 1.0, 1.1 and 1.2 over TCP: queues and topics for clients of ActiveMQ and RabbitMQ."""

from typing import TYPE_CHECKING

from mainstem.heads.head import Head, HeadSettings, RunningHead
from mainstem.heads.listen import Address
from mainstem.heads.stomp.metrics import METRICS
from mainstem.heads.stomp.settings import StompSettings

if TYPE_CHECKING:
    import socket

    from mainstem.heads.context import HeadContext


def _bind(settings: HeadSettings, address: Address) -> "socket.socket":
    from mainstem.heads.transport.server import bind  # noqa: PLC0415 - only if used

    return bind(address.host, address.port)


async def _start(
    context: "HeadContext", settings: HeadSettings, listener: "socket.socket"
) -> RunningHead:
    from mainstem.heads.stomp.adapter.head import start  # noqa: PLC0415 - only if used

    assert isinstance(settings, StompSettings)
    return await start(context, settings, listener)


HEAD = Head(
    name="stomp",
    title="STOMP",
    settings=StompSettings(),
    bind=_bind,
    start=_start,
    serves="Where STOMP clients connect (ActiveMQ and RabbitMQ use port 61613).",
    connect="{at}   (STOMP 1.0, 1.1, 1.2; /queue/NAME, /topic/NAME)",
    metrics=METRICS,
)
