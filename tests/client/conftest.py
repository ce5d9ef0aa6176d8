"""Stems to test with: in memory, and on disk."""

import socket
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from tests.in_process_server import serving

import mainstem
from mainstem import aio


@pytest.fixture(params=["memory", "disk"])
def stem(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[mainstem.EmbeddedStem]:
    """A stem of each kind."""
    path = ":memory:" if request.param == "memory" else tmp_path / "data"
    with mainstem.open(path) as opened:
        yield opened


@pytest.fixture
def memory() -> Iterator[mainstem.EmbeddedStem]:
    """A stem in memory, where the kind of log does not matter."""
    with mainstem.open(":memory:") as opened:
        yield opened


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Serve a fresh directory; yields host:port."""
    with serving(tmp_path_factory.mktemp("served")) as address:
        yield address


@pytest.fixture
def silent() -> Iterator[str]:
    """An address where connections are taken, and nothing is said."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"127.0.0.1:{listener.getsockname()[1]}"


@pytest.fixture(params=["opened", "connected"])
async def async_stem(request: pytest.FixtureRequest) -> AsyncIterator[aio.AsyncStem]:
    """A stem of each kind, on the event loop of the test."""
    if request.param == "opened":
        async with aio.open(":memory:") as opened:
            yield opened
        return
    with serving(None) as address:
        async with aio.connect(address) as connected:
            yield connected
