"""A server for clients of another process."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.in_process_server import server

from mainstem.node.server import Running


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Running]:
    with server(tmp_path / "data") as found:
        yield found
