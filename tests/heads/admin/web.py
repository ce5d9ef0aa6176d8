"""An admin head in a thread of this process, and a minimal HTTP client."""

import contextlib
import http.client
import socket
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from typing import NamedTuple

from tests.broker.brokers import Clock
from tests.loop_thread import entered

from mainstem.auth import Auth
from mainstem.core.event import Position
from mainstem.heads.admin.head import start
from mainstem.heads.admin.settings import AdminSettings
from mainstem.heads.admin_operations import Administration
from mainstem.heads.context import HeadContext
from mainstem.heads.transport.server import bind

PATIENCE_S = 60


class Page(NamedTuple):
    """What came back."""

    status: int
    text: str
    headers: dict[str, str]


def get(
    address: str,
    path: str = "/livez",
    method: str = "GET",
    headers: Mapping[str, str] | None = None,
    body: bytes | None = None,
) -> Page:
    """Ask as any HTTP client does."""
    host, _, port = address.rpartition(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=PATIENCE_S)
    try:
        connection.request(method, path, body, headers=dict(headers or {}))
        response = connection.getresponse()
        found = {name.lower(): value for name, value in response.getheaders()}
        return Page(response.status, response.read().decode(), found)
    finally:
        connection.close()


def connect(address: str) -> socket.socket:
    """Return a socket to say anything at all."""
    host, _, port = address.rpartition(":")
    return socket.create_connection((host, int(port)), timeout=PATIENCE_S)


def answer_to(peer: socket.socket, sent: bytes) -> bytes:
    """Send bytes, and return everything that comes until the server closes."""
    found = b""
    with contextlib.suppress(ConnectionError):
        peer.sendall(sent)
    with contextlib.suppress(ConnectionError):
        while more := peer.recv(65536):
            found += more
    return found


class _Told:
    """What a node tells, said by a test."""

    def __init__(self, not_ready: Callable[[], str | None], metrics: Callable[[], str]) -> None:
        self.not_ready = not_ready
        self.metrics = metrics

    def queues(self) -> bytes:
        return b"[]"

    def peek(self, topic: str, name: str, limit: int, after: Position | None) -> bytes:
        return b"[]"

    def connections(self) -> bytes:
        return b"[]"


@contextlib.contextmanager
def pages_served(
    metrics: Callable[[], str] = lambda: "",
    not_ready: Callable[[], str | None] = lambda: None,
    settings: AdminSettings | None = None,
    auth: Auth | None = None,
    administration: Administration | None = None,
) -> Iterator[str]:
    """Serve pages and operations until the block ends; gives host:port."""
    told = _Told(not_ready, metrics)
    with entered(_listening(told, settings, auth, administration)) as address:
        yield address


@contextlib.asynccontextmanager
async def _listening(
    told: _Told,
    settings: AdminSettings | None,
    auth: Auth | None,
    administration: Administration | None,
) -> AsyncIterator[str]:
    # As before the log is open: without a broker.
    context = HeadContext(Clock(), told, auth=auth)
    context.administration = administration or Administration()
    server = await start(context, settings or AdminSettings(), bind("127.0.0.1", 0))
    yield str(server.address)
    await server.close()
