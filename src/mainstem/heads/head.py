"""The interface between the node and a head, the front end of a protocol.

Every head's folder has one value ``HEAD`` in its ``__init__.py``, and one line in ``heads.HEADS``.
Its ``settings.py`` has the settings, and ``start`` in its ``head.py`` starts it.
The node binds the addresses of all heads first, opens the log, then starts the heads; it drains and
closes them in reverse order. A head whose library opens its own sockets passes the bound one to it,
or closes that and lets the library bind the same address.
"""

from collections.abc import Awaitable, Callable, Iterable
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Protocol

import msgspec
from msgspec import Meta

from mainstem.core.errors import Unsupported
from mainstem.core.setting_types import MIB, PositiveInt
from mainstem.heads.addresses import OFF, Address
from mainstem.heads.metric import Metric, Sample
from mainstem.heads.transport.traffic import ConnectionInfo, Traffic

if TYPE_CHECKING:
    # Settings are also read without a server, and asyncio is slow to import.
    import asyncio
    import socket

    from mainstem.broker.door import Door
    from mainstem.heads.context import HeadContext

Listen = Annotated[str, "Listen address: HOST:PORT (port 0 takes a free one), or off."]
MaxConnections = Annotated[
    PositiveInt, "Maximum connections; more are closed at once, and counted."
]
"""A setting of the heads that limit their connections; each has its own default."""
BufferBytes = Annotated[int, Meta(ge=4096)]


class HeadSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The settings that every head has in its section of the config."""

    listen: Listen = OFF


class UdpSettings(HeadSettings, frozen=True):
    """The settings of a head that receives UDP packets."""

    receive_buffer_bytes: Annotated[
        BufferBytes,
        "Bytes of the kernel's receive buffer; packets beyond it are lost, and counted.",
    ] = 8 * MIB


class RunningHead(Protocol):
    """A started head."""

    @property
    def address(self) -> Address:
        """The address that the head listens on."""

    @property
    def traffic(self) -> Traffic:
        """Counters of the head's sockets."""

    def connections(self) -> Iterable[ConnectionInfo]:
        """Return the connected peers of the head."""

    def samples(self) -> Iterable[tuple[Metric, Sample]]:
        """Return the head's metrics with their values; called from any thread."""

    async def drain(self, within_s: float, hurry: "asyncio.Event") -> None:
        """Accept no more connections and requests, and answer earlier requests within ``within_s``.

        ``hurry``: an event that is set if the node must stop at once.
        """

    async def close(self) -> None:
        """Close every connection of the head."""


ForgetQueue = Callable[["Door", str], None]
"""Deletes a head's definitions of a deleted queue, whose name is the argument."""
Start = Callable[["HeadContext", HeadSettings, "socket.socket"], Awaitable[RunningHead]]


def bind_tcp(settings: HeadSettings, address: Address) -> "socket.socket":
    """Return a socket that listens on a TCP address."""
    # Imported only here, as settings are also read without a server.
    taken: socket.socket = import_module("mainstem.heads.transport.server").bind(*address.pair)
    return taken


def bind_udp(settings: HeadSettings, address: Address) -> "socket.socket":
    """Return a socket that is bound to a UDP address, with the receive buffer of the settings."""
    assert isinstance(settings, UdpSettings)
    taken: socket.socket = import_module("mainstem.heads.transport.datagrams").bind_datagrams(
        address, settings.receive_buffer_bytes
    )
    return taken


def forgets_queues_in(module: str, head: str, kind: str) -> ForgetQueue:
    """Return a function that deletes what a head has stored about a deleted queue.

    It imports ``module`` only if the head has definitions of this kind.
    """

    def forget_queue(door: "Door", name: str) -> None:
        if not door.definitions.open(head).items(kind):
            return
        forget: ForgetQueue = import_module(module).forget_queue
        forget(door, name)

    return forget_queue


class Head(msgspec.Struct, frozen=True):
    """A protocol that a node can serve."""

    name: str
    """The head's section of the config."""
    title: str
    settings: HeadSettings
    """The default settings of the head."""
    serves: str
    """The flag's text in ``--help``."""
    bind: Callable[[HeadSettings, Address], "socket.socket"] = bind_tcp
    """Binds a socket to the head's address; called before the log is opened."""
    connect: str = "{at}"
    """How clients connect, as ``mainstem serve`` prints it; ``{at}`` is the address."""
    examples: tuple[str, ...] = ()
    """Commands for users to try; ``{at}`` is the address, and braces of JSON are doubled."""
    extra: str = ""
    """The extra that installs the packages which the head needs."""
    metrics: tuple[Metric, ...] = ()
    forget_queue: ForgetQueue | None = None
    """Called for each queue that is deleted while the head is not running; a running head watches
    deletions itself.
    """
    starts_first: bool = False
    """Whether the head starts before the log is opened, and stops last."""
    auto_port: int | None = None
    """The port that the setting ``auto`` means; if it is taken, a free one is used."""

    @property
    def auto(self) -> Address | None:
        """The address that the setting ``auto`` means; None if the head has no such setting."""
        return None if self.auto_port is None else Address("127.0.0.1", self.auto_port)

    @property
    def flag(self) -> str:
        """The flag of ``mainstem serve`` that sets the head's listen address."""
        return f"--{self.name.replace('_', '-')}"

    async def start(
        self, context: "HeadContext", settings: HeadSettings, listener: "socket.socket"
    ) -> RunningHead:
        """Start the head on its bound socket; raises Unsupported if its extra is not installed."""
        # Not imported before, so that a head that is off costs nothing.
        package = type(self.settings).__module__.rpartition(".")[0]
        try:
            start: Start = import_module(f"{package}.head").start
        except ImportError as error:
            if not self.extra:
                raise
            raise Unsupported(
                f"{self.flag} needs the package {error.name}: pip install 'mainstem[{self.extra}]'"
            ) from None
        return await start(context, settings, listener)
