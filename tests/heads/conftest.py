"""The server that tests of a head attack, and the client of a head in memory."""

from collections.abc import Iterator
from typing import Protocol

import pytest
from tests.heads.server_process import Process


@pytest.fixture
def server(shared: Process) -> Iterator[Process]:
    """The server that a module's tests share; its memory must not grow beyond the limit."""
    with shared.within_bounds():
        yield shared


class World(Protocol):
    """A head on a broker in memory, which a module's fixture ``world`` makes."""

    async def client(self) -> object:
        """Connect a client."""


@pytest.fixture
async def client(world: World) -> object:
    return await world.client()
