"""A listening socket of a head and its connections: bind, serve, drain, close."""

import asyncio
import logging
import socket
import ssl
import time
from collections.abc import Callable, Iterable

from mainstem.heads.conversation import Converse
from mainstem.heads.metric import Metric, Sample
from mainstem.heads.transport.acceptor import Acceptor
from mainstem.heads.transport.connection import LINGER_S, Connection
from mainstem.heads.transport.draining import drained
from mainstem.heads.transport.receive_budget import ReceiveBudget
from mainstem.heads.transport.receiver import READ_BYTES, UNFINISHED_BYTES
from mainstem.heads.transport.refusal import Refusal
from mainstem.heads.transport.traffic import ConnectionInfo, Traffic

_logger = logging.getLogger("mainstem.heads")

BACKLOG = 4096
"""Maximum number of connections that the kernel keeps until they are accepted; others retry after a
second.
"""
SILENCE_MS = 180_000
"""How long a peer's host may be silent (TCP keepalive, unacknowledged data) until it is
disconnected.
"""


def no_samples() -> Iterable[tuple[Metric, Sample]]:
    """Return no metrics: for heads whose only metrics are those of their sockets."""
    return ()


class Server:
    """A listening socket and its connections: the ``RunningHead`` of heads on TCP."""

    def __init__(
        self,
        acceptor: "Acceptor[Connection | Refusal]",
        connections: set[Connection],
        traffic: Traffic,
        samples: Callable[[], Iterable[tuple[Metric, Sample]]],
    ) -> None:
        self.traffic, self.address = traffic, acceptor.address
        self.samples = samples
        """Returns the head's own metrics with their values; may be called from any thread."""
        self._acceptor = acceptor
        self._connections = connections

    def connections(self) -> list[ConnectionInfo]:
        """Return the connected peers; may be called from any thread."""
        now = time.monotonic()
        return [ConnectionInfo(each.peer, now - each.since) for each in self._connections.copy()]

    async def drain(self, within_s: float, hurry: asyncio.Event) -> None:
        """Stop listening, and close each connection once its requests are answered.

        Returns after ``within_s`` at the latest, or when ``hurry`` is set.
        """
        self._acceptor.close()
        await drained(self._connections, within_s, hurry, _end_if_answered)

    async def close(self) -> None:
        """Stop listening, and close every connection; wait up to LINGER_S for peers to read."""
        self._acceptor.close()
        for connection in list(self._connections):
            connection.close_with_last_words()
        until = time.monotonic() + LINGER_S
        while self._connections and time.monotonic() < until:  # noqa: ASYNC110 - it is rare
            await asyncio.sleep(0.001)
        for connection in list(self._connections):
            connection.abort()
        await asyncio.sleep(0)


def _end_if_answered(connection: Connection) -> None:
    if not connection.is_owed:
        connection.say_goodbye()


def bind(host: str, port: int, silence_ms: int = SILENCE_MS) -> socket.socket:
    """Return a socket that is bound to an address and listens; port 0 takes a free port.

    Connections wait in the kernel until ``serve`` is called.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.create_server((host, port), family=family, backlog=BACKLOG)
    # Accepted connections inherit these options: the kernel probes idle peers, and closes the
    # connections of hosts that have disappeared.
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (
        (socket.TCP_KEEPIDLE, max(1, silence_ms // 1500)),
        (socket.TCP_KEEPINTVL, max(1, silence_ms // 18_000)),
        (socket.TCP_KEEPCNT, 6),
        (socket.TCP_USER_TIMEOUT, silence_ms),
    ):
        listener.setsockopt(socket.IPPROTO_TCP, option, value)
    return listener


def serve(
    listener: socket.socket,
    converse: Converse,
    *,
    max_connections: int,
    samples: Callable[[], Iterable[tuple[Metric, Sample]]] = no_samples,
    tls: ssl.SSLContext | None = None,
    beside: ReceiveBudget | None = None,
) -> Server:
    """Serve connections, up to a limit; with TLS, the conversation begins after the handshake.

    ``beside``: a memory budget of the head; while it is used up, connections read little at a time.
    """
    scratch = memoryview(bytearray(READ_BYTES))
    budget = ReceiveBudget(UNFINISHED_BYTES, beside)
    connections: set[Connection] = set()
    traffic = Traffic()

    def connect() -> "Connection | Refusal":
        # ``connections`` lacks those whose connection_made was not called yet.
        if traffic.open >= max_connections:
            traffic.refused += 1
            return Refusal(traffic.open)
        return Connection(converse, scratch, budget, connections, traffic)

    def give_up(protocol: "Connection | Refusal") -> None:
        if isinstance(protocol, Connection):
            traffic.closed += 1
            traffic.cut_off += 1

    return Server(Acceptor(listener, connect, give_up, tls), connections, traffic, samples)
