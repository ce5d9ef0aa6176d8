"""A server in a process of its own, so that its memory is not the attacker's."""

from collections.abc import Iterator

import pytest
from tests.heads.server_process import Process


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    """A server with default settings; some modules have one of their own."""
    process = Process(tmp_path_factory.mktemp("abused"))
    yield process
    process.close()


@pytest.fixture
def address(server: Process) -> str:
    return server.address
