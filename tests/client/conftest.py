"""Stems to test with: in memory, and on disk."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import mainstem


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
