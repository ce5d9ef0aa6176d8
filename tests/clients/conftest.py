"""A server for unmodified clients: in this process, on a free port, in a directory of its own."""

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from mainstem.node.config import Config
from mainstem.node.server import Address, running


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Serve a fresh directory; yields host:port."""
    path: Path = tmp_path_factory.mktemp("served")
    addresses: list[str] = []
    ready = threading.Event()
    stop: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []

    async def main() -> None:
        told = asyncio.Event()
        stop.append((asyncio.get_running_loop(), told))
        async with running(path, Config(), Address("127.0.0.1", 0)) as server:
            addresses.append(str(server.kafka))
            ready.set()
            await told.wait()

    thread = threading.Thread(target=lambda: asyncio.run(main()))
    thread.start()
    assert ready.wait(30)
    yield addresses[0]
    loop, told = stop[0]
    loop.call_soon_threadsafe(told.set)
    thread.join(30)
