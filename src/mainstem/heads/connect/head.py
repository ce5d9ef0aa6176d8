"""Starts the head for Kafka Connect's REST API."""

from typing import TYPE_CHECKING

from mainstem.heads.connect.app import connect_app
from mainstem.heads.connect.settings import ConnectSettings
from mainstem.heads.context import HeadContext
from mainstem.heads.web.limits import limits_of
from mainstem.heads.web.server import WebServer, serve_app

if TYPE_CHECKING:
    import socket


async def start(
    context: HeadContext, settings: ConnectSettings, listener: "socket.socket"
) -> WebServer:
    """Start the Connect head on a bound socket; return its server."""
    limits = limits_of(settings)
    return serve_app(context, connect_app(context, settings.max_body_bytes), listener, limits)
