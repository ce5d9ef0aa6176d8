"""Refuses connections over the limit of a head."""

import asyncio
import logging

from mainstem.heads.addresses import peer_of

_logger = logging.getLogger("mainstem.heads")


class Refusal(asyncio.Protocol):
    """Closes a connection over the limit at once, and logs that."""

    def __init__(self, connections: int) -> None:
        self._connections = connections

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Log and close the connection."""
        _logger.warning(
            "refusing %s: %d connections are open already", peer_of(transport), self._connections
        )
        transport.close()
