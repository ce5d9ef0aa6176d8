"""A node that protocol clients connect to: the log, the broker, and the heads on it."""

import asyncio
import contextlib
import errno
import gc
import secrets
import signal
import socket
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import msgspec
import uvloop

from mainstem import __version__
from mainstem.core.errors import MainstemError
from mainstem.heads.admin import head as admin_head
from mainstem.heads.admin.adapter import Pages
from mainstem.heads.kafka import head as kafka
from mainstem.heads.kafka.adapter import groups
from mainstem.heads.kafka.adapter.service import Service
from mainstem.heads.kafka.adapter.words import ConsumerWords
from mainstem.heads.transport import server as transport
from mainstem.node.config import Config
from mainstem.node.health import Health, Phase
from mainstem.node.loop_commits import LoopCommits
from mainstem.node.node import Node, open_node, time_of_day_ms
from mainstem.node.peeking import Peeking
from mainstem.node.scrape import Scrape

MEMORY = ":memory:"
LOOPBACK = ("127.0.0.1", "::1", "localhost")
ADMIN = "127.0.0.1:9644"
"""Where a server is looked after, if nothing else is said."""


class Address(msgspec.Struct, frozen=True):
    """A host and a port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


class LookedAfter(msgspec.Struct, frozen=True):
    """Where the admin port shall be."""

    address: Address
    elsewhere: bool = False
    """Whether a free port will do if that one is taken."""


class AddressTaken(MainstemError):
    """Somebody else listens there."""


class Running(msgspec.Struct, frozen=True):
    """A server that answers."""

    node: Node
    kafka: Address
    started_ms: int
    """How long it took to get ready."""
    catch_up: Callable[[], None]
    """Does what has become due; for whoever has moved the clock."""
    admin: Address | None = None
    """Where it is looked after, if anywhere."""


@contextlib.asynccontextmanager
async def running(
    path: Path | None,
    config: Config,
    address: Address,
    *,
    now_ms: Callable[[], int] = time_of_day_ms,
    admin: LookedAfter | None = None,
    hurry: asyncio.Event | None = None,
) -> AsyncIterator[Running]:
    """Serve a data directory, or a log in memory, until the block ends; then stop in order.

    Peers are answered what they have asked before; once ``hurry`` is set, they are no longer.
    The admin port is the first to be there and the last to go: it tells what the others wait for.
    """
    began = time.monotonic()
    health = Health()
    scrape, peeking = Scrape(health.not_ready, __version__), Peeking()
    run_id = secrets.token_hex(8)
    async with contextlib.AsyncExitStack() as stack:
        listener = stack.enter_context(_bind(address, "--kafka", config.kafka.silence_ms))
        bound = _bound(listener)
        pages = Pages(health.not_ready, scrape.text, scrape.queues, peeking.page, run_id)
        looked_after = None if admin is None else await _look_after(stack, admin, pages, scrape)
        # In a thread, so that whoever asks meanwhile is told what it waits for.
        node = await asyncio.to_thread(
            open_node,
            path,
            config,
            now_ms=now_ms,
            listens=str(bound),
            admin=None if looked_after is None else str(looked_after),
        )
        stack.callback(node.close)
        if node.committer is not None:
            stack.callback(LoopCommits(node.committer, asyncio.get_running_loop()).stop)
        settings = msgspec.structs.replace(config.kafka, auto_create=config.auto_create)
        service = Service(node.broker, node.now_ms, settings, node.defaults, "mainstem")
        service.admin, service.run_id = None if looked_after is None else str(looked_after), run_id
        node.broker.classic.read_assignment = groups.owned
        node.broker.consumers.guests.words = ConsumerWords()
        server = await kafka.listen(service, listener)
        stack.push_async_callback(server.close)
        peeking.node = node
        scrape.node, scrape.kafka, scrape.heads["kafka"] = node, service.counts, server.traffic
        health.stopped = lambda: node.stopped
        health.phase = Phase.READY
        try:
            took_ms = int((time.monotonic() - began) * 1000)
            yield Running(node, bound, took_ms, service.catch_up, looked_after)
        finally:
            health.phase = Phase.DRAINING
            await server.drain(config.drain_ms / 1000, hurry or asyncio.Event())


async def _look_after(
    stack: contextlib.AsyncExitStack, wanted: LookedAfter, pages: Pages, scrape: Scrape
) -> Address:
    """Open the admin port."""
    try:
        taken = _bind(wanted.address, "--admin")
    except AddressTaken:
        if not wanted.elsewhere:
            raise
        taken = _bind(Address(wanted.address.host, 0), "--admin")
    listener = stack.enter_context(taken)
    server = await admin_head.listen(pages, listener)
    scrape.heads["admin"] = server.traffic
    stack.push_async_callback(server.close)
    return _bound(listener)


def _bind(address: Address, option: str, silence_ms: int = transport.SILENCE_MS) -> socket.socket:
    try:
        return transport.bind(address.host, address.port, silence_ms)
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise
        raise AddressTaken(
            f"another program listens at {address}: stop it, or choose another port with "
            f"{option} {address.host}:PORT (0 takes a free one)"
        ) from None


def _bound(listener: socket.socket) -> Address:
    host, port, *_ = listener.getsockname()
    return Address(str(host), int(port))


async def serve_until_told(
    path: Path | None,
    config: Config,
    address: Address,
    ready: Callable[[Running], None],
    *,
    admin: LookedAfter | None = None,
) -> None:
    """Serve until SIGTERM, SIGINT or SIGHUP; the second of them waits for nobody any more.

    A SIGHUP that was ignored before, as under ``nohup``, stays so.
    """
    told, hurry = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def tell() -> None:
        (hurry if told.is_set() else told).set()

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        if number == signal.SIGHUP and signal.getsignal(number) is signal.SIG_IGN:
            continue
        loop.add_signal_handler(number, tell)
    async with running(path, config, address, admin=admin, hurry=hurry) as server:
        # What is here now stays: looking through it for garbage would stop everybody for 13 ms.
        gc.freeze()
        ready(server)
        await told.wait()


def serve(
    path: Path | None,
    config: Config,
    address: Address,
    ready: Callable[[Running], None],
    *,
    admin: LookedAfter | None = None,
) -> None:
    """Serve from a program that has no event loop."""
    uvloop.run(serve_until_told(path, config, address, ready, admin=admin))
