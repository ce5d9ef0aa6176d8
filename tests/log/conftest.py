"""Fixtures of the tests of the log."""

import pytest
from tests.faults.disk.simulated_disk import SimFiles


@pytest.fixture
def files() -> SimFiles:
    """A simulated disk."""
    return SimFiles()
