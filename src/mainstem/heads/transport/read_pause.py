"""Pauses and resumes reading from a peer, and detects its disconnect while paused."""

import asyncio
import socket
from collections.abc import Callable

GONE_S = 1.0
"""How often to check for a disconnect while reading is paused."""
_CLOSED, _CLOSED_BY_PEER = 7, 8
"""TCP states of a connection (TCP_CLOSE, TCP_CLOSE_WAIT)."""


class Reading:
    """Controls reading from one connection: paused or not."""

    __slots__ = ("_is_looked_at", "_is_on", "_peer_sent_all", "_transport")

    def __init__(self, transport: asyncio.Transport, peer_sent_all: Callable[[], None]) -> None:
        self._transport = transport
        self._peer_sent_all = peer_sent_all
        """Called, perhaps repeatedly, if the peer has closed its side while reading is paused."""
        self._is_on = True
        self._is_looked_at = False

    def want(self, wanted: bool) -> None:
        """Resume or pause reading; while it is paused, check regularly for a disconnect."""
        if wanted and not self._is_on:
            self._is_on = True
            self._transport.resume_reading()
        elif not wanted and self._is_on:
            self._is_on = False
            self._transport.pause_reading()
            if not self._is_looked_at:
                self._look_again()

    def _look_again(self) -> None:
        self._is_looked_at = True
        asyncio.get_running_loop().call_later(GONE_S, self._look_whether_gone)

    def _look_whether_gone(self) -> None:
        """Check the TCP state, as the loop reports no disconnect while reading is paused."""
        self._is_looked_at = False
        if self._is_on or self._transport.is_closing():
            return
        known = self._transport.get_extra_info("socket")
        (state,) = known.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)
        if state == _CLOSED:
            self._transport.abort()
            return
        if state == _CLOSED_BY_PEER:
            self._peer_sent_all()
        self._look_again()
