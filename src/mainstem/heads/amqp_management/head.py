"""Starts the head for RabbitMQ's management API."""

from typing import TYPE_CHECKING

from mainstem.heads.amqp_management.app import management_app
from mainstem.heads.amqp_management.settings import AmqpManagementSettings
from mainstem.heads.context import HeadContext
from mainstem.heads.web.limits import limits_of
from mainstem.heads.web.server import WebServer, serve_app

if TYPE_CHECKING:
    import socket


async def start(
    context: HeadContext, settings: AmqpManagementSettings, listener: "socket.socket"
) -> WebServer:
    """Start the management head on a bound socket; return its server."""
    limits = limits_of(settings)
    app = management_app(context, settings.max_body_bytes)
    return serve_app(context, app, listener, limits)
