"""A server in memory, and clients of it over raw sockets."""

from collections.abc import Iterator

import pytest
from tests.heads.kafka.raw_peers import Healthy, Peer, served


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with served(None) as found:
        yield found


@pytest.fixture
def peer(address: str) -> Iterator[Peer]:
    with Peer(address) as found:
        yield found


@pytest.fixture
def healthy(address: str) -> Iterator[Healthy]:
    """A client that must be served during the test and after it."""
    client = Healthy(address)
    yield client
    client.check()
    client.close()
