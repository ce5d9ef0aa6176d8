"""Tests of a module share a MariaDB."""

from collections.abc import Iterator

import pytest
from tests.connectors.mariadb.databases import MariaDb, mariadb


@pytest.fixture(scope="module")
def db() -> Iterator[MariaDb]:
    with mariadb() as found:
        yield found
