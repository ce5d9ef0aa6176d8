"""A server for unmodified clients: in this process, on a free port, in a directory of its own."""

from collections.abc import Iterator

import pytest
from tests.serving import serving


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Serve a fresh directory; yields host:port."""
    with serving(tmp_path_factory.mktemp("served")) as address:
        yield address
