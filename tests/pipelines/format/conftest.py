"""Servers to read from and write to: ours, and an Apache Kafka where there is one."""

from collections.abc import Iterator

import pytest
from bench.apache_kafka import ApacheKafka, missing
from tests.in_process_server import serving


@pytest.fixture(scope="module", params=["ours", pytest.param("apache", marks=pytest.mark.peers)])
def kafka(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """Serve a fresh directory; yields host:port."""
    directory = tmp_path_factory.mktemp("served")
    if request.param == "ours":
        with serving(directory) as address:
            yield address
        return
    reason = missing()
    if reason:
        pytest.skip(reason)
    server = ApacheKafka(directory)
    server.start()
    yield server.address
    server.stop()
