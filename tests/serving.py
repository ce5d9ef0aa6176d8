"""A server for tests: in this process, on a free port."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mainstem.node.config import Config
from mainstem.node.server import Address, running

PATIENCE_S = 30


@contextmanager
def serving(path: Path | None, port: int = 0) -> Iterator[str]:
    """Serve a directory, or memory, until the block ends; gives host:port."""
    addresses: list[str] = []
    ready = threading.Event()
    stop: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []

    async def main() -> None:
        told = asyncio.Event()
        stop.append((asyncio.get_running_loop(), told))
        async with running(path, Config(), Address("127.0.0.1", port)) as server:
            addresses.append(str(server.kafka))
            ready.set()
            await told.wait()

    thread = threading.Thread(target=lambda: asyncio.run(main()))
    thread.start()
    assert ready.wait(PATIENCE_S)
    try:
        yield addresses[0]
    finally:
        loop, told = stop[0]
        loop.call_soon_threadsafe(told.set)
        thread.join(PATIENCE_S)
