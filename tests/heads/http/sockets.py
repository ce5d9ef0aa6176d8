"""A WebSocket client (of the package websockets) of the HTTP head."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

from tests.heads.started import Started
from websockets.asyncio.client import ClientConnection, connect

PATIENCE_S = 60


class Socket:
    """A WebSocket that sends and receives messages."""

    def __init__(self, connection: ClientConnection) -> None:
        self.connection = connection
        self._taken_before: list[dict[str, Any]] = []

    async def send(self, **message: object) -> None:
        said = {name.rstrip("_"): value for name, value in message.items()}
        await self.connection.send(json.dumps(said))

    async def take(self) -> dict[str, Any]:
        """Return the next message."""
        if self._taken_before:
            return self._taken_before.pop(0)
        async with asyncio.timeout(PATIENCE_S):
            found: dict[str, Any] = json.loads(await self.connection.recv())
        return found

    async def take_all(self, count: int) -> list[dict[str, Any]]:
        return [await self.take() for _ in range(count)]

    async def ask(self, **message: object) -> dict[str, Any]:
        """Send a message, and return its answer; what comes before it is taken later."""
        await self.send(**message, ref="asked")
        before: list[dict[str, Any]] = []
        while (found := await self.take()).get("ref") != "asked":
            before.append(found)
        self._taken_before = before + self._taken_before
        return found


@contextlib.asynccontextmanager
async def connected(address: object) -> AsyncIterator[Socket]:
    """Connect until the block ends."""
    async with connect(f"ws://{address}/ws", proxy=None, max_size=None) as connection:
        yield Socket(connection)


def talk(server: Started) -> "contextlib.AbstractAsyncContextManager[Socket]":
    return connected(server.running.address)
