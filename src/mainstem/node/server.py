"""A node that protocol clients connect to: the log, the broker, and the heads on it."""

import asyncio
import contextlib
import signal
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import msgspec
import uvloop

from mainstem.heads import serving
from mainstem.heads.kafka import head as kafka
from mainstem.heads.kafka.adapter.service import KafkaSettings, Service
from mainstem.node.config import Config
from mainstem.node.node import Node, open_node, time_of_day_ms

MEMORY = ":memory:"
LOOPBACK = ("127.0.0.1", "::1", "localhost")


class Address(msgspec.Struct, frozen=True):
    """A host and a port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


class Running(msgspec.Struct, frozen=True):
    """A server that answers."""

    node: Node
    kafka: Address
    started_ms: int
    """How long it took to get ready."""
    catch_up: Callable[[], None]
    """Does what has become due; for whoever has moved the clock."""


@contextlib.asynccontextmanager
async def running(
    path: Path | None,
    config: Config,
    address: Address,
    settings: KafkaSettings | None = None,
    *,
    now_ms: Callable[[], int] = time_of_day_ms,
) -> AsyncIterator[Running]:
    """Serve a data directory, or a log in memory, until the block ends; then stop in order."""
    began = time.monotonic()
    listener = serving.bind(address.host, address.port)
    try:
        host, port, *_ = listener.getsockname()
        bound = Address(str(host), int(port))
        node = open_node(path, config, now_ms=now_ms, listens=str(bound))
    except BaseException:
        listener.close()
        raise
    try:
        service = Service(
            node.broker, node.now_ms, settings or KafkaSettings(), node.defaults, "mainstem"
        )
        server = await kafka.listen(service, listener)
        try:
            took_ms = int((time.monotonic() - began) * 1000)
            yield Running(node, bound, took_ms, service.catch_up)
        finally:
            await server.close()
    finally:
        node.close()


async def serve_until_told(
    path: Path | None, config: Config, address: Address, ready: Callable[[Running], None]
) -> None:
    """Serve until SIGTERM or SIGINT."""
    told = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, told.set)
    async with running(path, config, address) as server:
        ready(server)
        await told.wait()


def serve(
    path: Path | None, config: Config, address: Address, ready: Callable[[Running], None]
) -> None:
    """Serve from a program that has no event loop."""
    uvloop.run(serve_until_told(path, config, address, ready))
