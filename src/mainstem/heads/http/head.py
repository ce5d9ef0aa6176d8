"""Starts the HTTP head: its routes, on the common HTTP runtime."""

from typing import TYPE_CHECKING

from mainstem.heads.addresses import NONE
from mainstem.heads.context import HeadContext
from mainstem.heads.http.adapter.service import Service
from mainstem.heads.http.routes import app_of
from mainstem.heads.http.settings import HttpSettings
from mainstem.heads.web.limits import limits_of
from mainstem.heads.web.origin import LOCAL, Origins, with_cors
from mainstem.heads.web.server import WebServer, serve_app

if TYPE_CHECKING:
    import socket


async def start(
    context: HeadContext, settings: HttpSettings, listener: "socket.socket"
) -> WebServer:
    """Start the HTTP head on a bound socket; return its server."""
    service = Service(context, settings)
    allowed = _named(settings.origins) - {NONE}
    origins = Origins(hosts=LOCAL | _named(settings.hosts), allowed=allowed)
    # Later than slow_client_s, so that a slow client that reads again learns why it was ended.
    limits = limits_of(settings, stalled_s=2 * settings.slow_client_s)
    app = with_cors(app_of(service), origins)
    return serve_app(
        context, app, listener, limits, origins, websockets=True, samples=service.counts.samples
    )


def _named(said: str) -> frozenset[str]:
    return frozenset(each.strip().lower() for each in said.split(",") if each.strip())
