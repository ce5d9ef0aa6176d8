"""Sends messages to a WebSocket in order, with bounded memory."""

import asyncio
from collections import deque
from typing import TYPE_CHECKING

from mainstem.heads.conversation import Answer
from mainstem.heads.http.adapter.broadcast import Call
from mainstem.heads.http.adapter.streams import Sending

if TYPE_CHECKING:
    from starlette.types import Send

MAX_BYTES = 64 * 1024
"""With this much to send, subscriptions pause, and no more requests are read."""
SLOW_CODE, SLOW = 1013, "this connection was not read for too long (http.slow_client_s)"


class SocketOutbox:
    """The messages to be sent to one client; only the event loop may call it."""

    def __init__(self, send: "Send", sending: Sending, peer: str, *, is_tls: bool) -> None:
        self.peer, self.is_tls, self.heard_ms = peer, is_tls, 0
        self._send, self._sending = send, sending
        self._waiting: deque[bytes] = deque()
        self._size = 0
        self._more = asyncio.Event()
        self._room: list[Call] = []
        self._loop = asyncio.get_running_loop()

    @property
    def is_full(self) -> bool:
        """Whether so much waits to be sent that subscriptions must pause."""
        return self._size >= MAX_BYTES

    def send(self, pieces: Answer) -> None:
        """Append messages to those that wait to be sent."""
        for piece in pieces:
            assert isinstance(piece, bytes)
            self._waiting.append(piece)
            self._size += len(piece)
        self._more.set()

    def when_room(self, call: Call) -> None:
        """Call ``call`` once, when the outbox is no longer full; soon if it is not full now."""
        self._room.append(call)
        if not self.is_full:
            self._tell()

    async def until_room(self) -> None:
        """Wait until the outbox is not full."""
        if self.is_full:
            room = asyncio.Event()
            self.when_room(room.set)
            await room.wait()

    async def run(self) -> None:
        """Send messages until cancelled; closes the WebSocket if it was cancelled as too slow."""
        self._sending.task = asyncio.current_task()
        try:
            while True:
                while self._waiting:
                    piece = self._waiting.popleft()
                    self._sending.since_s = self._loop.time()
                    await self._send({"type": "websocket.send", "text": piece.decode()})
                    self._sending.since_s = None
                    self._size -= len(piece)
                    if self._room and not self.is_full:
                        self._tell()
                self._more.clear()
                await self._more.wait()
        except asyncio.CancelledError:
            if not self._sending.is_slow:
                raise
            self._waiting.clear()
            await self._send({"type": "websocket.close", "code": SLOW_CODE, "reason": SLOW})

    def close(self, reason: str = "") -> None:
        """Do nothing: the conversation closes the WebSocket."""

    def end(self, farewell: Answer = (), reason: str = "") -> None:
        """Do nothing: the conversation closes the WebSocket."""

    def _tell(self) -> None:
        room, self._room = self._room, []
        for call in room:
            self._loop.call_soon(call)
