"""The AMQP head: serves all AMQP client connections on one broker."""

import time
from typing import TYPE_CHECKING

from mainstem.heads.amqp091.adapter.conversation import AmqpConversation
from mainstem.heads.amqp091.adapter.management.registration import offer_operations
from mainstem.heads.amqp091.adapter.service import Service
from mainstem.heads.amqp091.settings import AmqpSettings
from mainstem.heads.context import HeadContext
from mainstem.heads.conversation import Outbox
from mainstem.heads.transport.server import Server, serve

if TYPE_CHECKING:
    import socket


async def start(context: HeadContext, settings: AmqpSettings, listener: "socket.socket") -> Server:
    """Start the AMQP head on a bound socket; return its server."""
    service = Service(context, settings, lambda: int(time.monotonic() * 1000))
    offer_operations(service)

    def converse(outbox: Outbox) -> AmqpConversation:
        return AmqpConversation(service, outbox)

    return serve(
        listener,
        converse,
        max_connections=settings.max_connections,
        samples=service.counts.samples,
        beside=service.unfinished,
    )
