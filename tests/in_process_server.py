"""A server for tests: in this process, on free ports."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from mainstem.auth import Auth
from mainstem.node.config import Config
from mainstem.node.node import time_of_day_ms
from mainstem.node.server import Running, running

PATIENCE_S = 60
DEFAULTS = Config()


@contextmanager
def serving(path: Path | None, port: int = 0) -> Iterator[str]:
    """Serve a directory, or memory, until the block ends; gives host:port."""
    with server(path, port) as found:
        yield str(found.kafka)


@contextmanager
def server(
    path: Path | None,
    port: int = 0,
    *,
    now_ms: Callable[[], int] = time_of_day_ms,
    config: Config = DEFAULTS,
    auth: Auth | None = None,
) -> Iterator[Running]:
    """Serve with an admin port, too; gives all there is to know of the server."""
    found: list[Running] = []
    ready = threading.Event()
    stop: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []

    async def main() -> None:
        told = asyncio.Event()
        stop.append((asyncio.get_running_loop(), told))
        chosen = config.listening(kafka=f"127.0.0.1:{port}", admin="127.0.0.1:0")
        async with running(path, chosen, now_ms=now_ms, auth=auth) as it:
            found.append(it)
            ready.set()
            await told.wait()

    thread = threading.Thread(target=lambda: asyncio.run(main()))
    thread.start()
    assert ready.wait(PATIENCE_S)
    try:
        yield found[0]
    finally:
        loop, told = stop[0]
        loop.call_soon_threadsafe(told.set)
        thread.join(PATIENCE_S)
