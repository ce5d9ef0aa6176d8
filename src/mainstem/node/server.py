"""A server: a node, and the protocol heads through which clients connect to it."""

import asyncio
import contextlib
import errno
import secrets
import signal
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import msgspec
import uvloop

from mainstem import __version__
from mainstem.auth import Auth
from mainstem.core.errors import Failure, InvalidSetting, MainstemError
from mainstem.heads import HEADS
from mainstem.heads.addresses import AUTO, LOOPBACK, Address, address_of, parse_address
from mainstem.heads.context import HeadContext
from mainstem.heads.head import Head, RunningHead
from mainstem.node.admin_queries import AdminQueries
from mainstem.node.api.registration import offer_operations
from mainstem.node.broker_clock import BrokerClock
from mainstem.node.config import Config
from mainstem.node.connector_operations import NodeConnectors
from mainstem.node.gc_tuning import long_lived_left_out
from mainstem.node.health import Health, Phase
from mainstem.node.loop_committer import LoopCommitter
from mainstem.node.node import Node, open_node, time_of_day_ms

MEMORY = ":memory:"


class AddressTaken(MainstemError, failure=Failure.UNAVAILABLE):
    """Raised if another process listens on the address."""


class Running(msgspec.Struct, frozen=True):
    """A server that is ready: its node, its addresses, and how it was started."""

    node: Node
    addresses: dict[str, Address]
    """The address of each enabled head, by name."""
    started_ms: int
    """How long the server took to start, in ms."""
    catch_up: Callable[[], None]
    """Handles all passed deadlines now; for a caller that has moved the clock."""
    start_head: Callable[[str, str], Awaitable[Address]]
    """Starts a head that is off, given its name and listen address; call it in the event loop."""

    @property
    def kafka(self) -> Address:
        """The address for Kafka clients."""
        return self.addresses["kafka"]

    @property
    def admin(self) -> Address | None:
        """The address of the admin head; None if it is off."""
        return self.addresses.get("admin")


@contextlib.asynccontextmanager
async def running(
    path: Path | None,
    config: Config,
    *,
    now_ms: Callable[[], int] = time_of_day_ms,
    hurry: asyncio.Event | None = None,
    auth: Auth | None = None,
) -> AsyncIterator[Running]:
    """Serve a data directory, or a log in memory, until the block ends; then stop in order.

    Before it stops, it answers the requests received so far, unless ``hurry`` is set. ``auth`` has
    the permissions; without it, every client may do everything. Heads with ``starts_first``, such
    as the admin head, run while the log is opened and until all others have stopped.
    """
    began = time.monotonic()
    health, run_id = Health(), secrets.token_hex(8)
    operations = AdminQueries(health, __version__)
    heads = operations.heads
    async with contextlib.AsyncExitStack() as stack:
        bound = {
            head: stack.enter_context(listener)
            for head in HEADS
            if (listener := _bind(head, config)) is not None
        }
        context = HeadContext(
            now_ms,
            operations,
            auto_create=config.auto_create,
            run_id=run_id,
            auth=auth,
            directory=path,
        )
        context.addresses |= {head.name: address_of(each) for head, each in bound.items()}
        for head, listener in bound.items():
            if head.starts_first:
                await _start(stack, heads, head, context, config, listener)
        # In a thread, so that the admin head can answer while the log is recovered.
        node = await asyncio.to_thread(
            open_node,
            path,
            config,
            now_ms=now_ms,
            listens=_named(context, "kafka"),
            admin=_named(context, "admin"),
        )
        stack.callback(node.close)
        if node.committer is not None:
            stack.callback(LoopCommitter(node.committer, asyncio.get_running_loop()).stop)
        context.broker, context.defaults = node.broker, node.defaults
        stack.callback(offer_operations(context, operations, config).stop)
        clock = BrokerClock(node.broker)
        stack.callback(clock.stop)
        for head, listener in bound.items():
            if not head.starts_first:
                await _start(stack, heads, head, context, config, listener)
        connectors = operations.connectors = NodeConnectors(context, config)
        connectors.offer()
        # In a thread, because it waits for syncs, which the loop itself may have to make.
        await asyncio.to_thread(connectors.start)
        stack.push_async_callback(asyncio.to_thread, connectors.close)

        async def start_head(name: str, listen: str) -> Address:
            chosen = config.listening(**{name: listen})
            (head,) = (each for each in HEADS if each.name == name)
            listener = _bind(head, chosen)
            if listener is None:
                raise InvalidSetting(f"{head.flag} {listen}: give an address to start a head")
            bound[head] = stack.enter_context(listener)
            context.addresses[name] = address_of(listener)
            await _start(stack, heads, head, context, chosen, listener)
            return context.addresses[name]

        # Sessions and transactions that a crash left open have deadlines, too, so the clock starts
        # now.
        clock.look()
        operations.node = node
        health.stopped = lambda: node.stopped
        health.full = lambda: node.full
        health.failing = node.broker.timers.failing
        health.phase = Phase.READY
        try:
            took_ms = int((time.monotonic() - began) * 1000)
            yield Running(node, context.addresses, took_ms, clock.catch_up, start_head)
        finally:
            health.phase = Phase.DRAINING
            context.drain()
            within_s, until_then = config.drain_ms / 1000, hurry or asyncio.Event()
            draining = [heads[it.name] for it in bound if not it.starts_first and it.name in heads]
            await asyncio.gather(*(each.drain(within_s, until_then) for each in draining))


async def _start(
    stack: contextlib.AsyncExitStack,
    heads: dict[str, RunningHead],
    head: Head,
    context: HeadContext,
    config: Config,
    listener: socket.socket,
) -> None:
    started = await head.start(context, config.heads[head.name], listener)
    heads[head.name] = started
    stack.push_async_callback(started.close)


def _named(context: HeadContext, name: str) -> str | None:
    address = context.addresses.get(name)
    return None if address is None else str(address)


def _bind(head: Head, config: Config) -> socket.socket | None:
    """Return a socket bound to the head's listen address; None if the head is off."""
    settings = config.heads[head.name]
    option = head.flag
    if settings.listen == AUTO and head.auto is not None:
        try:
            return head.bind(settings, head.auto)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
        return head.bind(settings, Address(head.auto.host, 0))
    address = parse_address(settings.listen, option)
    if address is None:
        return None
    if address.host not in LOOPBACK:
        raise InvalidSetting(
            f"{option} {address}: {address.host} can be reached from other machines, and there is "
            "no authentication yet; listen on 127.0.0.1"
        )
    try:
        return head.bind(settings, address)
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise
        raise AddressTaken(
            f"another program listens at {address}: stop it, or choose another port with "
            f"{option} {address.host}:PORT (0 takes a free one)"
        ) from None


async def serve_until_told(
    path: Path | None, config: Config, ready: Callable[[Running], None]
) -> None:
    """Serve until SIGTERM, SIGINT or SIGHUP; a second signal stops without waiting for requests.

    If SIGHUP was ignored before, as under ``nohup``, it stays ignored.
    """
    told, hurry = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def tell() -> None:
        (hurry if told.is_set() else told).set()

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        if number == signal.SIGHUP and signal.getsignal(number) is signal.SIG_IGN:
            continue
        loop.add_signal_handler(number, tell)
    async with running(path, config, hurry=hurry) as server:
        with long_lived_left_out():
            ready(server)
            await told.wait()


def serve(path: Path | None, config: Config, ready: Callable[[Running], None]) -> None:
    """Run ``serve_until_told`` in a new event loop."""
    uvloop.run(serve_until_told(path, config, ready))
