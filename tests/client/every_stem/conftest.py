"""A stem of each kind: opened in this process, and connected to a server or to a Kafka."""

from collections.abc import Iterator
from itertools import count

import pytest
from bench.apache_kafka import ApacheKafka, missing
from tests.in_process_server import serving

import mainstem
from mainstem.client.stem import Stem

_numbers = count()


@pytest.fixture(autouse=True)
def no_kafka_clients_left() -> None:
    """Let the stems that all tests share make clients as they need them."""


@pytest.fixture(scope="package")
def opened() -> Iterator[Stem]:
    with mainstem.open(":memory:") as stem:
        yield stem


@pytest.fixture(scope="package")
def connected(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stem]:
    with (
        serving(tmp_path_factory.mktemp("served")) as address,
        mainstem.connect(address) as stem,
    ):
        yield stem


@pytest.fixture(scope="package")
def of_kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stem]:
    if reason := missing():
        pytest.skip(reason)
    server = ApacheKafka(tmp_path_factory.mktemp("kafka"))
    server.start()
    try:
        with mainstem.connect(server.address) as stem:
            yield stem
    finally:
        server.stop()


@pytest.fixture(params=["opened", "connected", pytest.param("of_kafka", marks=pytest.mark.peers)])
def stem(request: pytest.FixtureRequest) -> Stem:
    """A stem of each kind."""
    found: Stem = request.getfixturevalue(request.param)
    return found


@pytest.fixture(params=["opened", "connected"])
def stem_of_ours(request: pytest.FixtureRequest) -> Stem:
    """A stem of each kind but Kafka's, for what a Kafka does not have."""
    found: Stem = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def name() -> str:
    """A name that nothing has yet."""
    return f"n{next(_numbers)}"
