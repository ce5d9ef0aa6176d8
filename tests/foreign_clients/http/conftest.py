"""A server with the HTTP head, for the HTTP clients of this folder."""

import pytest
from tests.foreign_clients.http.http_server import CONFIG

from mainstem.node.config import Config
from mainstem.node.server import Running


@pytest.fixture(name="config", scope="module")
def _config() -> Config:
    return CONFIG


@pytest.fixture
def url(running: Running) -> str:
    return f"http://{running.addresses['http']}"
