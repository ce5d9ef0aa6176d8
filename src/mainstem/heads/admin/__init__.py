"""What operators and probes ask over HTTP: /livez, /readyz, /metrics and what queues hold."""

from typing import TYPE_CHECKING

from mainstem.heads.admin.settings import AdminSettings
from mainstem.heads.head import Head, HeadSettings, RunningHead
from mainstem.heads.listen import Address

if TYPE_CHECKING:
    import socket

    from mainstem.heads.context import HeadContext


def _bind(settings: HeadSettings, address: Address) -> "socket.socket":
    from mainstem.heads.transport.server import bind  # noqa: PLC0415 - only what is used

    return bind(address.host, address.port)


async def _start(
    context: "HeadContext", settings: HeadSettings, listener: "socket.socket"
) -> RunningHead:
    from mainstem.heads.admin.head import start  # noqa: PLC0415 - only what is used

    assert isinstance(settings, AdminSettings)
    return await start(context, settings, listener)


HEAD = Head(
    name="admin",
    title="admin",
    settings=AdminSettings(),
    bind=_bind,
    start=_start,
    serves="Where /livez, /readyz and /metrics are.",
    connect="http://{at}   /livez /readyz /metrics",
    starts_first=True,
    auto=Address("127.0.0.1", 9644),
)
