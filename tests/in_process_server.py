"""A server for tests: in this process, on free ports."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.loop_thread import entered

from mainstem.auth import Auth
from mainstem.node.config import Config
from mainstem.node.node import time_of_day_ms
from mainstem.node.server import Running, running

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
    chosen = config.listening(kafka=f"127.0.0.1:{port}", admin="127.0.0.1:0")
    with entered(running(path, chosen, now_ms=now_ms, auth=auth)) as found:
        yield found
