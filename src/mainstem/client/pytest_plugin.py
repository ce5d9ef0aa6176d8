"""The pytest plugin: the fixture ``mainstem``, a broker for the test run.

Every run pays for importing this, so what a broker needs is imported when the first test asks.
"""

import re
from collections.abc import Iterator
from itertools import count
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from mainstem.client.local_broker import LocalBroker, LocalServer


class _Servers:
    """The server of this process, one at a time; under xdist every worker has its own."""

    def __init__(self, directories: pytest.TempPathFactory) -> None:
        self._directories = directories
        self._server: LocalServer | None = None
        self.numbers = count(1)

    def take(self) -> "LocalServer":
        """Return the server, started at the first call, and after it has ended by itself."""
        from mainstem.client.local_broker import LocalServer  # noqa: PLC0415

        if self._server is not None and not self._server.answers():
            self.end()
        if self._server is None:
            self._server = LocalServer(self._directories.mktemp("mainstem"))
        return self._server

    def give_back(self) -> None:
        """Keep the server for the next test, unless its clock would not be the next one's."""
        if self._server is not None and self._server.moved:
            self.end()

    def end(self) -> None:
        """End the server."""
        if self._server is not None:
            self._server.kill()
            self._server = None


@pytest.fixture(scope="session")
def _mainstem_servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[_Servers]:
    servers = _Servers(tmp_path_factory)
    yield servers
    servers.end()


@pytest.fixture
def mainstem(
    _mainstem_servers: _Servers, request: pytest.FixtureRequest
) -> Iterator["LocalBroker"]:
    """Give a broker: ``.kafka`` is its address, ``.topic(name)`` a topic of the test's own."""
    from mainstem.client.local_broker import LocalBroker  # noqa: PLC0415

    name = re.sub(r"[^a-zA-Z0-9._-]", "-", request.node.name)[:80]
    broker = LocalBroker(_mainstem_servers.take(), f"{name}-{next(_mainstem_servers.numbers)}")
    yield broker
    broker.close()
    _mainstem_servers.give_back()
