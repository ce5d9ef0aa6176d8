"""What a head is to the node: how it is set up and started, and what it is asked while it serves.

Every head's folder has one value ``HEAD`` in its ``__init__.py``, and one line in ``heads.HEADS``.
The node binds the addresses of all heads first, opens the log, then starts the heads; it drains
and closes them in reverse. A library that owns its sockets fits in by taking over the bound one.
"""

from collections.abc import Awaitable, Callable, Iterable
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Protocol

import msgspec
from msgspec import Meta

from mainstem.heads.listen import OFF, Address
from mainstem.heads.metric import Metric, Sample
from mainstem.heads.transport.traffic import ConnectionInfo, Traffic

if TYPE_CHECKING:
    # Settings are read without a server, too, and this takes a while to load.
    import asyncio
    import socket

    from mainstem.heads.context import HeadContext

LISTEN = Meta(description="Where it listens: HOST:PORT (port 0 takes a free one), or off.")


class HeadSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What every head has in its section of the config."""

    listen: Annotated[str, LISTEN] = OFF


class RunningHead(Protocol):
    """A head while it serves."""

    @property
    def address(self) -> Address:
        """Where it listens."""

    @property
    def traffic(self) -> Traffic:
        """What its sockets have seen."""

    def connections(self) -> Iterable[ConnectionInfo]:
        """Return who is connected."""

    def samples(self) -> Iterable[tuple[Metric, Sample]]:
        """Return its metrics; called from any thread."""

    async def drain(self, within_s: float, hurry: "asyncio.Event") -> None:
        """Accept nobody and nothing more, and answer what was asked, while there is time."""

    async def close(self) -> None:
        """Close every connection."""


Start = Callable[["HeadContext", HeadSettings, "socket.socket"], Awaitable[RunningHead]]


def bind_tcp(settings: HeadSettings, address: Address) -> "socket.socket":
    """Take an address for a head that is connected to."""
    # Loaded only now: what is off costs nothing, and settings are read without sockets.
    taken: socket.socket = import_module("mainstem.heads.transport.server").bind(*address.pair)
    return taken


def starts_in(module: str) -> Start:
    """Return what starts a head: the function ``start`` of a module, which is loaded only then."""

    async def start(
        context: "HeadContext", settings: HeadSettings, listener: "socket.socket"
    ) -> RunningHead:
        begin: Start = import_module(module).start
        return await begin(context, settings, listener)

    return start


class Head(msgspec.Struct, frozen=True):
    """A protocol that can be served."""

    name: str
    """Its section of the config, and its flag."""
    title: str
    settings: HeadSettings
    """The defaults."""
    start: Start
    """Begins to serve. Loads what it needs itself: what is off costs nothing."""
    serves: str
    """What ``--help`` says of the flag: who connects there."""
    bind: Callable[[HeadSettings, Address], "socket.socket"] = bind_tcp
    """Takes the address, before the log is opened."""
    connect: str = "{at}"
    """What ``mainstem serve`` prints: how to connect."""
    examples: tuple[str, ...] = ()
    """Commands to try, with ``{at}`` for the address."""
    metrics: tuple[Metric, ...] = ()
    starts_first: bool = False
    """Whether it serves while the log is being opened, and until everything else has stopped."""
    auto: Address | None = None
    """Where it listens if its settings say ``auto``; a free port will do if that one is taken."""
