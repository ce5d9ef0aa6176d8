"""The server that tests of a head attack."""

from collections.abc import Iterator

import pytest
from tests.heads.server_process import Process


@pytest.fixture
def server(shared: Process) -> Iterator[Process]:
    """The server that a module's tests share; its memory must not grow beyond the limit."""
    with shared.within_bounds():
        yield shared
