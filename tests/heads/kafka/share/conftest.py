"""A server, a topic with events, and members of a share group on it."""

from collections.abc import Iterator
from itertools import count

import pytest
from tests.heads.kafka.raw_peers import Peer
from tests.heads.kafka.share_member import Sharer, configure, put

_names = count()


@pytest.fixture
def topic(peer: Peer) -> str:
    """A topic with ten events in one batch, and the name of a group that would begin with them."""
    name = _made(peer)
    configure(peer, name, "share.auto.offset.reset", "earliest")
    return name


@pytest.fixture
def other(peer: Peer) -> str:
    """Another topic with ten events."""
    return _made(peer)


@pytest.fixture
def ann(address: str, topic: str) -> Iterator[Sharer]:
    found = Sharer(address, topic).joined()
    yield found
    found.close()


@pytest.fixture
def bob(address: str, topic: str) -> Iterator[Sharer]:
    found = Sharer(address, topic, "bob").joined()
    yield found
    found.close()


def _made(peer: Peer) -> str:
    name = f"orders.{next(_names)}"
    put(peer, name, 10)
    return name
