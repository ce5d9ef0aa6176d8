"""A server with the AMQP head and its management API, and a client of the latter."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
from tests.in_process_server import server

from mainstem.auth import Auth
from mainstem.node.config import Config
from mainstem.node.server import Running

GUEST = ("guest", "guest")
LISTENING = Config().listening(amqp="127.0.0.1:0", amqp_management="127.0.0.1:0")


@contextmanager
def managed(
    path: Path | None = None, *, auth: Auth | None = None, config: Config = LISTENING
) -> Iterator[Running]:
    """Serve until the block ends."""
    with server(path, auth=auth, config=config) as found:
        yield found


@contextmanager
def client(running: Running) -> Iterator[httpx.Client]:
    """Return a client of the management API, logged in as guest."""
    at = f"http://{running.addresses['amqp_management']}/api"
    with httpx.Client(base_url=at, auth=GUEST, timeout=30) as found:
        yield found


def amqp_url(running: Running) -> str:
    """Return where AMQP clients connect."""
    return f"amqp://guest:guest@{running.addresses['amqp']}/%2F"
