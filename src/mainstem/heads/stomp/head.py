"""The STOMP head: serves all STOMP clients of a node."""

import logging
import time
from typing import TYPE_CHECKING

from mainstem.core.errors import MainstemError
from mainstem.heads.context import HeadContext
from mainstem.heads.conversation import Outbox
from mainstem.heads.stomp.adapter.conversation import StompConversation
from mainstem.heads.stomp.adapter.destinations import TEMPORARY
from mainstem.heads.stomp.adapter.service import Service
from mainstem.heads.stomp.settings import StompSettings
from mainstem.heads.transport.server import Server, serve

if TYPE_CHECKING:
    import socket

_logger = logging.getLogger("mainstem.heads.stomp")


async def start(context: HeadContext, settings: StompSettings, listener: "socket.socket") -> Server:
    """Start the STOMP head on a bound socket; return its server."""
    service = Service(context, settings, lambda: int(time.monotonic() * 1000))
    _forget_temporary(context)

    def converse(outbox: Outbox) -> StompConversation:
        return StompConversation(service, outbox)

    most = settings.max_connections
    return serve(listener, converse, max_connections=most, samples=service.counts.samples)


def _forget_temporary(context: HeadContext) -> None:
    """Delete the temporary queues that an earlier run of the server left behind."""
    for topic in context.broker.topics(f"{TEMPORARY}*"):
        try:
            context.broker.delete_topic(topic.name)
        except MainstemError as error:
            _logger.warning("temporary queue %s is not deleted: %s", topic.name, error)
