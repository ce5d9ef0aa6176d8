"""Starts the admin port before the log is opened; imports its app at the first connection."""

from typing import TYPE_CHECKING

from mainstem import __version__
from mainstem.heads.admin.settings import MAX_BODY_BYTES, AdminSettings
from mainstem.heads.context import HeadContext
from mainstem.heads.web.lazy_server import Begin, LazyServer
from mainstem.heads.web.limits import WebLimits

if TYPE_CHECKING:
    import socket

    from mainstem.heads.transport.traffic import Traffic
    from mainstem.heads.web.server import WebServer

_IN_WORK = 256
"""Connections that are allowed besides those whose peer still sends a request: they are being
answered or closed.
"""


async def start(
    context: HeadContext, settings: AdminSettings, listener: "socket.socket"
) -> LazyServer:
    """Start the admin head on a bound socket; return its server."""
    return LazyServer(listener, lambda: _load(context, settings, listener))


def _load(context: HeadContext, settings: AdminSettings, listener: "socket.socket") -> Begin:
    # Slow to import, so only when somebody has connected.
    from mainstem.heads.admin.adapter import Pages  # noqa: PLC0415
    from mainstem.heads.admin.api import Api  # noqa: PLC0415
    from mainstem.heads.admin.app import ORIGINS, admin_app  # noqa: PLC0415
    from mainstem.heads.admin.operations import OperationPages  # noqa: PLC0415
    from mainstem.heads.web.server import serve_app  # noqa: PLC0415

    limits = WebLimits(
        max_connections=settings.max_connections + _IN_WORK,
        max_body_bytes=MAX_BODY_BYTES,
        head_s=settings.request_s,
        body_s=settings.request_s,
    )

    def begin(traffic: "Traffic") -> "WebServer":
        app = admin_app(
            Pages(context.operations, context.run_id, context.auth),
            OperationPages(context.administration, context.auth, context.run_id),
            Api(context.administration, context.auth, context.run_id, __version__),
        )
        return serve_app(context, app, listener, limits, ORIGINS, traffic=traffic)

    return begin
