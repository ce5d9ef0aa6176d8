"""Starts the StatsD head."""

from typing import TYPE_CHECKING

from mainstem.heads.context import HeadContext
from mainstem.heads.statsd.adapter import StatsdHead
from mainstem.heads.statsd.settings import StatsdSettings

if TYPE_CHECKING:
    import socket


async def start(
    context: HeadContext, settings: StatsdSettings, listener: "socket.socket"
) -> StatsdHead:
    """Start the StatsD head on a bound UDP socket."""
    head = StatsdHead(context, settings, listener)
    await head.start()
    return head
